#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's attention kernels at the sizes of attention.c, in turns with that program,
which is the argument, and a product of matrices as what the chip's tensor cores can do."""
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS, WIDTH, ROUNDS = 16384, 2048, 7
PEERS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
         "efficient": SDPBackend.EFFICIENT_ATTENTION}


def median_ms(run, n):
    times = []
    for _ in range(ROUNDS + 1):  # the first to get warm
        t = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        t[0].record()
        for _ in range(n):
            run()
        t[1].record()
        torch.cuda.synchronize()
        times.append(t[0].elapsed_time(t[1]) / n)
    return sorted(times[1:])[ROUNDS // 2]


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def own(program, dim, length, causal):
    line = subprocess.run([program, str(dim), str(length), str(int(causal))],
                          capture_output=True, text=True, check=True).stdout
    return float(line.split()[-2])


def peers(dim, length, causal):
    q, k, v = (random(TOKENS // length, length, WIDTH // dim, dim).transpose(1, 2)
               for _ in range(3))
    flop = 4 * TOKENS * WIDTH * length / (2 if causal else 1)
    rates = {}
    for name, backend in PEERS.items():
        with sdpa_kernel(backend):
            try:
                ms = median_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
                               3 if length > 8192 else 8)
            except RuntimeError:  # not in this build
                continue
        rates[name] = flop / ms * 1e-9
    return rates


torch.set_grad_enabled(False)
a, b = random(8192, 8192), random(8192, 8192)
limit = 2 * 8192**3 / median_ms(lambda: a @ b, 3) * 1e-9
print(f"limit: a product of 8192 x 8192 x 8192 at {limit:.0f} TF/s")
for dim in (128, 64):
    for length in (4096, 16384):
        for causal in (False, True):
            rates = peers(dim, length, causal)
            mine = own(sys.argv[1], dim, length, causal)
            text = "  ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
            print(f"bf16 head_dim {dim} length {length} {'causal' if causal else 'full'}: rlx "
                  f"{mine:.0f} TF/s, {mine / max(rates.values()):.2f} of the best of  {text}",
                  flush=True)
