#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""MiniLM-L6 f16 in PyTorch, host to host as minilm.c has it: eager and compiled,
both as a CUDA graph."""
import time

import torch
import torch.nn.functional as F

WIDTH, LAYERS, HEADS, INNER, VOCAB, MOST = 384, 6, 12, 1536, 30522, 512


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, INNER)
        self.down = torch.nn.Linear(INNER, WIDTH)
        self.norm2 = torch.nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, s, WIDTH)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCAB, WIDTH)
        self.places = torch.nn.Embedding(MOST, WIDTH)
        self.kinds = torch.nn.Embedding(2, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids, lens):
        s = ids.shape[1]
        keep = torch.arange(s, device=ids.device)[None] < lens[:, None]
        x = self.norm(self.words(ids) + self.places.weight[:s] + self.kinds.weight[0])
        for layer in self.layers:
            x = layer(x, keep[:, None, None])
        return F.normalize((x * keep[..., None]).float().sum(1) / lens[:, None])


def times(run, n):
    for _ in range(10):
        run()
    t = []
    for _ in range(n):
        a = time.perf_counter()
        run()
        t.append((time.perf_counter() - a) * 1e3)
    t.sort()
    return t[n // 2], t[0]


def graph_of(f, ids, lens, out):
    """All of a run as one graph; ids, lens and out are pinned."""
    dids, dlens = ids.cuda(), lens.cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            f(dids, dlens)
    stream.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        dids.copy_(ids, non_blocking=True)
        dlens.copy_(lens, non_blocking=True)
        out.copy_(f(dids, dlens), non_blocking=True)
    return g


def main():
    torch.manual_seed(1)
    model = Bert().half().cuda().eval()
    for batch, seq in ((1, 16), (32, 512)):
        ids = torch.randint(0, VOCAB, (batch, seq)).pin_memory()
        lens = torch.full((batch,), seq).pin_memory()
        out = torch.empty(batch, WIDTH).pin_memory()
        for how in ("eager", "compiled"):
            with torch.inference_mode():
                f = model if how == "eager" else torch.compile(model, dynamic=False)
                g = graph_of(f, ids, lens, out)

            def run():
                g.replay()
                torch.cuda.synchronize()
            p50, least = times(run, 300 if batch == 1 else 50)
            print(f"PyTorch {how} + graph f16 {batch} x {seq}, host to host: "
                  f"median {p50:.4f} ms, least {least:.4f}", flush=True)


main()
