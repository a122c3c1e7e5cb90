# SPDX-License-Identifier: MIT
"""Mamba's selective scan, the gated delta rule and linear recurrences on a GPU, timed here and by
others.

	recurrence.py PROGRAMS [--seed N] [--cases N] [--short N] [--family NAME ...] [--no-peer]
		      [--no-compiler]

PROGRAMS is selftests/gpubench/programs, built. The peers of gated_delta_net are flash-linear-
attention's kernels (Triton), chunked and, of few steps, recurrent, where Python finds `fla`, a
Triton kernel of few steps that has columns in registers, and PyTorch by chunks; those of
selective_scan a Triton kernel that has a channel's states in registers, as mamba_ssm's has, and
PyTorch compiled, by its associative scan; those of linear_scan are alike.
Shapes of real models come first, then --cases drawn ones from the seed, then --short ones of 1 to
16 steps, as decoders take. Both sides are CUDA graphs of some runs, operands on the device, in
turns; the ratio is the fastest peer's time by ours, and results are compared. It fails where they
differ."""
import math
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "sweep"), os.path.join(HERE, "..", "bench", "sweep")]
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import report  # noqa: E402
from cases import Draw  # noqa: E402
from sweep import Failed, Ours, differs, repeats_of  # noqa: E402
from timing import options  # noqa: E402
from ways import Way, operands_of  # noqa: E402

TURNS = 3
COMPILER = True		# PyTorch's is asked, too
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
try:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
except ImportError as e:
    chunk_gated_delta_rule = None
    print("no flash-linear-attention: %s" % e)


# ---- the gated delta rule ----

def gated_delta_graph(d, b, s, hk, hv, dk, dv):
    q = d.input("q", (b, s, hk, dk))
    k = d.input("k", (b, s, hk, dk), 2 * math.sqrt(3 / dk))
    v = d.input("v", (b, s, hv, dv))
    g, beta = (d.param(n, (b, s, hv)) for n in ("g", "beta"))
    g = d.op("neg", x=d.op("mul", a=g, b=g))
    state = d.input("state", (b, hv, dk, dv), 0.2)
    d.value("gated_delta_net(q=%s, k=%s, v=%s, g=%s, beta=%s, state=%s)" % (
        q, k, v, g, d.op("sigmoid", x=beta), state), 2)
    d.say("gated_delta_net b%d s%d heads %d of %d, %d of %d" % (b, s, hk, dk, hv, dv))


def by_chunks(q, k, v, g, beta, state, chunk=64):
    """The rule in PyTorch, in f32; heads first, whole chunks."""
    r, (b, s, _, dk) = v.shape[2] // q.shape[2], q.shape
    pad = -s % chunk
    n, dv = (s + pad) // chunk, v.shape[-1]

    def heads(x):
        x = F.pad(x.float().transpose(1, 2), (0, 0, 0, pad))
        return x.reshape(b, x.shape[1], n, chunk, x.shape[-1])
    q, k = (heads(x).repeat_interleave(r, 1) for x in (q, k))
    v, g, beta = heads(v), heads(g.unsqueeze(-1)), heads(beta.unsqueeze(-1))
    g = g.cumsum(3)
    d = (g - g.transpose(3, 4)).tril().exp().tril()
    a = torch.eye(chunk, device=q.device) + (k @ k.transpose(3, 4) * d * beta).tril(-1)
    u = torch.linalg.solve_triangular(a, beta * v, upper=False, unitriangular=True)
    w = torch.linalg.solve_triangular(a, beta * g.exp() * k, upper=False, unitriangular=True)
    p, eq = (q @ k.transpose(3, 4)) * d, q * g.exp()
    ek, end = (k * (g[:, :, :, -1:] - g).exp()).transpose(3, 4), g[:, :, :, -1:].exp()
    state, out = state.float(), []
    for i in range(n):
        new = u[:, :, i] - w[:, :, i] @ state
        out.append(eq[:, :, i] @ state + p[:, :, i] @ new)
        state = state * end[:, :, i] + ek[:, :, i] @ new
    y = torch.stack(out, 2).reshape(b, v.shape[1], -1, dv)[:, :, :s].transpose(1, 2)
    return y / math.sqrt(dk)


if triton:
    @triton.autotune([triton.Config({"BLOCK": c}, num_warps=w)
                      for c in (8, 32, 64) for w in (1, 4)], key=["hv", "dk", "dv"])
    @triton.jit
    def delta_kernel(q, k, v, g, beta, state, y, last, steps, hk, hv, dk, dv, scale,
                     KEYS: tl.constexpr, BLOCK: tl.constexpr):
        line, col = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        entry, head, key = line // hv, line % hv, tl.arange(0, KEYS)
        there, known = col < dv, key < dk
        both = known[:, None] & there[None, :]
        at = line.to(tl.int64) * dk * dv + key[:, None] * dv + col[None, :]
        s = tl.load(state + at, both, 0).to(tl.float32)
        for t in range(steps):
            row = (entry * steps + t).to(tl.int64)
            of_keys = (row * hk + head // (hv // hk)) * dk + key
            ks = tl.load(k + of_keys, known, 0).to(tl.float32)
            qs = tl.load(q + of_keys, known, 0).to(tl.float32)
            vs = tl.load(v + (row * hv + head) * dv + col, there, 0).to(tl.float32)
            s *= tl.exp(tl.load(g + row * hv + head).to(tl.float32))
            u = vs - tl.sum(s * ks[:, None], 0)
            s += ks[:, None] * (u * tl.load(beta + row * hv + head).to(tl.float32))[None, :]
            ys = tl.sum(s * qs[:, None], 0) * scale
            tl.store(y + (row * hv + head) * dv + col, ys.to(y.dtype.element_ty), there)
        tl.store(last + at, s.to(last.dtype.element_ty), both)


def gated_delta_ways(t, steps):
    q, k, v = t["q"], t["k"], t["v"]
    g = -t["g"] * t["g"]
    beta, state = torch.sigmoid(t["beta"]), t["state"]
    gf, sf = g.float(), state.float()
    (b, _, hk, dk), (hv, dv) = q.shape, v.shape[2:]

    def by_triton():
        y, last = torch.empty_like(v), torch.empty_like(state)
        delta_kernel[lambda m: (triton.cdiv(dv, m["BLOCK"]), b * hv)](
            q, k, v, g, beta, state, y, last, steps, hk, hv, dk, dv, 1 / math.sqrt(dk),
            KEYS=triton.next_power_of_2(dk))
        return y
    ways = [("PyTorch by chunks", lambda: by_chunks(q, k, v, g, beta, state))]
    if triton and steps <= 256:
        ways.append(("Triton", by_triton))
    if chunk_gated_delta_rule:
        def fla(fn):
            return lambda: fn(q, k, v, g=gf, beta=beta, initial_state=sf,
                              output_final_state=True)[0]
        ways.append(("fla chunk", fla(chunk_gated_delta_rule)))
        if steps <= 256:
            ways.append(("fla recurrent", fla(fused_recurrent_gated_delta_rule)))
    return ways


# ---- Mamba's scan ----

def selective_graph(d, b, s, h, n, gated=True):
    x, delta = d.input("x", (b, s, h)), d.input("delta", (b, s, h))
    a = d.op("neg", x=d.op("exp", x=d.param("a", (h, n))))
    bs, cs = d.input("b", (b, s, n)), d.input("c", (b, s, n))
    skip, z = d.param("d", (h,)), d.input("z", (b, s, h)) if gated else None
    d.value("selective_scan(x=%s, delta=%s, a=%s, b=%s, c=%s, d=%s%s, softplus=true)" % (
        x, delta, a, bs, cs, skip, ", z=" + z if z else ""), 2)
    d.say("selective_scan b%d s%d h%d n%d%s" % (b, s, h, n, " gated" if z else ""))


if triton:
    @triton.autotune([triton.Config({"BLOCK": c}, num_warps=w)
                      for c in (8, 16, 32, 64) for w in (1, 2, 4)], key=["h", "n"])
    @triton.jit
    def scan_kernel(x, delta, a, b, c, d, z, y, last, steps, h, n, GATED: tl.constexpr,
                    STATES: tl.constexpr, BLOCK: tl.constexpr):
        entry, ch = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STATES)
        there, lane = ch < h, k < n
        both = there[:, None] & lane[None, :]
        at = ch[:, None] * n + k[None, :]
        rate = tl.load(a + at, both, 0).to(tl.float32) * 1.44269504
        skip = tl.load(d + ch, there, 0).to(tl.float32)
        state = tl.zeros((BLOCK, STATES), tl.float32)
        for t in range(steps):
            row = entry * steps + t
            xs = tl.load(x + row * h + ch, there, 0).to(tl.float32)
            ds = tl.load(delta + row * h + ch, there, 0).to(tl.float32)
            ds = tl.where(ds > 20, ds, tl.log(1 + tl.exp(ds)))
            bs = tl.load(b + row * n + k, lane, 0).to(tl.float32)
            cs = tl.load(c + row * n + k, lane, 0).to(tl.float32)
            state = tl.exp2(ds[:, None] * rate) * state + (ds * xs)[:, None] * bs[None, :]
            ys = tl.sum(state * cs[None, :], 1) + skip * xs
            if GATED:
                zs = tl.load(z + row * h + ch, there, 0).to(tl.float32)
                ys *= zs * tl.sigmoid(zs)
            tl.store(y + row * h + ch, ys.to(y.dtype.element_ty), there)
        tl.store(last + entry * h * n + at, state.to(last.dtype.element_ty), both)


def selective_ways(t, steps):
    from torch._higher_order_ops.associative_scan import associative_scan
    x, delta, b, c, d, z = (t.get(k) for k in ("x", "delta", "b", "c", "d", "z"))
    a = -torch.exp(t["a"].float()).to(x.dtype)
    (bn, s, h), n = x.shape, a.shape[1]

    def by_triton():
        y, last = torch.empty_like(x), x.new_empty(bn, h, n)
        scan_kernel[lambda m: (triton.cdiv(h, m["BLOCK"]), bn)](
            x, delta, a, b, c, d, z if z is not None else x, y, last, s, h, n,
            GATED=z is not None, STATES=triton.next_power_of_2(n))
        return y

    def join(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]

    def plain():
        dt = F.softplus(delta.float())
        decay = torch.exp(dt.unsqueeze(-1) * a.float())
        u = (dt * x.float()).unsqueeze(-1) * b.float().unsqueeze(2)
        state = associative_scan(join, (decay, u), 1)[1]
        y = (state * c.float().unsqueeze(2)).sum(-1) + d.float() * x.float()
        y = y if z is None else y * F.silu(z.float())
        return y.to(x.dtype), state[:, -1].to(x.dtype)
    ways = [("Triton", by_triton)] if triton else []
    if COMPILER and bn * s * h * n <= 1 << 28:	# every state of every step is in memory
        compiled = torch.compile(plain, dynamic=False)
        ways.append(("PyTorch compiled", lambda: compiled()[0]))
    return ways


# ---- linear recurrences ----

def linear_graph(d, outer, n, inner):
    a, x = (d.input(name, (outer, n, inner)) for name in ("a", "x"))
    d.op("linear_scan", a=a, x=x, initial=d.input("from", (outer, inner)), axis=1)
    d.say("linear_scan %dx%dx%d" % (outer, n, inner))


if triton:
    @triton.autotune([triton.Config({"BLOCK": c}, num_warps=w)
                      for c in (32, 128, 256) for w in (1, 4)], key=["inner"])
    @triton.jit
    def linear_kernel(a, x, first, y, n, inner, BLOCK: tl.constexpr):
        row, at = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        there = at < inner
        state = tl.load(first + row * inner + at, there, 0).to(tl.float32)
        for t in range(n):
            i = (row * n + t) * inner + at
            state = tl.load(a + i, there, 0).to(tl.float32) * state + \
                tl.load(x + i, there, 0).to(tl.float32)
            tl.store(y + i, state.to(y.dtype.element_ty), there)


def linear_ways(t, steps):
    from torch._higher_order_ops.associative_scan import associative_scan
    a, x, first = t["a"], t["x"], t["from"]
    outer, n, inner = x.shape

    def by_triton():
        y = torch.empty_like(x)
        linear_kernel[lambda m: (triton.cdiv(inner, m["BLOCK"]), outer)](
            a, x, first, y, n, inner)
        return y

    def join(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]

    def plain():
        af = a.float()
        u = torch.cat([x[:, :1] + af[:, :1] * first[:, None].float(), x[:, 1:].float()], 1)
        return associative_scan(join, (af, u), 1)[1].to(x.dtype)
    ways = [("Triton", by_triton)] if triton and outer < 65536 else []
    if COMPILER:
        ways.append(("PyTorch compiled", torch.compile(plain, dynamic=False)))
    return ways


# ---- the cases ----

FAMILIES = {"gated_delta_net": (gated_delta_graph, gated_delta_ways),
            "selective_scan": (selective_graph, selective_ways),
            "linear_scan": (linear_graph, linear_ways)}
REAL = {
    "gated_delta_net": [(dtype,) + shape for dtype, shape in [
        ("bf16", (1, 1024, 16, 16, 128, 128)), ("bf16", (1, 8192, 16, 16, 128, 128)),
        ("bf16", (4, 4096, 16, 16, 128, 128)), ("bf16", (8, 2048, 16, 16, 128, 128)),
        ("bf16", (1, 4096, 16, 32, 128, 128)), ("bf16", (2, 4096, 16, 16, 128, 256)),
        ("f16", (1, 4096, 16, 16, 128, 128)), ("f32", (1, 2048, 16, 16, 128, 128)),
        ("bf16", (1, 1, 16, 32, 128, 128)), ("bf16", (16, 1, 16, 32, 128, 128)),
        ("bf16", (1, 64, 16, 32, 128, 128))]],
    "selective_scan": [(dtype,) + shape for dtype, shape in [
        ("bf16", (1, 512, 4096, 16)), ("bf16", (1, 2048, 4096, 16)),
        ("bf16", (1, 4096, 4096, 16)), ("bf16", (8, 2048, 4096, 16)),
        ("f16", (2, 2048, 4096, 16)), ("f32", (1, 2048, 4096, 16)),
        ("bf16", (1, 4096, 1536, 16)), ("bf16", (8, 1, 4096, 16)),
        ("bf16", (2, 2048, 2048, 64))]],
    "linear_scan": [(dtype,) + shape for dtype, shape in [
        ("bf16", (1, 2048, 2560)), ("bf16", (8, 2048, 4096)), ("f32", (1, 4096, 2560)),
        ("bf16", (8, 1, 2560))]],
}


def drawn(rng, family, short):
    dtype = report.one_of(rng, "bf16", "bf16", "f16", "f32")
    batch = report.size(rng, 1, 64) if short else report.one_of(rng, 1, 1, 2, 4)
    steps = report.one_of(rng, 1, report.size(rng, 1, 16)) if short else \
        report.size(rng, 1, 4096)
    if family == "linear_scan":
        return (dtype, batch, steps, report.size(rng, 64, 8192))
    if family == "selective_scan":
        return (dtype, batch, steps, report.size(rng, 256, 6144),
                report.one_of(rng, 8, 16, 16, 32, 64), rng.random() < 0.7)
    hk = report.one_of(rng, 4, 8, 16)
    return (dtype, batch, steps, hk,
            hk * report.one_of(rng, 1, 1, 2), report.one_of(rng, 64, 128, 128, 256),
            report.one_of(rng, 64, 128, 128, 256))


class Case(Draw):
    """A problem of known sizes."""

    def __init__(self, family, dtype, *shape):
        super().__init__(0, family, 0, 1 << 28)
        self.dtype = dtype
        self.words.append(dtype)
        FAMILIES[family][0](self, *shape)


def peers_of(family, d):
    """Ways that can, each a graph of as many runs as ours would be."""
    ways, notes = [], []
    t = operands_of(d)
    steps = d.operands[0][1][1]
    for name, run in FAMILIES[family][1](t, steps):
        try:
            with torch.inference_mode():
                run()
                ways.append(Way(name, run, repeats_of(Way(name, run, 1).us())))
        except Exception as e:		# one way that cannot is no way that the others cannot
            notes.append("%s: %s" % (name, (str(e).strip() or repr(e)).split("\n")[0][:90]))
    return ways, notes


def measure(family, d, ours, i, alone):
    ours.open(i, 1)
    launches, host = ours.open(i, repeats_of(ours.us()))
    ways, notes = ([], []) if alone else peers_of(family, d)
    best, theirs, wrong = math.inf, {w.name: math.inf for w in ways}, []
    got = ours.sample()
    for w in ways:
        bad = differs(got, w.sample(len(got)), d.dtype)
        wrong += ["%s: %s" % (w.name, bad)] if bad else []
    for _ in range(TURNS):
        best = min(best, ours.us())
        for w in ways:
            theirs[w.name] = min(theirs[w.name], w.us())
    ours.close()
    ratio = min(theirs.values()) / best if theirs else 0
    print("%6.2f  %9.1f us  %-58s %s  [%d launches, %d host]%s%s" % (
        ratio, best, d.title(), "  ".join("%s %.1f" % p for p in theirs.items()), launches, host,
        "  WRONG: " + "; ".join(wrong) if wrong else "",
        "  (%s)" % "; ".join(notes) if notes else ""), flush=True)
    return ratio, "; ".join(wrong)


def main():
    p = options(8)
    p.add_argument("programs")
    p.add_argument("--short", type=int, default=8, help="cases of 1 to 16 steps")
    p.add_argument("--no-peer", action="store_true", help="times of ours alone")
    p.add_argument("--no-compiler", action="store_true",
                   help="without PyTorch's, which takes long to compile")
    p.add_argument("--family", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    args = p.parse_args()
    global COMPILER
    COMPILER = not args.no_compiler
    torch.backends.cuda.matmul.allow_tf32 = False
    ours = Ours(os.path.abspath(args.programs), 120)
    failed = 0
    print("seed %d, against PyTorch %s on %s" % (args.seed, torch.__version__,
                                                 torch.cuda.get_device_name(0)), flush=True)
    for family in args.family:
        rng = random.Random("%d %s" % (args.seed, family))
        shapes = REAL[family] + [drawn(rng, family, i >= args.cases)
                                 for i in range(args.cases + args.short)]
        draws, ratios = [Case(family, *s) for s in shapes], []
        said = ours.prepare(draws)
        for i, d in enumerate(draws):
            try:
                if not said[i].startswith("ok"):
                    raise Failed("rlx: " + said[i])
                ratio, wrong = measure(family, d, ours, i, args.no_peer)
            except (Failed, RuntimeError) as e:
                ratio, wrong = 0, str(e)
                print("        %s: %s" % (d.title(), wrong.split("\n")[0]), flush=True)
            failed += bool(wrong)
            if ratio and not wrong:
                ratios.append(ratio)
            torch.cuda.empty_cache()
        print(report.HEAD)
        print(report.summary(family, ratios), flush=True)
    ours.p.stop()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
