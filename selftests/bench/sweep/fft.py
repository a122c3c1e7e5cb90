# SPDX-License-Identifier: MIT
"""Fourier transforms of random lengths, timed here, in MKL and in pocketfft.

	fft.py [--seed N] [--cases N] [--threads N] [--family NAME ...] [--kind KIND ...]
	       [--dtype DTYPE ...] [--n N] [--batch N] [--across] [--worst N] [--verbose]

Draws --cases of each family (powers of two, products of small primes, primes and twice primes,
anything) for each kind and dtype, a third of several lines with lines that lie side by side, checks
each result against NumPy's in double, and times the sides in turns within this process: MKL by its
own C functions, NumPy and SciPy, which have pocketfft, with the result in place where they can. A
ratio is our fastest run by that of the faster peer: below 1 ours is faster. What a call from Python
takes is measured and taken off. Runs of one thread are timed by its own clock.

It fails where a result is wrong, or where a step takes the reference evaluator."""
import ctypes as C
import glob
import math
import os
import sys
import time

# One thread for each side, and memory that stays: results of SciPy are new arrays.
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MKL_THREADING_LAYER", "SEQUENTIAL")
if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
    os.environ.update(MALLOC_TRIM_THRESHOLD_="8000000000", MALLOC_MMAP_THRESHOLD_="1000000000")
    os.execv(sys.executable, [sys.executable] + sys.argv)

import numpy as np
import scipy.fft

from graph import Ints, Op
from report import size
from timing import options, time_all

TURNS, TURN_S, TOO_SHORT = 7, 0.01, 10e-6
KINDS, DTYPES = ("fft", "ifft", "rfft", "irfft"), ("float32", "float64")
MOST = 1 << 20		# elements of a case


def is_prime(n):
    return n > 1 and all(n % p for p in range(2, math.isqrt(n) + 1))


def two(rng):
    return 1 << rng.integers(3, 21)


def smooth(rng):
    while True:
        n = 1
        for p in (2, 3, 5, 7, 11, 13):
            n *= p ** int(rng.integers(0, {2: 10, 3: 5, 5: 4}.get(p, 2)))
        if 8 <= n <= 1 << 19:
            return n


def prime(rng):
    n = size(rng, 8, 100000, (1,))
    while not is_prime(n):
        n += 1
    return n * int(rng.integers(1, 3))


def anything(rng):
    return size(rng, 8, 1 << 19, (1,))


FAMILIES = {"two": two, "smooth": smooth, "prime": prime, "any": anything}


class Mkl:
    """A descriptor, committed: what MKL's own interface is."""
    name, lib = "mkl", None

    def __init__(self, kind, x, y, n, axis):
        lib = Mkl.lib = Mkl.lib or C.CDLL(self.path())
        real, batch = kind in ("rfft", "irfft"), x.shape[1 - axis]
        double = x.dtype in (np.float64, np.complex128)
        self.h = C.c_void_p()
        self.want(lib.DftiCreateDescriptor(C.byref(self.h), 36 if double else 35,
                                           33 if real else 32, C.c_long(1), C.c_long(n)))
        inverse = kind[0] == "i"
        between = (x.shape[1], y.shape[1]) if axis else (1, 1)
        for param, value in ((11, C.c_int(44)), (7, C.c_long(batch)),
                             (14, C.c_long(between[0])), (15, C.c_long(between[1])),
                             (12, (C.c_long * 2)(0, 1 if axis else batch)),
                             (13, (C.c_long * 2)(0, 1 if axis else batch)), (27, C.c_long(1))):
            self.want(lib.DftiSetValue(self.h, param, value))
        if real:
            self.want(lib.DftiSetValue(self.h, 10, C.c_int(39)))
        if inverse:
            self.want(lib.DftiSetValue(self.h, 5, C.c_double(1 / n)))
        self.want(lib.DftiCommitDescriptor(self.h))
        self.x, self.y = x, y
        self.call = lib.DftiComputeBackward if inverse else lib.DftiComputeForward
        self.args = self.h, C.c_void_p(x.ctypes.data), C.c_void_p(y.ctypes.data)
        self.run()

    @staticmethod
    def path():
        some = sorted(glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so.*")))
        if not some:
            sys.exit("fft.py: no libmkl_rt.so in %s/lib: install mkl there (PyPI)" % sys.prefix)
        return some[-1]

    @staticmethod
    def want(status):
        if status:
            raise RuntimeError("MKL: status %d" % status)

    def run(self):
        self.call(*self.args)

    def output(self):
        return self.y

    def close(self):
        self.lib.DftiFreeDescriptor(C.byref(self.h))


class NumPy:
    name = "numpy"

    def __init__(self, kind, x, y, n, axis):
        self.x, self.y, self.n, self.f = x, y, n, getattr(np.fft, kind)
        self.axis = axis

    def run(self):
        self.f(self.x, self.n, self.axis, out=self.y)

    def output(self):
        return self.y

    def close(self):
        pass


class SciPy(NumPy):
    name = "scipy"

    def __init__(self, kind, x, y, n, axis):
        super().__init__(kind, x, y, n, axis)
        self.f = getattr(scipy.fft, kind)

    def run(self):
        self.y = self.f(self.x, self.n, self.axis)


class Ours:
    name = "rlx"

    def __init__(self, kind, x, n, axis, threads):
        if x.dtype.kind == "c":
            x = x.view(x.real.dtype).reshape(*x.shape, 2)
        # fft: axes, n, inverse, norm; rfft, irfft: axes, n, norm(, joined)
        axes, ns = Ints.of(axis), Ints.of(n)
        self.op = Op({"ifft": "fft"}.get(kind, kind), [x],
                     (axes, ns, int(kind == "ifft"), 0) if kind in ("fft", "ifft") else
                     (axes, ns, 0, 0) if kind == "rfft" else (axes, ns, 0), threads=threads)
        self.run, self.complex = self.op.run, kind != "irfft"

    def output(self):
        y = self.op.output()
        if not self.complex:
            return y
        return y.view(np.result_type(y.dtype, np.complex64)).reshape(y.shape[:-1])

    def close(self):
        self.op.close()


def sides_of(kind, dtype, n, batch, axis, threads, rng):
    """The case's sides, and its result in double: of lines along the last @axis, 1, or across."""
    c = np.result_type(dtype, np.complex64)
    shape = (batch, n // 2 + 1 if kind == "irfft" else n)
    x = rng.standard_normal(shape).astype(dtype)
    if kind != "rfft":
        x = (x + 1j * rng.standard_normal(shape)).astype(c)
    if kind == "irfft":		# what else is there is not read by all
        x[:, 0].imag = 0
        if n % 2 == 0:
            x[:, -1].imag = 0
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if not axis:
        x, wide = np.ascontiguousarray(x.T), np.ascontiguousarray(wide.T)
    want = getattr(np.fft, kind)(wide, n, axis)
    y = [np.empty(want.shape, dtype if kind == "irfft" else c) for _ in range(3)]
    some = [Ours(kind, x, n, axis, threads)]
    some += [p(kind, x, one, n, axis) for p, one in zip((Mkl, NumPy, SciPy), y)]
    return some, want


def clock_of(threads):
    """Of one thread its own time: runs longer than a time slice are never without a break."""
    return time.thread_time if threads == 1 else time.perf_counter


def one(kind, dtype, n, batch, axis, threads, own, rng):
    some, want = sides_of(kind, dtype, n, batch, axis, threads, rng)
    best = time_all(some, TURNS, TURN_S, clock=clock_of(threads))
    off = np.linalg.norm(some[0].output() - want) / max(np.linalg.norm(want), 1e-300)
    for s in some:
        s.close()
    t = {name: max(s - own[name], 1e-9) for name, s in best.items()}
    return t, off / np.finfo(dtype).eps


def main():
    p = options(10)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--family", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    p.add_argument("--kind", nargs="*", choices=KINDS, default=KINDS)
    p.add_argument("--dtype", nargs="*", choices=DTYPES, default=DTYPES)
    p.add_argument("--n", type=int)
    p.add_argument("--batch", type=int)
    p.add_argument("--across", action="store_true", help="lines that lie side by side alone")
    p.add_argument("--worst", type=int, default=12)
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    print("seed %d" % args.seed)
    some, _ = sides_of("fft", "float32", 1, 1, 1, 1, np.random.default_rng(0))
    own = time_all(some, TURNS, TURN_S, clock=clock_of(args.threads))
    print("a call takes " + ", ".join("%s %.1f us" % (n, 1e6 * s) for n, s in own.items()))
    done, wrong = [], 0
    for f in args.family:
        for kind in args.kind:
            for dtype in args.dtype:
                for i in range(args.cases):
                    rng = np.random.default_rng([args.seed, i, *map(ord, f + kind + dtype)])
                    n = args.n or int(FAMILIES[f](rng))
                    batch = args.batch or max(1, min(MOST // n, [1, 1, 0][rng.integers(0, 3)] or
                                                     size(rng, 2, 4096, (1,))))
                    axis = 0 if args.across or batch > 1 and rng.integers(0, 3) == 0 else 1
                    t, off = one(kind, dtype, n, batch, axis, args.threads, own, rng)
                    bad = off > 4 + math.log2(n)
                    wrong += bad
                    mkl, pocket = t["mkl"], min(t["numpy"], t["scipy"])
                    r = t["rlx"] / min(mkl, pocket)
                    said = "%-6s %-5s %s n %7d x %5d %s %9.1f us, of mkl %5.2f, pocketfft" \
                        " %5.2f%s" % (f, kind, dtype, n, batch, "along " if axis else "across",
                                      1e6 * t["rlx"], t["rlx"] / mkl, t["rlx"] / pocket,
                                      "  WRONG: %.1f eps" % off if bad else "")
                    if args.verbose or bad:
                        print(said, flush=True)
                    if min(mkl, pocket) >= TOO_SHORT:
                        done.append((r, t["rlx"] / mkl, t["rlx"] / pocket, f, dtype, said))
    print("%-6s %-8s cases   of mkl: median    90 %%   worst   of pocketfft: median    90 %%"
          "   worst  above 1.2" % ("family", "dtype"))
    for f in args.family:
        for dtype in args.dtype:
            d = [c for c in done if c[3] == f and c[4] == dtype]
            if not d:
                continue
            line = []
            for k in (1, 2):
                r = sorted(c[k] for c in d)
                line += [r[len(r) // 2], r[len(r) * 9 // 10], r[-1]]
            print("%-6s %-8s %5d %16.2f %7.2f %7.2f %20.2f %7.2f %7.2f %6d" % (
                f, dtype, len(d), *line, sum(c[0] > 1.2 for c in d)))
    print("the worst:")
    for c in sorted(done, key=lambda c: -c[0])[:args.worst]:
        print("  " + c[5])
    print("%d wrong [seed %d]" % (wrong, args.seed))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
