#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training steps of train.c beside PyTorch's, in turns.

	train.py [--threads N] [--precision f32|bf16] [--isa v3] [--clock cpu] [--turns N]
		[--only WORD] [MODEL SIZES ...]

MODEL SIZES are "decoder LAYERS DIM HEADS CONTEXT BATCH" or "cnn CHANNELS SIDE BATCH", as of
train.c; without them the standard ones. Both sides begin with the same weights and take the same
batch; the losses of the first steps have to agree before times are taken. PyTorch runs eager and
compiled, by fused AdamW, convolutions in both layouts, bf16 by autocast; the fastest counts, and
so does ours of bf16 between ops and of bf16 products alone. A ratio is PyTorch's fastest step by
ours: above 1 ours is faster. --isa v3 holds both to AVX2."""
import argparse
import math
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "v3" in sys.argv:		# before the libraries look
    os.environ.update(RLX_ISA="v3", ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2",
                      MKL_ENABLE_INSTRUCTIONS="AVX2")

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

STANDARD = ["decoder 6 384 6 256 8", "decoder 4 128 4 128 16", "cnn 32 28 64"]
CHECKED, TURN_S = 3, 0.4
TOLERANCE = {"f32": 2e-4, "bf16": 2e-2}


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2)
                   for p in self.qkv(self.ln1(x)).split(d, -1))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(h.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, layers, dim, heads, context, batch):
        super().__init__()
        self.tok = nn.Parameter(torch.zeros(256, dim))
        self.pos = nn.Parameter(torch.zeros(context, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)

    def forward(self, x, y):
        h = F.embedding(x, self.tok) + self.pos
        for b in self.blocks:
            h = b(h)
        return F.cross_entropy(self.head(self.ln(h)).float().flatten(0, 1), y.flatten())

    @staticmethod
    def batch(layers, dim, heads, context, batch):
        at = torch.arange(context + 1)[None] + 97 * torch.arange(batch)[:, None]
        c = (at * at // 7 + 3 * at) % 61 + 32
        return c[:, :-1].contiguous(), c[:, 1:].contiguous()


class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(o, i, 3, 3))
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return F.relu(self.bn(F.conv2d(x, self.weight, padding=1)))


class Net(nn.Module):
    def __init__(self, c, side, batch):
        super().__init__()
        self.c1, self.c2, self.c3, self.c4 = Conv(1, c), Conv(c, c), Conv(c, 2 * c), \
            Conv(2 * c, 2 * c)
        self.f1, self.f2 = nn.Linear(2 * c * (side // 4) ** 2, 128), nn.Linear(128, 10)

    def forward(self, x, y):
        x = F.max_pool2d(self.c2(self.c1(x)), 2)
        x = F.max_pool2d(self.c4(self.c3(x)), 2)
        return F.cross_entropy(self.f2(F.relu(self.f1(x.flatten(1)))).float(), y)

    @staticmethod
    def batch(c, side, batch):
        i = torch.arange(batch * side * side)
        x = (i * i % 8191).float() / 8190 - 0.5
        return x.view(batch, 1, side, side), (97 * torch.arange(batch) + 3) % 10


class Ours:
    """train.c in a process of its own."""

    def __init__(self, name, case, threads, precision):
        path = os.environ.get("BUILD", "build") + "/test/bench/train"
        self.name = name
        self.p = subprocess.Popen([path, str(threads), precision, *case], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        said = self.p.stdout.readline()
        if not said:
            raise SystemExit(f"train.py: {self.name} ended with status {self.p.wait()}")
        return said.split()

    def weights(self):
        with tempfile.NamedTemporaryFile() as f:
            self.ask("weights " + f.name)
            some = {}
            while line := f.readline():
                name, n = line.decode().split()
                some[name] = np.frombuffer(f.read(4 * int(n)), np.float32).copy()
            return some

    def losses(self, n):
        return [float(self.ask("0")[2]) for _ in range(n)]

    def turn(self, seconds, clock):
        return float(self.ask(str(seconds))[clock == "cpu"])

    def close(self):
        self.p.stdin.close()
        self.p.wait()


class Peer:
    def __init__(self, name, model, batch, bf16, last, compiled):
        self.name, self.model, self.bf16 = name, model, bf16
        self.x, self.y = batch
        if last:
            model.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        many = [p for p in model.parameters() if p.dim() > 1]
        one = [p for p in model.parameters() if p.dim() < 2]
        self.opt = torch.optim.AdamW([{"params": many, "weight_decay": 0.1},
                                      {"params": one, "weight_decay": 0.0}],
                                     lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.f = torch.compile(model) if compiled else model

    def step(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.f(self.x, self.y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        return loss

    def losses(self, n):
        return [self.step().item() for _ in range(n)]

    def turn(self, seconds, clock):
        watch = time.process_time if clock == "cpu" else time.perf_counter
        best, end = math.inf, time.perf_counter() + seconds
        while True:
            begin = watch()
            self.step()
            best = min(best, watch() - begin)
            if time.perf_counter() > end:
                return best * 1e3


def fill(model, weights):
    for name, p in model.named_parameters():
        w = torch.from_numpy(weights[name].copy())
        dense = p.dim() == 2 and name not in ("tok", "pos")
        w = w.view(p.shape[::-1]).t() if dense else w.view(p.shape)
        p.data.copy_(w)
    return model


def peers(case, bf16, weights, only):
    kind, size = case[0], [int(a) for a in case[1:]]
    made = Net if kind == "cnn" else Decoder
    for compiled in (False, True):
        for last in (False, True) if kind == "cnn" else (False,):
            name = ("compiled" if compiled else "eager") + (" channels last" if last else "")
            if only in name:
                yield Peer("PyTorch " + name, fill(made(*size), weights), made.batch(*size), bf16,
                           last, compiled)


def check(side, want, got, precision):
    off = max(abs(a - b) / abs(a) for a, b in zip(want, got))
    if not off <= TOLERANCE[precision]:
        raise SystemExit(f"train.py: {side.name}: losses {got}, ours of f32 {want}")


def weights_name(name):
    """train.c's head is a matrix alone, and "bn" has the names of batch norm."""
    return name + ".weight" if name == "head" else name


def measure(case, threads, precision, args):
    first = Ours("ours", case, threads, "f32")
    weights = {weights_name(n): w for n, w in first.weights().items()}
    want = first.losses(CHECKED)
    ours = [first] if precision == "f32" else [
        Ours("ours " + p, case, threads, p) for p in ("bf16", "mixed")]
    theirs = list(peers(case, precision != "f32", weights, args.only))
    for side in list(theirs) + (ours if precision != "f32" else []):
        try:
            got = side.losses(CHECKED)
        except Exception as e:  # a compiler that is not there
            if side in ours:
                raise
            print(f"{side.name}: {(str(e) or repr(e)).splitlines()[0]}", flush=True)
            theirs.remove(side)
            continue
        check(side, want, got, precision)
    if not theirs:
        raise SystemExit(f"train.py: {' '.join(case)}: no side of PyTorch runs here"
                         f"{' with ' + repr(args.only) if args.only else ''}")
    best = {s.name: math.inf for s in ours + theirs}
    for _ in range(args.turns):
        for s in ours + theirs:
            best[s.name] = min(best[s.name], s.turn(TURN_S, args.clock))
    for s in {first, *ours}:
        s.close()
    mine, peer = (min(best[s.name] for s in some) for some in (ours, theirs))
    each = ", ".join(f"{n} {t:.2f}" for n, t in best.items())
    print(f"{' '.join(case):24} {precision:5} {threads} thread{'s' if threads > 1 else ' '} "
          f"ratio {peer / mine:.2f}: {each} ms", flush=True)


def cases(words):
    some = []
    for w in " ".join(words).split():
        if w in ("decoder", "cnn"):
            some.append([])
        elif not some:
            raise SystemExit(f"train.py: {w}: decoder or cnn comes first, then its sizes")
        some[-1].append(w)
    return some or [c.split() for c in STANDARD]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, action="append")
    p.add_argument("--precision", choices=list(TOLERANCE), action="append")
    p.add_argument("--isa", choices=["v3"])
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                   help="cpu: the time of all CPUs, for one thread beside other work")
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--only", default="", help="sides of PyTorch with this word in their names")
    p.add_argument("case", nargs="*", metavar="MODEL SIZES")
    args = p.parse_args()
    for threads in args.threads or [1, 2]:
        torch.set_num_threads(threads)
        torch._dynamo.reset()
        for precision in args.precision or list(TOLERANCE):
            for case in cases(args.case):
                measure(case, threads, precision, args)


main()
