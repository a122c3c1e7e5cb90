# SPDX-License-Identifier: MIT
"""Random problems of many families on a GPU, timed here and in PyTorch.

	sweep.py [--seed N] [--cases N] [--family NAME ...] [--family-seconds S] [--no-peer]

Draws --cases of each family from the seed (a fresh one if none is given; it is printed),
checks that both sides compute the same, and times them in turns: CUDA graphs of some runs,
operands on the device, each side in a process of its own that this one asks. A ratio is the
peer's fastest way by ours: above 1 ours is faster. It prints a line for each family, and the
ten worst problems.

A problem that fails on a side is told and does not count; a process that dies, or does not
answer in --patience seconds, is started anew. A family ends after --family-seconds (whole
blocks after twice that), with what it has by then. Operands are as warm in the L2 on both
sides as one run leaves them for the next."""
import argparse
import json
import math
import os
import select
import subprocess
import sys
import time

import cases
from report import HEAD, summary

TURNS, SAMPLES = 3, 64
NEAR = {"f32": 2e-3, "f16": 2e-2, "bf16": 8e-2}	# of the largest number there is


class Failed(Exception):
    pass


class Process:
    """A child that answers lines; started when it is asked, again after it has died."""

    def __init__(self, name, argv, patience):
        self.name, self.argv, self.patience = name, argv, patience
        self.p, self.rest, self.starts = None, b"", 0

    def start(self):
        self.p = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  cwd=os.path.dirname(os.path.abspath(__file__)))
        self.rest, self.starts = b"", self.starts + 1

    def alive(self):
        if self.p and self.p.poll() is not None:
            self.p = None
        return self.p is not None

    def stop(self):
        if self.p:
            self.p.kill()
            self.p.wait()
        self.p = None

    def line(self, patience):
        end = time.monotonic() + patience
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.p.stdout], [], [], left)[0]:
                self.stop()
                raise Failed("%s: no answer in %d s" % (self.name, patience))
            data = os.read(self.p.stdout.fileno(), 1 << 16)
            if not data:
                rc = self.p.wait()
                self.p = None
                raise Failed("%s: it died (%d)" % (self.name, rc))
            self.rest += data
        text, self.rest = self.rest.split(b"\n", 1)
        return text.decode(errors="replace")

    def ask(self, data, lines=1, patience=None):
        if not self.alive():
            self.start()
        try:
            self.p.stdin.write(data)
            self.p.stdin.flush()
        except OSError:
            self.stop()
            raise Failed("%s: it died" % self.name) from None
        return [self.line(patience or self.patience) for _ in range(lines)]


class Ours:
    def __init__(self, program, patience):
        self.p = Process("rlx", [program], patience)
        self.prepared = []

    @staticmethod
    def text(d):
        g = d.graph().encode()
        params = "".join("%s %d %.9g\n" % (n, seed, scale)
                         for n, _, _, seed, scale in d.operands)
        return b"%d %d\n" % (len(g), len(d.operands)) + g + params.encode()

    def prepare(self, draws):
        """Compile all of a family at once; what each says."""
        self.prepared = draws
        return self.p.ask(b"prepare %d\n" % len(draws) + b"".join(map(self.text, draws)),
                          len(draws), 600)

    def open(self, i, repeats):
        if not self.p.alive():		# it died over another one
            self.prepare(self.prepared)
        r = self.p.ask(b"open %d %d\n" % (i, repeats))[0].split(" ", 1)
        if r[0] != "ok":
            raise Failed("rlx: " + (r[1] if len(r) > 1 else r[0]))
        return [int(w) for w in r[1].split()]

    def word(self, request):
        r = self.p.ask(request)[0].split(" ", 1)
        if r[0] == "error":
            raise Failed("rlx: " + r[1])
        return r[1]

    def us(self):
        return float(self.word(b"time\n"))

    def sample(self):
        return [float(v) for v in self.word(b"sample %d\n" % SAMPLES).split()]

    def close(self):
        self.p.ask(b"close\n")


class Peer:
    def __init__(self, patience):
        self.p = Process("torch", [sys.executable, "peer.py"], patience)

    def ask(self, **q):
        r = json.loads(self.p.ask(json.dumps(q).encode() + b"\n")[0])
        if "error" in r:
            raise Failed("torch: " + r["error"])
        return r

    def about(self):
        return self.ask(do="about")["name"]


class Case:
    def __init__(self, d):
        self.d = d
        self.ours = self.peer = self.ratio = 0.0
        self.way = self.wrong = ""


def differs(got, want, dtype):
    """How far apart they are, of the largest number; "" where that is near enough."""
    top = max([abs(v) for v in want if math.isfinite(v)] or [0]) or 1e-9
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b and not (math.isnan(a) and math.isnan(b)) and not abs(a - b) <= \
                NEAR[dtype] * top:
            return "number %d of %d is %g, not %g" % (i, len(want), a, b)
    return ""


def repeats_of(us):
    """So many runs in a graph that what starts it does not show."""
    return max(1, min(50, int(2000 / max(us, 1))))


def measure(c, i, ours, peer, args):
    d = c.d
    launches, host = ours.open(i, 1)
    if host:
        raise Failed("rlx: %d steps are the reference evaluator's" % host)
    n = repeats_of(ours.us())
    ours.open(i, n)
    if not peer:
        c.ours = min(ours.us() for _ in range(TURNS))
        return
    # By the same count: what begins a graph is in both.
    peer.ask(do="open", family=d.name, seed=args.seed, index=i, repeats=n,
             most=args.largest, compile=not args.no_compile)
    c.wrong = differs(ours.sample(), peer.ask(do="sample", n=SAMPLES)["values"], d.dtype)
    best, theirs = math.inf, {"us": math.inf}
    for _ in range(TURNS):
        best = min(best, ours.us())
        theirs = min(theirs, peer.ask(do="time"), key=lambda r: r["us"])
    peer.ask(do="close")
    ours.close()
    c.ours, c.peer, c.way = best, theirs["us"], theirs["way"]
    c.ratio = c.peer / c.ours if c.ours > 0 and not c.wrong else 0


def line(c):
    rate = ", %.1f TFLOP/s" % (1e-6 * c.d.flops / c.ours) if c.d.flops and c.ours else ""
    return "%6.2f  %9.1f us%s (%.1f %s)  %s: %s" % (c.ratio, c.ours, rate, c.peer, c.way,
                                                    c.d.name, c.d.title())


def run_family(name, ours, peer, args):
    """Its cases; what failed is printed."""
    seconds = args.family_seconds * (2 if name == "block" else 1)
    end = time.monotonic() + seconds
    done, failed = [], 0
    try:
        draws = [cases.draw(name, args.seed, i, args.largest) for i in range(args.cases)]
        said = ours.prepare(draws)
    except (Failed, cases.TooLarge) as e:
        print("  %s: %s; none of it is measured" % (name, e), flush=True)
        return [], 1
    end = max(end, time.monotonic() + seconds / 2)
    for i, d in enumerate(draws):
        if time.monotonic() > end:
            print("  %s: time is up: %d of %d are measured" % (name, i, len(draws)))
            break
        c = Case(d)
        try:
            if not said[i].startswith("ok"):
                raise Failed("rlx: " + said[i])
            measure(c, i, ours, peer, args)
        except Failed as e:
            c.wrong = str(e)
            time.sleep(0.3)		# who has lost the device ends, and is started anew
        if c.wrong:
            failed += 1
            print("  %s: %s: %s" % (name, d.title(), c.wrong), flush=True)
        else:
            done.append(c)
            if args.verbose:
                print("  " + line(c), flush=True)
    return done, failed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int)
    p.add_argument("--cases", type=int, default=25)
    p.add_argument("--family", nargs="*", choices=list(cases.FAMILIES))
    p.add_argument("--family-seconds", type=float, default=18)
    p.add_argument("--largest", type=int, default=cases.MOST,
                   help="elements of an operand at most")
    p.add_argument("--patience", type=float, default=60)
    p.add_argument("--worst", type=int, default=10)
    p.add_argument("--no-peer", action="store_true", help="times of ours alone")
    p.add_argument("--no-compile", action="store_true", help="the peer as it is")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    if args.seed is None:
        args.seed = int.from_bytes(os.urandom(4), "little")
    build = os.path.abspath(os.environ.get("BUILD", "build"))
    ours = Ours(os.path.join(build, "test", "gpubench", "programs"), args.patience)
    peer = None if args.no_peer else Peer(args.patience)
    print("seed %d, %d cases a family" % (args.seed, args.cases), flush=True)
    if peer:
        try:
            print("against " + peer.about(), flush=True)
        except Failed as e:
            print("%s: no peer; --no-peer does without" % e)
            return 2
    done, failed, begin = [], 0, time.monotonic()
    for name in args.family or cases.FAMILIES:
        some, bad = run_family(name, ours, peer, args)
        done += some
        failed += bad
    print(HEAD)
    for name in args.family or cases.FAMILIES:
        print(summary(name, [c.ratio for c in done if c.d.name == name and c.ratio]))
    print(summary("all", [c.ratio for c in done if c.ratio]))
    print("the worst:")
    for c in sorted((c for c in done if c.ratio), key=lambda c: c.ratio)[:args.worst]:
        print(line(c))
    print("%d measured, %d wrong or refused, %.0f s [seed %d]" % (
        len(done), failed, time.monotonic() - begin, args.seed))
    ours.p.stop()
    if peer:
        peer.p.stop()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
