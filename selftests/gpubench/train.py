#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training steps of train.c in PyTorch: compiled, autocast to bf16; of a decoder whose head
is its embedding, with flash attention, fused AdamW and the gradient's norm clipped to 1; of
ResNet-50 channels last with fused SGD. Arguments as there: LAYERS DIM HEADS CONTEXT BATCH VOCAB,
or resnet50 BATCH SIZE CLASSES."""
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
    def __init__(self, layers, dim, heads, context, vocab):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Parameter(torch.randn(context, dim) * .02)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(layers, dim, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)

    def forward(self, x, y):
        h = self.tok(x) + self.pos
        for b in self.blocks:
            h = b(h)
        logits = F.linear(self.ln(h), self.tok.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), y.view(-1))


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


class Conv(nn.Sequential):
    """A convolution without bias and its batch norm."""

    def __init__(self, i, o, k, stride=1):
        super().__init__(nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o))
        nn.init.normal_(self[0].weight, std=math.sqrt(2 / (o * k * k)))


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        self.conv1, self.conv2 = Conv(i, width, 1), Conv(width, width, 3, stride)
        self.conv3 = Conv(width, 4 * width, 1)
        self.down = nn.Identity() if i == 4 * width else Conv(i, 4 * width, 1, stride)

    def forward(self, x):
        y = F.relu(self.conv2(F.relu(self.conv1(x))))
        return F.relu(self.down(x) + self.conv3(y))


class ResNet50(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = Conv(3, 64, 7, 2)
        blocks, i = [], 64
        for s, n in enumerate((3, 4, 6, 3)):
            for k in range(n):
                blocks.append(Bottleneck(i, 64 << s, 2 if s and not k else 1))
                i = 256 << s
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(i, classes)
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return F.cross_entropy(self.fc(self.blocks(x).mean((2, 3))).float(), y)


def resnet(size):
    batch, pixels, classes = size
    model = ResNet50(classes).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, pixels, pixels, device="cuda")
    y = ((97 * torch.arange(batch) + 3) % classes).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4,
                          fused=True)
    return model, (x.to(memory_format=torch.channels_last), y), opt, None


def decoder(size):
    layers, dim, heads, context, rows, vocab = size
    model = Decoder(layers, dim, heads, context, vocab).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    return model, batch(rows, context), opt, 1.0


def main():
    args = sys.argv[1:]
    make, size = decoder, [12, 768, 12, 1024, 16, 256]
    if args and args[0] == "resnet50":
        make, size, args = resnet, [64, 224, 1000], args[1:]
    size[:len(args)] = [int(a) for a in args]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model, (x, y), opt, clip = make(size)

    def step_of(f):
        def step():
            with torch.autocast("cuda", torch.bfloat16):
                loss = f(x, y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()
            opt.zero_grad(set_to_none=True)
            return loss
        return step

    print(f"{type(model).__name__} {size}", flush=True)
    for name, f in (("PyTorch compiled", torch.compile(model)), ("PyTorch eager", model)):
        try:
            measure(name, step_of(f), torch.cuda.synchronize)
        except Exception as e:  # a compiler that is not there
            print(f"{name}: {str(e).splitlines()[0]}", flush=True)


main()
