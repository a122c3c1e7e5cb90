# SPDX-License-Identifier: MIT
"""Mamba's selective scan and the gated delta rule, timed here and in PyTorch.

	recurrent.py [--seed N] [--cases N] [--threads N] [--op NAME ...]

PyTorch has neither op: its sides are what is written with its operators, the scan step by step
with products made for some steps at once, the delta rule by chunks (the WY representation), each
eager and compiled, in chunks of several lengths; the fastest that runs counts. Shapes are drawn
among those of published models. A ratio is the fastest PyTorch's time by ours, the median over
turns: above 1 ours is faster.

It fails where results differ by more than roundings of f32 explain."""
import sys

import numpy as np
import torch

from graph import Op
from timing import fastest, options

TURNS, TURN_S = 9, 0.05


def scan(x, delta, a, b, c, d, z, step):
    """@step: for so many steps at once decays and inputs are made; states follow one another."""
    h = torch.zeros(x.shape[0], a.shape[0], a.shape[1])
    out = []
    dx = delta * x
    for i in range(0, x.shape[1], step):
        j = slice(i, i + step)
        decay = torch.exp(delta[:, j, :, None] * a)
        new = dx[:, j, :, None] * b[:, j, None, :]
        states = []
        for k in range(decay.shape[1]):
            h = torch.addcmul(new[:, k], decay[:, k], h)
            states.append(h)
        out.append(torch.einsum("bshn,bsn->bsh", torch.stack(states, 1), c[:, j]))
    y = torch.cat(out, 1) + d * x
    return y * torch.nn.functional.silu(z)


def delta_chunk(q, k, v, g, beta, state, lower):
    """[b, h, c, ..] each; what is written solves a unit triangle."""
    s = g.cumsum(-1)
    decay = torch.exp((s[..., :, None] - s[..., None, :]).masked_fill(~lower, -torch.inf))
    kb = k * beta[..., None]
    m = (kb @ k.transpose(-1, -2)) * decay
    e = torch.exp(s)[..., None]
    u = torch.linalg.solve_triangular(m, beta[..., None] * (v - e * (k @ state)), upper=False,
                                      unitriangular=True)
    y = (e * q) @ state + ((q @ k.transpose(-1, -2)) * decay) @ u
    end = s[..., -1:]
    state = torch.exp(end)[..., None] * state + \
        (k * torch.exp(end - s)[..., None]).transpose(-1, -2) @ u
    return y, state


def delta_rule(q, k, v, g, beta, step, chunk):
    r = v.shape[2] // q.shape[2]
    q, k = (t.repeat_interleave(r, 2).transpose(1, 2) for t in (q, k))
    q = q * q.shape[-1] ** -0.5
    v, g, beta = v.transpose(1, 2), g.transpose(1, 2), beta.transpose(1, 2)
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    out = []
    for i in range(0, q.shape[2], step):
        j = slice(i, i + step)
        n = q[:, :, j].shape[2]
        y, state = chunk(q[:, :, j], k[:, :, j], v[:, :, j], g[:, :, j], beta[:, :, j], state,
                         torch.ones(n, n, dtype=torch.bool).tril())
        out.append(y)
    return torch.cat(out, 2).transpose(1, 2)


class Torch:
    def __init__(self, name, f, *args):
        self.name, self.f, self.args = name, f, args

    def run(self):
        with torch.inference_mode():
            self.y = self.f(*self.args)

    def output(self):
        return self.y.numpy()


def scan_case(rng, threads):
    b, s = int(rng.choice([1, 2])), int(rng.choice([128, 256, 512, 1000, 2048]))
    h, n = int(rng.choice([1536, 2048, 3072])), 16
    words = "b %d s %d h %d n %d" % (b, s, h, n)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    x, z, bb, cc, d = normal(b, s, h), normal(b, s, h), normal(b, s, n), normal(b, s, n), normal(h)
    delta = rng.uniform(0.001, 0.1, (b, s, h)).astype(np.float32)
    a = -np.broadcast_to(np.arange(1, n + 1, dtype=np.float32), (h, n)).copy()
    # x delta a b c d z, no state; no softplus
    ours = Op("selective_scan", [x, delta, a, bb, cc, d, z], (0, 0), 2, threads)
    t = [torch.from_numpy(v) for v in (x, delta, a, bb, cc, d, z)]
    some = [Torch("eager %d" % k, scan, *t, k) for k in (16, 64)]
    compiled = torch.compile(scan, dynamic=False)
    if s <= 512:	# the loop is unrolled: longer ones take minutes to compile
        some.append(Torch("compiled 16", compiled, *t, 16))
    return words, ours, some


def delta_case(rng, threads):
    b, s = int(rng.choice([1, 2])), int(rng.choice([128, 256, 512, 1000, 2048]))
    hk = int(rng.choice([4, 8, 16]))
    hv, dk, dv = hk * int(rng.choice([1, 2])), 128, 128
    words = "b %d s %d heads %d/%d d %d" % (b, s, hk, hv, dk)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    q, k, v = normal(b, s, hk, dk), normal(b, s, hk, dk), normal(b, s, hv, dv)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    g = -rng.uniform(0.001, 0.5, (b, s, hv)).astype(np.float32)
    beta = rng.uniform(0.1, 0.95, (b, s, hv)).astype(np.float32)
    ours = Op("gated_delta_net", [q, k, v, g, beta], (0, 0.0), 2, threads)
    t = [torch.from_numpy(x) for x in (q, k, v, g, beta)]
    compiled = torch.compile(delta_chunk, dynamic=False)
    some = [Torch("eager %d" % c, delta_rule, *t, c, delta_chunk) for c in (32, 64, 128)]
    some += [Torch("compiled %d" % c, delta_rule, *t, c, compiled) for c in (64,)]
    return words, ours, some


OPS = {"selective_scan": scan_case, "gated_delta_net": delta_case}


def measure(ours, some):
    """Our time, the ratios to the fastest of @some, and whose that is."""
    kept = []
    for t in some:
        try:
            t.run()
            t.run()
            kept.append(t)
        except Exception as e:		# no compiler, or an operator that has no lowering
            print("  %s does not run: %s" % (t.name, str(e).split("\n")[0][:100]))
    ours.run()
    turns = [(fastest(ours.run, TURN_S), [fastest(t.run, TURN_S) for t in kept])
             for _ in range(TURNS)]
    best = int(np.argmin([np.median([p[i] for _, p in turns]) for i in range(len(kept))]))
    ratios = sorted(p[best] / o for o, p in turns)
    want, got = kept[best].output(), ours.output()
    off = np.max(np.abs(want - got)) / np.max(np.abs(want))
    return min(o for o, _ in turns), ratios, kept[best].name, off


def main():
    p = options(4)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--op", nargs="*", choices=list(OPS), default=list(OPS))
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    print("seed %d, %d threads, PyTorch %s" % (args.seed, args.threads, torch.__version__))
    wrong = 0
    for op in args.op:
        for i in range(args.cases):
            rng = np.random.default_rng([args.seed, i, *map(ord, op)])
            words, ours, some = OPS[op](rng, args.threads)
            us, r, who, off = measure(ours, some)
            ours.close()
            torch._dynamo.reset()
            wrong += off > 1e-4
            print("%-16s %-32s %9.2f ms, PyTorch (%s) %5.2f of it (%.2f to %.2f)%s" % (
                op, words, 1e3 * us, who, r[len(r) // 2], r[0], r[-1],
                "  WRONG: off by %.2g" % off if off > 1e-4 else ""), flush=True)
    print("%d wrong [seed %d]" % (wrong, args.seed))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
