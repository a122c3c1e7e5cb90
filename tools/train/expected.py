#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Losses and gradient norms of two models by PyTorch in float64, for selftests/train/parity.c:
a decoder of bytes and a convolutional net with batch norm on digits. First values are those
of rlx_states_init(), batches follow from the step, so that a table is all there is to keep.

	tools/train/expected.py decoder >selftests/train/expected/decoder.txt
	tools/train/expected.py digits build/models/digits.csv.gz >.../digits.txt
"""
import gzip
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS, SEED, LR, WARMUP = 100, 1, 1e-3, 20
M32 = np.uint64(0xFFFFFFFF)


def philox(stream, n):
    """Words of Philox-4x32-10 for blocks 0 to n - 1 under SEED: float64 pairs."""
    block = np.arange(n, dtype=np.uint64)
    c = [block & M32, block >> np.uint64(32),
         np.full(n, stream & 0xFFFFFFFF, np.uint64), np.full(n, stream >> 32, np.uint64)]
    k0, k1 = SEED & 0xFFFFFFFF, SEED >> 32
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & M32,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & M32]
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    w = [x.astype(np.float64) for x in (c[0] >> np.uint64(5), c[1] >> np.uint64(6),
                                        c[2] >> np.uint64(5), c[3] >> np.uint64(6))]
    return ((w[0] * 2.0 ** 26 + w[1]) * 2.0 ** -53, (w[2] * 2.0 ** 26 + w[3]) * 2.0 ** -53)


def name_hash(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


class Model:
    """Variables by name, as rlx_var() makes them: rounded to f32, kept in f64."""

    def __init__(self):
        self.w, self.decay = {}, {}

    def var(self, name, shape, kind, a=0.0, decay=True):
        if name in self.w:
            return self.w[name]
        n = math.prod(shape)
        u, v = philox(name_hash(name), n)
        if kind == "normal":
            x = a * np.sqrt(-2 * np.log(1 - u)) * np.cos(6.283185307179586 * v)
        elif kind == "kaiming":
            lim = math.sqrt(6 / a)
            x = -lim + 2 * lim * u
        else:
            x = np.full(n, a)
        x = x.astype(np.float32).astype(np.float64).reshape(shape)
        self.w[name] = torch.tensor(x, requires_grad=True)
        self.decay[name] = decay
        return self.w[name]


def dense(m, name, x, out, std):
    w = m.var(name + ".weight", (x.shape[-1], out), "normal", std)
    return x @ w + m.var(name + ".bias", (out,), "const", 0, False)


def norm(m, name, x):
    d = x.shape[-1]
    return F.layer_norm(x, (d,), m.var(name + ".weight", (d,), "const", 1, False),
                        m.var(name + ".bias", (d,), "const", 0, False), float(np.float32(1e-5)))


def decoder(m, step):
    layers, d, heads, t, b = 2, 64, 4, 32, 4
    at = np.arange(t + 1)[None, :] + 97 * (np.arange(b)[:, None] + b * step)
    text = torch.tensor((at * at // 7 + 3 * at) % 61 + 32)
    x = m.var("tok", (256, d), "normal", 0.02)[text[:, :-1]] + m.var("pos", (t, d), "normal", 0.02)
    std = 0.02 / math.sqrt(2 * layers)
    for i in range(layers):
        p = f"blocks.{i}."
        q, k, v = dense(m, p + "qkv", norm(m, p + "ln1", x), 3 * d, 0.02).view(
            b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + dense(m, p + "proj", h.transpose(1, 2).reshape(b, t, d), d, std)
        h = F.gelu(dense(m, p + "fc", norm(m, p + "ln2", x), 4 * d, 0.02), approximate="tanh")
        x = x + dense(m, p + "out", h, d, std)
    y = norm(m, "ln", x) @ m.var("head", (d, 256), "normal", 0.02)
    return F.cross_entropy(y.view(-1, 256), text[:, 1:].reshape(-1))


def digits(m, step, data=[]):
    if not data:
        with gzip.open(sys.argv[2], "rt") as f:
            data.append(np.loadtxt(f, delimiter=","))
    rows = data[0][[(step * 32 + 7 * i) % len(data[0]) for i in range(32)]]
    x = torch.tensor(rows[:, :64] * float(np.float32(1 / 16))).view(-1, 1, 8, 8)
    for i, (a, b) in enumerate(((1, 8), (8, 16))):
        p = f"c{i}."
        x = F.conv2d(x, m.var(p + "weight", (b, a, 3, 3), "kaiming", 9 * a), padding=1)
        x = F.batch_norm(x, None, None, m.var(p + "bn.weight", (b,), "const", 1, False),
                         m.var(p + "bn.bias", (b,), "const", 0, False), True,
                         eps=float(np.float32(1e-5)))
        x = F.max_pool2d(F.relu(x), 2)
    x = x.flatten(1) @ m.var("head.weight", (64, 10), "kaiming", 64)
    x = x + m.var("head.bias", (10,), "const", 0, False)
    return F.cross_entropy(x, torch.tensor(rows[:, 64].astype(np.int64)))


def schedule(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    at = (step - WARMUP) / (STEPS - WARMUP)
    return LR * 0.1 + LR * 0.9 * 0.5 * (1 + math.cos(math.pi * at))


def main():
    model = {"decoder": decoder, "digits": digits}[sys.argv[1]]
    m = Model()
    model(m, 0)
    opt = torch.optim.AdamW(
        [{"params": [w for n, w in m.w.items() if m.decay[n]], "weight_decay": 0.1},
         {"params": [w for n, w in m.w.items() if not m.decay[n]], "weight_decay": 0.0}],
        betas=(0.9, 0.95), eps=1e-8)
    print("# SPDX-License-Identifier: MIT")
    print(f"# tools/train/expected.py {sys.argv[1]}, PyTorch {torch.__version__} in float64:")
    print("# step, loss, norm of the gradients")
    for step in range(STEPS):
        for group in opt.param_groups:
            group["lr"] = float(np.float32(schedule(step)))
        opt.zero_grad()
        loss = model(m, step)
        loss.backward()
        n = torch.nn.utils.clip_grad_norm_(list(m.w.values()), 1.0)
        opt.step()
        print(f"{step} {loss.item():.12g} {n.item():.12g}")


main()
