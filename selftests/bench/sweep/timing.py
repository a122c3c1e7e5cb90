# SPDX-License-Identifier: MIT
"""What sweeps of cases share: the options of all of them, and the fastest runs of sides that take
turns."""
import argparse
import math
import os
import time


def options(cases):
    """A parser with --seed, a fresh one if none is given, and --cases."""
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    p.add_argument("--cases", type=int, default=cases)
    return p


def fastest(run, seconds, clock=time.perf_counter):
    """Of one turn: at least a run, then as many as fit, beside a first one that does not count."""
    best, end = math.inf, clock() + seconds
    run()
    while True:
        begin = clock()
        run()
        now = clock()
        best = min(best, now - begin)
        if now > end:
            return best


def time_all(some, turns, seconds, rest=0, clock=time.perf_counter):
    """The fastest run of each, in turns; threads that spin come to @rest between."""
    best = {s.name: math.inf for s in some}
    for _ in range(turns):
        for s in some:
            if rest:
                time.sleep(rest)
            best[s.name] = min(best[s.name], fastest(s.run, seconds, clock))
    return best
