# SPDX-License-Identifier: MIT
"""Random models of many families, timed here, in ONNX Runtime and in OpenVINO.

	sweep.py [--seed N] [--cases N] [--threads N ...] [--family NAME ...] [--keep DIR]

Draws --cases of each family from the seed (a fresh one if none is given; it is printed),
checks that all sides compute the same, and times them in turns within this process. A
ratio is the best peer's fastest run by ours: above 1 ours is faster. What a call from
Python takes is measured for each side by a model that does nothing, and taken off; where
less than TOO_SHORT is left of the best peer, a case says nothing and does not count.
It prints a line for each family, and the worst cases with what they compute.

--keep leaves each model as DIR/FAMILY-INDEX.onnx, for rlx bench and rlx dump.

It fails where a result is wrong, a model is refused that a peer runs, or a step takes the
reference evaluator."""
import gc
import os
import sys
import tempfile
import zlib

import numpy as np

import cases
import sides
from report import HEAD, summary
from timing import options, time_all

TURNS, TURN_S, REST_S, TOO_SHORT = 6, 0.02, 0.004, 30e-6
# How far results may lie apart, of the largest there is; three roundings or so of each.
NEAR = {"float64": 1e-9, "float32": 5e-5, "float16": 1e-2}


def differs(got, want, loose):
    """What is wrong with @got, or nothing."""
    if len(got) != len(want):
        return "%d outputs, not %d" % (len(got), len(want))
    for a, b in zip(got, want):
        if a.shape != b.shape:
            return "shape %s, not %s" % (a.shape, b.shape)
        if b.dtype.kind != "f":
            off = np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0)
            if off > (1 if loose else 0):
                return "integers off by %g" % off
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        top = np.max(np.abs(y[np.isfinite(y)]), initial=1e-30)
        with np.errstate(invalid="ignore"):
            off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
        bound = (2e-2 if loose else NEAR[str(b.dtype)]) * top
        if not np.all(off <= bound):
            return "off by %.3g where the largest is %.3g" % (np.nanmax(off), top)
    return ""


class Case:
    def __init__(self, name, words, flops):
        self.name, self.words, self.flops = name, words, flops
        self.ours = self.ratio = 0
        self.best, self.wrong, self.note = "", "", ""


def start(cls, path, data, threads):
    try:
        return cls(path, data, threads)
    except sides.CannotRun as e:
        return str(e).split("\n")[0][:150]


def write(model, path):
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def measure(case, model, data, threads, path, own):
    write(model, path)
    ours = start(sides.Ours, path, data, threads)
    peers = [p for p in (start(c, path, data, threads) for c in sides.PEERS)
             if not isinstance(p, str)]
    if isinstance(ours, str):
        case.wrong = "refused: " + ours if peers else ""
        case.note = "" if peers else "nobody runs it: " + ours
    else:
        if ours.host:
            case.wrong = "a step takes the reference evaluator"
        # One peer may round more than written (OpenVINO merges quantized ops): either will do.
        # Sums that are cut to integers may be off by one.
        loose = case.name in ("int8", "resize")
        off = [differs(ours.outputs(), p.outputs(), loose) for p in peers]
        if off and all(off):
            case.wrong = "%s: %s" % (peers[0].name, off[0])
        t = time_all([ours] + peers, TURNS, TURN_S, REST_S)
        t = {n: s - own[n] for n, s in t.items()}
        if peers:
            case.best = min((p.name for p in peers), key=t.get)
            case.ours = max(t["rlx"], 1e-9)
            if t[case.best] >= TOO_SHORT:
                case.ratio = t[case.best] / case.ours
            else:
                case.note = "too short"
        else:
            case.note = "no peer runs it"
    for s in peers + ([] if isinstance(ours, str) else [ours]):
        s.close()
    return case


def calls(threads, path):
    """What a call takes of each side, by a model of one negation."""
    d = cases.Draw(np.random.default_rng(0))
    m = d.model(d.op("Neg", d.input((1,))))
    write(m, path)
    some = [c(path, d.data, threads) for c in (sides.Ours, *sides.PEERS)]
    best = time_all(some, TURNS, TURN_S, REST_S)
    for s in some:
        s.close()
    return best


def sweep(args, threads, path):
    own = calls(threads, path)
    print("%d threads; a call takes %s us" % (threads, ", ".join(
        "%s %.1f" % (n, 1e6 * s) for n, s in own.items())), flush=True)
    done = []
    for name in args.family or cases.FAMILIES:
        for i in range(args.cases):
            # By name: a family draws the same whichever others run.
            words, model, data, flops = cases.draw(
                name, np.random.default_rng([args.seed, zlib.crc32(name.encode()), i]))
            if args.keep:
                write(model, os.path.join(args.keep, "%s-%d.onnx" % (name, i)))
            c = measure(Case(name, words, flops), model, data, threads, path, own)
            done.append(c)
            if c.wrong or args.verbose:
                print("  %-14s %6.2f  %9.1f us  %-4s %s  %s" % (
                    name, c.ratio, 1e6 * c.ours, c.best, words, c.wrong or c.note), flush=True)
            gc.collect()
    print(HEAD)
    for name in args.family or cases.FAMILIES:
        print(summary(name, [c.ratio for c in done if c.name == name and c.ratio]))
    print(summary("all", [c.ratio for c in done if c.ratio]))
    print("the worst:")
    for c in sorted((c for c in done if c.ratio), key=lambda c: c.ratio)[:args.worst]:
        rate = ", %.1f GFLOP/s" % (1e-9 * c.flops / c.ours) if c.flops else ""
        print("  %5.2f of %-4s %9.1f us%s  %s: %s" % (c.ratio, c.best, 1e6 * c.ours, rate,
                                                    c.name, c.words))
    none = [c for c in done if not c.ratio and not c.wrong]
    print("%d of %d cases do not count: %s" % (len(none), len(done), ", ".join(
        sorted({c.note.split(":")[0] for c in none})) or "-"))
    return sum(bool(c.wrong) for c in done)


def main():
    p = options(10)
    p.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    p.add_argument("--family", nargs="*", choices=list(cases.FAMILIES))
    p.add_argument("--worst", type=int, default=10)
    p.add_argument("--keep")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    print("seed %d, %d cases a family" % (args.seed, args.cases))
    wrong = 0
    with tempfile.TemporaryDirectory() as tmp:
        for threads in args.threads:
            wrong += sweep(args, threads, os.path.join(tmp, "case.onnx"))
    print("%d wrong, refused or by the evaluator [seed %d]" % (wrong, args.seed))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
