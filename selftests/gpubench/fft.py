# SPDX-License-Identifier: MIT
"""Fourier transforms of drawn lengths on a GPU, timed here, by cuFFT and by torch.fft.

	fft.py PROGRAMS [--seed N] [--cases N] [--family NAME ...] [--seconds S] [--no-peer]

PROGRAMS is selftests/gpubench/programs, built. cuFFT is called directly, with a plan of its own, so
that neither the copy nor the scaling that PyTorch adds to it is timed; without it (no libcufft in
the process) torch.fft is the only peer. All are CUDA graphs of some runs, operands on the device,
in turns; a ratio is the fastest peer's time by ours, each the median of its turns, and the spread
is that of our turns, (slowest - fastest) / median. Behind them is what share of the time bytes of
operand and result take at the bandwidth of a large copy. It fails where results differ from
torch.fft's in double."""
import ctypes
import math
import os
import random
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "sweep"), os.path.join(HERE, "..", "bench", "sweep")]
import torch  # noqa: E402

import report  # noqa: E402
from cases import Draw  # noqa: E402
from sweep import Failed, Ours  # noqa: E402
from timing import options  # noqa: E402
from ways import Way, operands_of  # noqa: E402

TURNS, SAMPLES, MOST = 5, 1021, 1 << 24
GOAL = 1.3	# ours by cuFFT's, at most
# Of the largest number; those of f64 come as seven digits.
NEAR = {"f64": 1e-6, "f32": 2e-6, "f16": 4e-3}
SIZE = {"f64": 8, "f32": 4, "f16": 2}
KINDS = ("fft", "ifft", "rfft", "irfft")


# ---- what is drawn ----

def smooth(rng, lo, hi):
    """A product of 2, 3, 5 and 7 between the two, evenly by logarithm of where it is sought."""
    v = int(math.exp(rng.uniform(math.log(lo), math.log(hi))))
    while max(factors(v)) > 7:
        v += 1
    return v


def factors(n):
    some, p = [1], 2
    while p * p <= n:
        while n % p == 0:
            some.append(p)
            n //= p
        p += 1
    return some + [n] if n > 1 else some


def prime(rng, lo, hi):
    v = int(math.exp(rng.uniform(math.log(lo), math.log(hi))))
    while len(factors(v)) > 2:
        v += 1
    return v


def lines(rng, n, most=None):
    """So many that they stay in the L2, or that they do not."""
    return max(1, int(2 ** rng.uniform(14, math.log2(most or MOST))) // n)


def pow2(rng):
    n = 1 << rng.randint(4, 14)
    return (lines(rng, n), n), (1,)


def mixed(rng):
    n = smooth(rng, 12, 16384)
    return (lines(rng, n), n), (1,)


def primes(rng):
    n = prime(rng, 11, 4096)
    return (lines(rng, n, MOST / 2), n), (1,)


def hard(rng):
    n = prime(rng, 67, 2048) * report.one_of(rng, 2, 3, 4, 6, 8, 10, 16)
    return (lines(rng, n, MOST / 2), n), (1,)


def long(rng):
    n = report.one_of(rng, 1 << rng.randint(15, 23), 1 << rng.randint(15, 23),
                      smooth(rng, 30000, 1 << 23), smooth(rng, 30000, 1 << 21),
                      prime(rng, 30000, 1 << 19))
    return (report.one_of(rng, 1, 1, 1, 4), n), (1,)


def columns(rng):
    n = report.one_of(rng, 1 << rng.randint(4, 13), smooth(rng, 12, 8192))
    return (report.one_of(rng, 1, 4), n, max(4, lines(rng, 4 * n))), (1,)


def planes(rng):
    n = [report.one_of(rng, 1 << rng.randint(5, 12), smooth(rng, 24, 2048)) for _ in range(2)]
    return (max(1, lines(rng, n[0] * n[1])), *n), (1, 2)


def volumes(rng):
    n = [report.one_of(rng, 1 << rng.randint(4, 8), smooth(rng, 12, 256)) for _ in range(3)]
    return (max(1, lines(rng, n[0] * n[1] * n[2], MOST / 4)), *n), (1, 2, 3)


def half(rng):
    n = 1 << rng.randint(4, 14)
    return (lines(rng, n), n), (1,)


FAMILIES = {f.__name__: f for f in
            (pow2, mixed, primes, hard, long, columns, planes, volumes, half)}


class Case(Draw):
    def __init__(self, family, rng):
        super().__init__(0, family, 0, 1 << 28)
        self.shape, self.axes = FAMILIES[family](rng)
        self.kind = report.one_of(rng, *KINDS[:2 if family in ("half", "columns") else 4])
        self.dtype = "f16" if family == "half" else report.one_of(rng, "f32", "f32", "f32", "f64")
        self.n = [self.shape[a] for a in self.axes]
        spectrum = list(self.shape)
        if self.kind in ("rfft", "irfft"):
            spectrum[self.axes[-1]] = self.n[-1] // 2 + 1
        spectrum.append(2)
        x = self.input("x", self.shape if self.kind == "rfft" else spectrum)
        fields = {"x": x, "axes": self.axes, "n": self.n}
        if self.kind == "ifft":
            fields["inverse"] = True
        self.op("fft" if self.kind == "ifft" else self.kind, **fields)
        self.bytes = SIZE[self.dtype] * (
            math.prod(self.shape) + math.prod(spectrum) if self.kind in ("rfft", "irfft") else
            2 * math.prod(spectrum))
        self.say(self.kind, self.dtype, "x".join(map(str, self.shape)), "axes",
                 ",".join(map(str, self.axes)))


# ---- peers ----

class Cufft:
    """The library that PyTorch has loaded, by its C interface."""
    def __init__(self):
        torch.fft.fft(torch.zeros(4, device="cuda"))
        with open("/proc/self/maps") as f:
            found = re.search(r"/\S*libcufft\.so\S*", f.read())
        if not found:
            raise OSError("no libcufft in this process")
        self.lib = ctypes.CDLL(found.group())
        self.plans = []

    def check(self, rc, what):
        if rc:
            raise RuntimeError("%s says %d" % (what, rc))

    def plan(self, d):
        """One of all of @d's axes; lines of a 1-D one may lie across the last dimension."""
        n = (ctypes.c_longlong * len(d.n))(*d.n)
        plan, work = ctypes.c_int(), ctypes.c_size_t()
        self.check(self.lib.cufftCreate(ctypes.byref(plan)), "cufftCreate")
        self.plans.append(plan)
        # enum cudaDataType: complex, real of each
        c, r = {"f16": (6, 2), "f32": (4, 0), "f64": (5, 1)}[d.dtype]
        a, b = {"rfft": (r, c), "irfft": (c, r)}.get(d.kind, (c, c))
        behind = math.prod(d.shape[d.axes[-1] + 1:])
        if behind > 1:		# a plan for one matrix of columns
            args = (n, ctypes.c_longlong(behind), ctypes.c_longlong(1), a,
                    n, ctypes.c_longlong(behind), ctypes.c_longlong(1), b,
                    ctypes.c_longlong(behind))
        else:
            args = (None, ctypes.c_longlong(1), ctypes.c_longlong(0), a,
                    None, ctypes.c_longlong(1), ctypes.c_longlong(0), b,
                    ctypes.c_longlong(math.prod(d.shape[:d.axes[0]])))
        self.check(self.lib.cufftXtMakePlanMany(plan, len(d.n), n, *args, ctypes.byref(work), c),
                   "cufftXtMakePlanMany")
        return plan, behind

    def way(self, d, x, y):
        """x as the op takes it; the result, not scaled, comes to y."""
        plan, behind = self.plan(d)
        x, sign = x.clone(), 1 if d.kind in ("ifft", "irfft") else -1
        pieces = math.prod(d.shape[:d.axes[0]]) if behind > 1 else 1

        def run():
            stream = torch.cuda.current_stream().cuda_stream
            self.check(self.lib.cufftSetStream(plan, ctypes.c_void_p(stream)), "cufftSetStream")
            for i in range(pieces):
                at = [ctypes.c_void_p(t.data_ptr() + i * (t.nbytes // pieces)) for t in (x, y)]
                self.check(self.lib.cufftXtExec(plan, *at, sign), "cufftXtExec")
            return y
        return run

    def drop(self):
        for p in self.plans:
            self.lib.cufftDestroy(p)
        self.plans = []


def by_torch(d, x):
    fn = getattr(torch.fft, d.kind + "n")
    if d.kind != "rfft":
        x = torch.view_as_complex(x)

    def run():
        y = fn(x, d.n, d.axes) if d.kind == "irfft" else fn(x, dim=d.axes)
        return y if d.kind == "irfft" else torch.view_as_real(y)
    return run


def wanted(d, x):
    """Numbers of the result, in double, of a spectrum that a real line can have."""
    x = x.double()
    if d.kind == "irfft":
        x = torch.view_as_complex(x)
        x = torch.fft.ifftn(x, dim=d.axes[:-1]) if len(d.axes) > 1 else x.clone()
        x[..., 0].imag.zero_()
        if d.n[-1] % 2 == 0:
            x[..., -1].imag.zero_()
        y = torch.fft.irfft(x, d.n[-1])
    else:
        y = by_torch(d, x)()
    y = y.reshape(-1)
    at = [i * (y.numel() - 1) // (SAMPLES - 1) for i in range(SAMPLES)]
    return y[torch.tensor(at, device=y.device)].tolist()


def peers_of(d, x, cufft, repeats):
    """Ways by name, torch.fft's first; and why one is missing."""
    ways, notes = [], []
    y = torch.empty_like(by_torch(d, x)())
    for name, make in (("torch", lambda: by_torch(d, x)),
                       ("cuFFT", lambda: cufft.way(d, x, y))):
        try:
            if cufft or name == "torch":
                ways.append(Way(name, make(), repeats))
        except RuntimeError as e:
            notes.append("%s: %s" % (name, str(e).split("\n")[0][:90]))
    return ways, notes


def bandwidth():
    """Bytes a microsecond of a large copy, read and written."""
    x = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.nbytes / Way("copy", lambda: y.copy_(x), 3).us()


# ---- one of them ----

def differs(got, want, dtype):
    top = max(map(abs, want)) or 1
    for i, (a, b) in enumerate(zip(got, want)):
        if not abs(a - b) <= NEAR[dtype] * top:
            return "number %d of %d is %g, not %g" % (i, len(want), a, b)
    return ""


def numbers(ours):
    return [float(v) for v in ours.word(b"sample %d\n" % SAMPLES).split()]


def repeats_of(d, rate):
    return max(1, min(20, int(400 / (d.bytes / rate + 2))))


def measure(d, ours, i, cufft, rate):
    repeats = repeats_of(d, rate)
    launches, host = ours.open(i, repeats)
    if host:
        raise Failed("rlx: %d steps are the reference evaluator's" % host)
    ways, notes, wrong = [], [], ""
    if cufft is not None:
        x = operands_of(d)["x"]
        wrong = differs(numbers(ours), wanted(d, x), d.dtype)
        ways, notes = peers_of(d, x, cufft, repeats)
    us, theirs = [], {w.name: [] for w in ways}
    for _ in range(TURNS):
        us.append(ours.us())
        for w in ways:
            theirs[w.name].append(w.us())
    ours.close()
    best = statistics.median(us)
    medians = {k: statistics.median(v) for k, v in theirs.items()}
    ratio = min(medians.values()) / best if medians else 0
    print("%6.2f  %9.1f us +-%2.0f %%  %-44s %s  [%d launches, %2.0f %% of the bandwidth]%s%s" % (
        ratio, best, 50 * (max(us) - min(us)) / best, d.title(),
        "  ".join("%s %.1f" % p for p in medians.items()), launches,
        100 * d.bytes / rate / best, "  WRONG: " + wrong if wrong else "",
        "  (%s)" % "; ".join(notes) if notes else ""), flush=True)
    return ratio, wrong


def run_family(family, args, ours, cufft, rate):
    rng, ratios, failed = random.Random("%d %s" % (args.seed, family)), [], 0
    draws = [Case(family, rng) for _ in range(args.cases)]
    said, end = ours.prepare(draws), time.monotonic() + args.seconds
    for i, d in enumerate(draws):
        if time.monotonic() > end:
            print("  %s: time is up: %d of %d are measured" % (family, i, len(draws)))
            break
        try:
            if not said[i].startswith("ok"):
                raise Failed("rlx: " + said[i])
            ratio, wrong = measure(d, ours, i, cufft, rate)
        except (Failed, RuntimeError) as e:
            ratio, wrong = 0, str(e)
            print("        %s: %s" % (d.title(), wrong.split("\n")[0]), flush=True)
        failed += bool(wrong)
        if ratio and not wrong:
            ratios.append((ratio, d))
        if cufft:
            cufft.drop()
        torch.cuda.empty_cache()
    return ratios, failed


def main():
    p = options(12)
    p.add_argument("programs")
    p.add_argument("--seconds", type=float, default=30, help="of a family, at most")
    p.add_argument("--no-peer", action="store_true", help="times of ours alone")
    p.add_argument("--family", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    args = p.parse_args()
    ours, failed, done = Ours(os.path.abspath(args.programs), 120), 0, {}
    cufft, rate = None, bandwidth()
    if not args.no_peer:
        try:
            cufft = Cufft()
        except OSError as e:
            print("%s: torch.fft alone" % e)
            cufft = False
    print("seed %d, against PyTorch %s on %s, %.2f TB/s" % (
        args.seed, torch.__version__, torch.cuda.get_device_name(0), rate * 1e-6), flush=True)
    for family in args.family:
        done[family], bad = run_family(family, args, ours, cufft, rate)
        failed += bad
        print(report.summary(family, [r for r, _ in done[family]]), flush=True)
    ours.p.stop()
    print(report.HEAD)
    for family in args.family:
        print(report.summary(family, [r for r, _ in done[family]]))
    every = [one for family in args.family for one in done[family]]
    slow = sorted((r, d.title()) for r, d in every if r and r * GOAL < 1)
    print(report.summary("all", [r for r, _ in every]))
    print("%d of %d take more than %.1f times the peer's:" % (len(slow), len(every), GOAL))
    for r, title in slow:
        print("  %5.2f times  %s" % (1 / r, title))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
