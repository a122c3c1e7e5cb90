#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The decoders of decoder.c in PyTorch: one step at batch 1 as a CUDA graph, eager and
compiled, and the bandwidth of a copy."""
import sys
import time

import torch
import torch.nn.functional as F

FROM, TOKENS, ROWS, EPS = 512, 256, 1024, 1e-5
SHAPES = {
    "1b": (16, 2048, 32, 8, 64, 8192, 128256),
    "8b": (32, 4096, 32, 8, 128, 14336, 128256),
}


def weight(*shape):
    x = torch.rand(*shape, device="cuda", dtype=torch.bfloat16) * 2 - 1
    return x * (3 / shape[-1]) ** 0.5


class Decoder:
    def __init__(self, layers, hidden, heads, kv, width, inner, vocab):
        self.heads, self.kv, self.width, self.hidden = heads, kv, width, hidden
        self.words, self.head = weight(vocab, hidden), weight(vocab, hidden)
        self.layers = [
            (weight((heads + 2 * kv) * width, hidden), weight(hidden, heads * width),
             weight(2 * inner, hidden), weight(hidden, inner),
             torch.randn(2, 1, kv, ROWS, width, device="cuda", dtype=torch.bfloat16))
            for _ in range(layers)]
        self.gamma = torch.ones(hidden, device="cuda", dtype=torch.bfloat16)
        angle = torch.arange(ROWS)[:, None] * 500000.0 ** -(torch.arange(width // 2) / (width // 2))
        self.cos, self.sin = angle.cos().cuda(), angle.sin().cuda()
        self.rows = torch.arange(ROWS, device="cuda")

    def turn(self, x, c, s):
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1).bfloat16()

    def step(self, token, pos):
        x = self.words[token]
        c, s = self.cos[pos], self.sin[pos]
        mask = (self.rows <= pos)[None, None, None]
        q_n, kv_n = self.heads * self.width, self.kv * self.width
        for qkv, out, up, down, cache in self.layers:
            y = F.rms_norm(x, (self.hidden,), self.gamma, EPS) @ qkv.t()
            q, k, v = y.split((q_n, kv_n, kv_n), -1)
            q = self.turn(q.view(1, self.heads, 1, self.width), c, s)
            k = self.turn(k.view(1, self.kv, 1, self.width), c, s)
            cache[0].index_copy_(2, pos, k)
            cache[1].index_copy_(2, pos, v.view(1, self.kv, 1, self.width))
            y = F.scaled_dot_product_attention(q, cache[0], cache[1], mask, enable_gqa=True)
            x = x + y.view(1, q_n) @ out.t()
            gate, high = (F.rms_norm(x, (self.hidden,), self.gamma, EPS) @ up.t()).chunk(2, -1)
            x = x + (F.silu(gate) * high) @ down.t()
        return (F.rms_norm(x, (self.hidden,), self.gamma, EPS) @ self.head.t()).argmax(-1)


def rate(name, step):
    token = torch.ones(1, dtype=torch.long, device="cuda")
    pos = torch.full((1,), FROM, dtype=torch.long, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(token, pos)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token_out = step(token, pos)
    nxt = 1
    for i in range(-8, TOKENS):
        if i == 0:
            t0 = time.perf_counter()
        token.fill_(nxt)
        pos.fill_(FROM + i)
        graph.replay()
        nxt = token_out.item()
    print(f"torch {name}: {TOKENS / (time.perf_counter() - t0):.1f} tokens/s", flush=True)


def copy():
    a = torch.empty(1 << 30, dtype=torch.float32, device="cuda").uniform_()
    b = torch.empty_like(a)
    best = 1e9
    for _ in range(10):
        t = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        t[0].record()
        b.copy_(a)
        t[1].record()
        torch.cuda.synchronize()
        best = min(best, t[0].elapsed_time(t[1]))
    print(f"torch copy: {8 * a.numel() / best * 1e-9:.2f} TB/s, read and written", flush=True)


torch.set_grad_enabled(False)
copy()
for which in sys.argv[1:] or SHAPES:
    model = Decoder(*SHAPES[which])
    rate(which + " eager, CUDA graph", model.step)
    try:
        rate(which + " compiled, CUDA graph", torch.compile(model.step, dynamic=False))
    except Exception as e:  # no compiler at hand
        print(f"torch {which} compiled: {type(e).__name__}: {str(e)[:200]}", flush=True)
    del model
    torch.cuda.empty_cache()
