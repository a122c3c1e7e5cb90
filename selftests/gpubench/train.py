#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training step of train.c in PyTorch: compiled, autocast to bf16, flash attention, fused
AdamW, the gradient's norm clipped to 1. Arguments as there: LAYERS DIM HEADS CONTEXT BATCH."""
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WARM, ROUNDS, STEPS = 4, 5, 8


class Block(nn.Module):
    def __init__(self, layers, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        for m in (self.qkv, self.fc, self.proj, self.out):
            near = 0.02 if m in (self.qkv, self.fc) else 0.02 / math.sqrt(2 * layers)
            nn.init.normal_(m.weight, std=near)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2)
                   for p in self.qkv(self.ln1(x)).split(d, -1))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(h.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, layers, dim, heads, context):
        super().__init__()
        self.tok, self.pos = nn.Embedding(256, dim), nn.Parameter(torch.randn(context, dim) * .02)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(layers, dim, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, x, y):
        h = self.tok(x) + self.pos
        for b in self.blocks:
            h = b(h)
        logits = self.head(self.ln(h))
        return F.cross_entropy(logits.view(-1, 256).float(), y.view(-1))


def batch(b, t):
    at = torch.arange(t + 1)[None] + 97 * torch.arange(b)[:, None]
    c = (at * at // 7 + 3 * at) % 61 + 32
    return c[:, :-1].contiguous().cuda(), c[:, 1:].contiguous().cuda()


def measure(name, step, sync):
    for _ in range(WARM):
        step()
    sync()
    each = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(STEPS):
            loss = step()
        sync()
        each.append((time.perf_counter() - begin) * 1e3 / STEPS)
    print(f"{name}: step {min(each):.2f} ms at best, {sum(each) / len(each):.2f} on average; "
          f"loss {loss.item():.4f} after {WARM + ROUNDS * STEPS}", flush=True)


def main():
    size = [12, 768, 12, 1024, 16]
    size[:len(sys.argv) - 1] = [int(a) for a in sys.argv[1:]]
    layers, dim, heads, context, rows = size
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Decoder(layers, dim, heads, context).cuda()
    x, y = batch(rows, context)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

    def step_of(f):
        def step():
            with torch.autocast("cuda", torch.bfloat16):
                loss = f(x, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
            return loss
        return step

    for name, f in (("PyTorch compiled", torch.compile(model)), ("PyTorch eager", model)):
        try:
            measure(name, step_of(f), torch.cuda.synchronize)
        except Exception as e:  # a compiler that is not there
            print(f"{name}: {str(e).splitlines()[0]}", flush=True)


main()
