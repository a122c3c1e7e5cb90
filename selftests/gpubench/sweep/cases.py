# SPDX-License-Identifier: MIT
"""Families of problems for the sweep on a GPU: each draws one at random, from the ranges that
real models have and beside them, as a graph in RLX's text form and as what the peer computes.

A family is a function of a Draw, registered by @family. The peer's side is a function of a
dictionary of tensors, by name, and is called where torch is; nothing here imports it."""
import math
import os
import random
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "..", "bench", "sweep"))
import report  # noqa: E402

FAMILIES = {}
MOST = 1 << 25		# elements of an operand or a result, if nobody says otherwise


def family(fn):
    FAMILIES[fn.__name__] = fn
    return fn


class Draw:
    """One problem being drawn: the graph's lines, its operands, and the peer's function."""

    def __init__(self, seed, name, index, most):
        self.most = most
        self.rng = random.Random("%s %s %d" % (seed, name, index))
        self.name, self.lines, self.operands, self.words = name, [], [], []
        self.values = 0
        self.peer = None		# tensors by name -> a tensor
        self.flops = 0
        self.compiled = False		# the peer's compiler may join steps of it
        self.dtype = "f16"

    def one_of(self, *what):
        return report.one_of(self.rng, *what)

    def chance(self, p):
        return self.rng.random() < p

    def size(self, lo, hi, steps=(64, 64, 8, 8, 1)):
        return report.size(self.rng, lo, hi, steps)

    def floats(self, *some):
        self.dtype = self.one_of(*(some or ("f16", "f16", "bf16", "bf16", "f32")))
        self.words.append(self.dtype)
        return self.dtype

    def say(self, *words):
        self.words += [str(w) for w in words]

    def value(self, text, outputs=1):
        """The first of them, which is the graph's output if nothing follows."""
        names = ["%%%d" % (self.values + 1 + i) for i in range(outputs)]
        self.lines.append("  %s = %s" % (", ".join(names), text))
        self.values += outputs
        self.last = names[0]
        return self.last

    def leaf(self, op, name, shape, scale, dtype):
        """Uniform from -scale/2 to scale/2."""
        self.fits(*shape)
        dtype = dtype or self.dtype
        self.operands.append((name, tuple(shape), dtype, 1 + len(self.operands), scale))
        return self.value('%s(name="%s", type=%s[%s])' % (
            op, name, dtype, ",".join(map(str, shape))))

    def input(self, name, shape, scale=2.0, dtype=None):
        """What each run is given."""
        return self.leaf("input", name, shape, scale, dtype)

    def param(self, name, shape, scale=2.0, dtype=None):
        """What stays: a side may turn it, or round it, once and for all runs."""
        return self.leaf("param", name, shape, scale, dtype)

    def fits(self, *shape):
        if math.prod(shape) > self.most:
            raise TooLarge

    def op(self, op, outputs=1, **fields):
        return self.value("%s(%s)" % (op, ", ".join(
            "%s=%s" % (k, str(list(v)).replace(" ", "") if isinstance(v, (list, tuple)) else
                       str(v).lower() if isinstance(v, bool) else v)
            for k, v in fields.items())), outputs)

    def graph(self):
        return 'graph "%s" {\n%s\n  return "y"=%s\n}\n' % (
            self.name, "\n".join(self.lines), self.last)

    def title(self):
        return " ".join(self.words)


class TooLarge(Exception):
    pass


def draw(name, seed, index, most=MOST):
    """A problem whose operands fit; drawn again where they do not."""
    for turn in range(2000):
        d = Draw("%s.%d" % (seed, turn), name, index, most)
        try:
            FAMILIES[name](d)
            return d
        except TooLarge:
            pass
    raise TooLarge("%s: nothing has %d elements at most" % (name, most))


def limited(d, flops, most=2e12):
    d.flops = flops
    if flops > most:
        raise TooLarge("flops")


# ---- products ----

@family
def gemm(d):
    d.floats()
    m = d.one_of(1, 8, 16, 50, 128, 197, 333, 577, 4096) if d.chance(1 / 3) else \
        d.size(1, 16384, (1,))
    n, k = d.size(16, 16384), d.size(16, 16384)
    trans, end = d.chance(0.6), d.one_of("", "", "bias", "gelu", "residual")
    limited(d, 2.0 * m * n * k)
    d.fits(m, n)
    d.say("%dx%dx%d" % (m, n, k), "nt" if trans else "nn", end)
    a = d.input("a", (m, k))
    b = d.param("b", (n, k) if trans else (k, n), 4 / math.sqrt(k))
    y = d.op("fused_matmul", a=a, b=b, trans_b=trans)
    if end in ("bias", "gelu"):
        y = d.op("add", a=y, b=d.param("bias", (n,)))
    if end == "gelu":
        y = d.op("gelu", x=y)
    if end == "residual":
        y = d.op("add", a=y, b=d.input("r", (m, n)))

    def peer(t, F):
        w = t["b"] if trans else t["b"].t()
        y = F.linear(t["a"], w, t.get("bias"))
        y = F.gelu(y) if end == "gelu" else y
        return y + t["r"] if end == "residual" else y
    d.peer = peer


@family
def batched(d):
    d.floats()
    b = d.size(2, 256, (1, 8))
    m, n, k = d.size(1, 1024), d.size(8, 1024), d.size(16, 1024)
    trans = d.chance(0.5)
    limited(d, 2.0 * b * m * n * k)
    d.fits(b, m, n)
    d.say("%d of %dx%dx%d" % (b, m, n, k), "nt" if trans else "nn")
    d.op("fused_matmul", a=d.input("a", (b, m, k)), trans_b=trans,
         b=d.input("b", (b, n, k) if trans else (b, k, n), 4 / math.sqrt(k)))
    d.peer = lambda t, F: t["a"] @ (t["b"].transpose(1, 2) if trans else t["b"])


@family
def conv(d):
    d.floats("f16", "f16", "bf16", "f32")
    n = d.one_of(1, 1, 4, 8, 32)
    s = d.one_of(7, 14, 28, 56, 112) + d.one_of(0, 0, 0, 1, 2) if d.chance(0.8) else \
        d.size(1, 256, (1,))
    c = d.one_of(3, 16, 32, 64, 96, 128, 256, 512, 1024) if d.chance(0.7) else d.size(1, 600)
    oc = d.one_of(16, 24, 64, 128, 256, 512, 2048) if d.chance(0.7) else d.size(1, 600)
    k, st = d.one_of(1, 1, 3, 3, 3, 5, 7), d.one_of(1, 1, 1, 2)
    k = min(k, s)
    groups = 1
    if d.chance(0.2):
        groups = oc = c
    pad, p = k // 2, (s + 2 * (k // 2) - k) // st + 1
    limited(d, 2.0 * n * p * p * oc * k * k * c / groups)
    d.fits(n, oc, p, p)
    d.say("n%d c%d oc%d g%d %dx%d k%d s%d" % (n, c, oc, groups, s, s, k, st))
    x = d.input("x", (n, c, s, s))
    w = d.param("w", (oc, c // groups, k, k), 4 / math.sqrt(k * k * c / groups))
    y = d.op("conv", x=x, w=w, bias=d.param("bias", (oc,)), stride=[st, st],
             pad=[pad] * 4, groups=groups)
    act = d.chance(0.5)
    if act:
        d.op("relu", x=y)
        d.say("relu")

    def peer(t, F):
        y = F.conv2d(t["x"], t["w"], t["bias"], st, pad, 1, groups)
        return F.relu(y) if act else y
    d.peer = peer


@family
def attention(d):
    d.floats("f16", "bf16")
    b, h = d.size(1, 32, (1,)), d.one_of(1, 4, 8, 12, 16, 32)
    group = d.one_of(1, 1, 1, 4, 8)
    kvh = max(1, h // group)
    h = kvh * group
    hd = d.one_of(32, 40, 64, 64, 80, 96, 128, 128, 256)
    q = d.size(1, 8, (1,)) if d.chance(0.25) else d.size(16, 4096)
    kv = q if d.chance(0.5) else d.size(max(16, q), 8192)
    causal = q == kv and d.chance(0.5)
    limited(d, 4.0 * b * h * q * kv * hd / (2 if causal else 1))
    d.say("b%d h%d/%d q%d kv%d d%d" % (b, h, kvh, q, kv, hd), "causal" if causal else "")
    d.op("attention", q=d.input("q", (b, h, q, hd)), k=d.input("k", (b, kvh, kv, hd)),
         v=d.input("v", (b, kvh, kv, hd)), heads=h, kv_heads=kvh, layout=1,
         mask=int(causal), scale=1 / math.sqrt(hd))
    d.peer = lambda t, F: F.scaled_dot_product_attention(
        t["q"], t["k"], t["v"], is_causal=causal, enable_gqa=kvh != h)


# ---- memory's families ----

def rows_of(d):
    rows, n = d.size(1, 1 << 17, (1,)), d.size(1, 1 << 15)
    d.fits(rows, n)
    return rows, n


@family
def norm(d):
    d.floats()
    rows, n = rows_of(d)
    kind = d.one_of("layer", "layer", "rms")
    d.say(kind, "%dx%d" % (rows, n))
    x, g = d.input("x", (rows, n)), d.param("g", (n,))
    if kind == "layer":
        d.op("layer_norm", x=x, gamma=g, beta=d.param("b", (n,)), axis=-1, eps=1e-5)
        d.peer = lambda t, F: F.layer_norm(t["x"], (n,), t["g"], t["b"], 1e-5)
    else:
        d.op("rms_norm", x=x, gamma=g, axis=-1, eps=1e-5)
        d.peer = lambda t, F: F.rms_norm(t["x"], (n,), t["g"], 1e-5)


@family
def softmax(d):
    d.floats()
    rows, n = rows_of(d)
    inner = d.size(2, 256) if d.chance(0.3) else 1
    d.say("%dx%d%s" % (rows, n, "x%d over the second" % inner if inner > 1 else ""))
    d.op("softmax", x=d.input("x", (rows, n, inner) if inner > 1 else (rows, n), 8.0), axis=1)
    d.peer = lambda t, F: F.softmax(t["x"], 1)


@family
def reduce(d):
    d.floats()
    rank = d.one_of(1, 2, 2, 3, 3, 4)
    shape = [d.size(1, (1 << 22) ** (1 / rank) * 2) for _ in range(rank)]
    axes = sorted({a for a in range(rank) if d.chance(0.5)} or {rank - 1})
    kind = d.one_of("sum", "mean", "max")
    d.say(kind, "x".join(map(str, shape)), "over", *axes)
    n = math.prod(shape[a] for a in axes)
    d.op("reduce", x=d.input("x", shape, 2.0 if kind == "max" else 8 / math.sqrt(n)), axes=axes,
         kind=("sum", "mean", "max").index(kind))
    d.peer = lambda t, F: t["x"].amax(axes) if kind == "max" else \
        getattr(t["x"], kind)(axes)


@family
def topk(d):
    d.floats("f32", "f32", "f16", "bf16")
    n, lines = d.size(100, 1 << 20), d.size(1, 1 << 17, (1,))
    inner = d.size(2, 64) if d.chance(0.2) else 1
    k = d.size(1, n if d.chance(0.3) else min(n, 128), (1,))
    k, least = n if d.chance(0.15) else k, d.chance(0.3)
    d.say("%dx%d%s" % (lines, n, "x%d" % inner if inner > 1 else ""), "k%d" % k,
          "smallest" if least else "")
    shape = (lines, n, inner) if inner > 1 else (lines, n)
    d.op("topk", 2, x=d.input("x", shape, 8.0), k=k, axis=1, smallest=least)
    if k == n:
        d.peer = lambda t, F: t["x"].sort(dim=1, descending=not least)[0]
    else:
        d.peer = lambda t, F: t["x"].topk(k, dim=1, largest=not least)[0]


@family
def knn(d):
    d.floats("f32")
    n, m, dims = d.size(1, 1 << 14, (1,)), d.size(64, 1 << 17, (1,)), d.size(2, 1024)
    k = min(d.size(1, 100, (1,)), m)
    limited(d, 2.0 * n * m * dims)
    d.fits(n, m)
    d.say("%d of %d by %d, k%d" % (n, m, dims, k))
    d.op("knn", 2, x=d.input("x", (n, dims)), y=d.param("y", (m, dims)), k=k)
    d.peer = lambda t, F: F.torch.cdist(t["x"], t["y"]).topk(k, dim=1, largest=False)[0]


@family
def pool(d):
    d.floats()
    n, c = d.one_of(1, 4, 16, 32), d.size(3, 1024)
    s, k = d.size(4, 224, (1, 8)), d.one_of(2, 2, 3, 3, 5)
    k = min(k, s)
    st, kind = d.one_of(1, 2, 2), d.one_of("max", "avg")
    pad = k // 2 if d.chance(0.5) else 0
    d.say(kind, "n%d c%d %dx%d k%d s%d p%d" % (n, c, s, s, k, st, pad))
    d.op("pool", x=d.input("x", (n, c, s, s)), kind=int(kind == "avg"), kernel=[k, k],
         stride=[st, st], pad=[pad] * 4)
    d.peer = (lambda t, F: F.max_pool2d(t["x"], k, st, pad)) if kind == "max" else \
        (lambda t, F: F.avg_pool2d(t["x"], k, st, pad, count_include_pad=False))


UNARY = {
    "relu": lambda x, F: F.relu(x), "gelu": lambda x, F: F.gelu(x),
    "silu": lambda x, F: F.silu(x), "sigmoid": lambda x, F: x.sigmoid(),
    "tanh": lambda x, F: x.tanh(), "abs": lambda x, F: x.abs(), "neg": lambda x, F: -x,
    "sin": lambda x, F: x.sin(),
}


@family
def pointwise(d):
    d.floats()
    rank = d.one_of(1, 2, 2, 3, 4)
    shape = [d.size(1, (1 << 22) ** (1 / rank) * 2) for _ in range(rank)]
    steps, x = [], d.input("x0", shape)
    for i in range(1 + int(d.rng.random() * 12)):
        if d.chance(0.5):
            name = d.one_of(*UNARY)
            steps.append((name, None))
            x = d.op(name, x=x)
            continue
        form = d.one_of("full", "scalar", "row", "column", "middle")
        s = {"full": shape, "scalar": [1] * rank, "row": [1] * (rank - 1) + shape[-1:],
             "column": shape[:1] + [1] * (rank - 1),
             "middle": [e if a == rank // 2 else 1 for a, e in enumerate(shape)]}[form]
        name, other = d.one_of("add", "mul", "sub", "max"), "x%d" % (len(d.operands))
        steps.append((name, other))
        x = d.op(name, a=x, b=d.input(other, s))
    d.say("x".join(map(str, shape)), *("%s" % n for n, _ in steps))

    def peer(t, F):
        x = t["x0"]
        for name, other in steps:
            if other is None:
                x = UNARY[name](x, F)
            else:
                x = {"add": x.add, "mul": x.mul, "sub": x.sub, "max": x.maximum}[name](t[other])
        return x
    d.peer, d.compiled = peer, True


# ---- blocks of models ----

def linear(d, x, name, n, k):
    y = d.op("fused_matmul", a=x, b=d.param(name, (n, k), 4 / math.sqrt(k)), trans_b=True)
    return d.op("add", a=y, b=d.param(name + "b", (n,), 0.2))


@family
def block(d):
    """A layer of an encoder (BERT, ViT, Whisper), a gated MLP (Llama), a bottleneck (ResNet)."""
    d.one_of(encoder, encoder, gated, bottleneck)(d)
    d.compiled = True


def encoder(d):
    d.floats("f16", "bf16")
    w, hd = d.one_of((384, 32), (512, 64), (768, 64), (1024, 64), (1280, 80))
    h = w // hd
    b, s = d.one_of(1, 1, 8, 32), d.one_of(16, 50, 128, 197, 256, 384, 512, 1500)
    limited(d, 2.0 * b * s * w * (12 * w + 2 * s))
    d.say("encoder %dx%d of %d, %d heads" % (b, s, w, h))
    x = d.input("x", (b * s, w))
    n = d.op("layer_norm", x=x, gamma=d.param("g1", (w,)), beta=d.param("b1", (w,)), axis=-1,
             eps=1e-5)
    q, k, v = (d.op("reshape", x=linear(d, n, "w" + c, w, w), shape=[b, s, w]) for c in "qkv")
    a = d.op("attention", q=q, k=k, v=v, heads=h, kv_heads=h, scale=1 / math.sqrt(hd))
    y = linear(d, d.op("reshape", x=a, shape=[b * s, w]), "wo", w, w)
    x = d.op("add", a=x, b=y)
    n = d.op("layer_norm", x=x, gamma=d.param("g2", (w,)), beta=d.param("b2", (w,)), axis=-1,
             eps=1e-5)
    y = linear(d, d.op("gelu", x=linear(d, n, "wu", 4 * w, w)), "wd", w, 4 * w)
    d.op("add", a=x, b=y)

    def peer(t, F):
        def lin(x, name):
            return F.linear(x, t[name], t[name + "b"])
        n = F.layer_norm(t["x"], (w,), t["g1"], t["b1"], 1e-5)
        q, k, v = (lin(n, "w" + c).view(b, s, h, hd).transpose(1, 2) for c in "qkv")
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b * s, w)
        x = t["x"] + lin(a, "wo")
        n = F.layer_norm(x, (w,), t["g2"], t["b2"], 1e-5)
        return x + lin(F.gelu(lin(n, "wu")), "wd")
    d.peer = peer


def gated(d):
    d.floats("f16", "bf16")
    m, w = d.one_of(1, 1, 4, 16, 128, 512), d.one_of(1024, 2048, 4096)
    i = d.one_of(2, 3) * w
    limited(d, 6.0 * m * w * i)
    d.say("gated MLP %dx%d, %d inside" % (m, w, i))
    x = d.input("x", (m, w))
    n = d.op("rms_norm", x=x, gamma=d.param("g", (w,)), axis=-1, eps=1e-5)
    up = d.op("fused_matmul", a=n, b=d.param("wu", (i, w), 4 / math.sqrt(w)), trans_b=True)
    gate = d.op("fused_matmul", a=n, b=d.param("wg", (i, w), 4 / math.sqrt(w)), trans_b=True)
    y = d.op("mul", a=d.op("silu", x=gate), b=up)
    y = d.op("fused_matmul", a=y, b=d.param("wd", (w, i), 4 / math.sqrt(i)), trans_b=True)
    d.op("add", a=x, b=y)

    def peer(t, F):
        n = F.rms_norm(t["x"], (w,), t["g"], 1e-5)
        y = F.silu(F.linear(n, t["wg"])) * F.linear(n, t["wu"])
        return t["x"] + F.linear(y, t["wd"])
    d.peer = peer


def bottleneck(d):
    d.floats("f16", "bf16")
    n, (s, c) = d.one_of(1, 8, 32), d.one_of((56, 64), (28, 128), (14, 256), (7, 512))
    limited(d, 2.0 * n * s * s * c * c * 17)
    d.say("bottleneck n%d %dx%d of %d" % (n, s, s, c))
    x = y = d.input("x", (n, 4 * c, s, s))
    for i, (o, k, e) in enumerate(((c, 4 * c, 1), (c, c, 3), (4 * c, c, 1))):
        y = d.op("conv", x=y, w=d.param("w%d" % i, (o, k, e, e), 4 / math.sqrt(k * e * e)),
                 bias=d.param("b%d" % i, (o,)), stride=[1, 1], pad=[e // 2] * 4, groups=1)
        y = d.op("relu", x=y if i < 2 else d.op("add", a=y, b=x))

    def peer(t, F):
        y = F.relu(F.conv2d(t["x"], t["w0"], t["b0"]))
        y = F.relu(F.conv2d(y, t["w1"], t["b1"], 1, 1))
        return F.relu(F.conv2d(y, t["w2"], t["b2"]) + t["x"])
    d.peer = peer
