# SPDX-License-Identifier: MIT
"""What sweeps of random cases share: how sizes are drawn, and what is said of ratios. A ratio
is the peer's time by ours: above 1 ours is faster. @rng needs random() alone."""
import math

HEAD = "%-16s %5s  %8s  %8s  %8s" % ("family", "cases", "mean", "10 %", "worst")


def one_of(rng, *what):
    return what[int(rng.random() * len(what))]


def size(rng, lo, hi, steps=(1, 1, 8, 64)):
    """Between the two, evenly by logarithm: a multiple of 64, of 8, or anything."""
    v = math.exp(math.log(lo) + rng.random() * (math.log(hi) - math.log(lo)))
    step = one_of(rng, *steps)
    return int(min(hi, max(lo, round(v / step) * step if v >= step else round(v))))


def summary(label, ratios):
    r = sorted(ratios)
    if not r:
        return "%-16s  nothing to count" % label
    mean = math.exp(sum(map(math.log, r)) / len(r))
    return "%-16s %5d  %8.2f  %8.2f  %8.2f" % (label, len(r), mean, r[len(r) // 10], r[0])
