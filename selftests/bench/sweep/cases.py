# SPDX-License-Identifier: MIT
"""Families of models for the sweep: each draws one at random, from the ranges that real
models have and beside them, as an ONNX model with weights inside and inputs to run on.

A family is a function of a Draw, registered by @family. Draw.size() draws dimensions that
are multiples of many, of few and of nothing; a case's dtype and layout are drawn, too."""
import math

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import report

FAMILIES = {}
NP = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i64": np.int64,
      "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}
OPSET = 20


def family(fn):
    FAMILIES[fn.__name__] = fn
    return fn


class Draw:
    """One case being drawn: its graph, its weights and inputs, and what it computes."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inits, self.ins, self.data = [], [], [], {}
        self.words, self.flops, self.count = [], 0, 0
        self.dtype = "f32"

    def one_of(self, *what):
        return report.one_of(self.rng, *what)

    def chance(self, p):
        return self.rng.random() < p

    def size(self, lo, hi):
        return report.size(self.rng, lo, hi)

    def floats(self):
        """Mostly f32, since that is what most models are."""
        self.dtype = self.one_of("f32", "f32", "f32", "f16")
        return self.dtype

    def say(self, *words):
        self.words += [str(w) for w in words]

    def name(self):
        self.count += 1
        return "v%d" % self.count

    def values(self, shape, dtype, scale):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype[0] in "iu":
            top = min(100, np.iinfo(NP[dtype]).max)
            return self.rng.integers(0 if dtype[0] == "u" else -top, top, shape,
                                     endpoint=True).astype(NP[dtype])
        return (self.rng.standard_normal(shape) * scale).astype(NP[dtype])

    def input(self, shape, dtype=None, scale=1.0):
        dtype = dtype or self.dtype
        n = self.name()
        self.data[n] = self.values(shape, dtype, scale)
        self.ins.append(h.make_tensor_value_info(
            n, h.np_dtype_to_tensor_dtype(np.dtype(NP[dtype])), list(shape)))
        return n

    def const(self, a):
        n = self.name()
        self.inits.append(nh.from_array(np.asarray(a, order="C"), n))
        return n

    def weight(self, shape, dtype=None, scale=None):
        k = math.prod(shape[1:]) if len(shape) > 2 else shape[0]
        scale = scale or 1 / math.sqrt(max(k, 1))
        return self.const(self.values(shape, dtype or self.dtype, scale))

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def op(self, kind, *ins, n_out=1, **attrs):
        outs = [self.name() for _ in range(n_out)]
        self.nodes.append(h.make_node(kind, list(ins), outs, **attrs))
        return outs[0] if n_out == 1 else outs

    def model(self, *outs):
        g = h.make_graph(self.nodes, "sweep", self.ins,
                         [h.make_empty_tensor_value_info(o) for o in outs], self.inits)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", OPSET)], ir_version=9)
        return onnx.shape_inference.infer_shapes(m, strict_mode=True, data_prop=True)


ACTS = ("Relu", "Sigmoid", "Tanh", "Gelu", "HardSwish", "LeakyRelu", "Elu", "Softplus", "Silu")


def act(d, x, which):
    if which == "Silu":
        return d.op("Mul", x, d.op("Sigmoid", x))
    return d.op(which, x)


@family
def gemm(d):
    dt = d.floats()
    m, n, k = d.size(1, 1024), d.size(16, 4096), d.size(16, 4096)
    while m * n * k > 2e9 or m * n * k < 2e6:
        m, n, k = d.size(1, 1024), d.size(16, 4096), d.size(16, 4096)
    d.flops = 2 * m * n * k
    x, y = d.input((m, k)), None
    if d.chance(0.25):
        y = d.op("Gemm", x, d.weight((n, k), scale=k ** -0.5), d.weight((n,), scale=1), transB=1)
    else:
        y = d.op("MatMul", x, d.weight((k, n)))
        if d.chance(0.5):
            y = d.op("Add", y, d.weight((n,), scale=1))
    end = d.one_of(None, None, "Relu", "Gelu", "Silu")
    d.say(dt, "%dx%dx%d" % (m, n, k), end or "")
    return d.model(act(d, y, end) if end else y)


@family
def batched_gemm(d):
    dt = d.floats()
    b, m, n, k = d.size(2, 64), d.size(1, 512), d.size(1, 512), d.size(8, 512)
    while not 2e6 < b * m * n * k < 5e8:
        b, m, n, k = d.size(2, 64), d.size(1, 512), d.size(1, 512), d.size(8, 512)
    d.flops = 2 * b * m * n * k
    x = d.input((b, m, k))
    if d.chance(0.5):
        y = d.op("MatMul", x, d.input((b, k, n)))
        d.say(dt, "%d of %dx%dx%d" % (b, m, n, k))
    else:
        y = d.op("MatMul", x, d.op("Transpose", d.input((b, n, k)), perm=[0, 2, 1]))
        d.say(dt, "%d of %dx%dx%d, b transposed" % (b, m, n, k))
    return d.model(y)


@family
def thin_gemm(d):
    """Few columns, of weights or of an input."""
    dt = d.floats()
    b, m, n, k = d.one_of(1, 1, d.size(2, 64)), d.size(16, 4096), d.size(1, 18), d.size(8, 4096)
    while not 2e5 < b * m * n * k < 2e8:
        b, m, n, k = d.one_of(1, 1, d.size(2, 64)), d.size(16, 4096), d.size(1, 18), d.size(8, 4096)
    d.flops = 2 * b * m * n * k
    x = d.input((b, m, k))
    kind = d.one_of("weights", "input", "transposed")
    if kind == "transposed":
        y = d.op("MatMul", x, d.op("Transpose", d.input((b, n, k)), perm=[0, 2, 1]))
    else:
        y = d.op("MatMul", x, d.weight((k, n)) if kind == "weights" else d.input((b, k, n)))
    d.say(dt, "%d of %dx%dx%d, %s" % (b, m, n, k, kind))
    return d.model(y)


def conv_of(d, x, b, c, o, kern, stride, pads, group=1, dil=1):
    w = d.weight((o, c // group, *kern))
    return d.op("Conv", x, w, d.weight((o,), scale=1), kernel_shape=kern,
                strides=[stride] * len(kern), pads=pads * 2, group=group,
                dilations=[dil] * len(kern))


@family
def conv(d):
    dt = d.floats()
    rank = d.one_of(1, 2, 2, 2, 2, 3)
    while True:
        kind = d.one_of("plain", "plain", "plain", "pointwise", "depthwise", "grouped")
        k = 1 if kind == "pointwise" else d.one_of(2, 3, 3, 3, 5, 7)
        b, c, o = d.one_of(1, 1, 1, 2, 8), d.size(3, 512), d.size(8, 512)
        hw = {1: d.size(64, 8192), 2: d.size(7, 224), 3: d.size(5, 40)}[rank]
        stride, dil = d.one_of(1, 1, 1, 2), d.one_of(1, 1, 1, 1, 2)
        group = 1
        if kind == "depthwise":
            group = o = c
        elif kind == "grouped":
            group = d.one_of(2, 4, 8)
            c, o = -(-c // group) * group, -(-o // group) * group
        pad = dil * (k - 1) // 2 if d.chance(0.8) else 0
        out = (hw + 2 * pad - dil * (k - 1) - 1) // stride + 1
        if out < 1:
            continue
        d.flops = 2 * b * o * (c // group) * k ** rank * out ** rank
        if 2e6 < d.flops < 3e9 and b * max(c, o) * hw ** rank < 1.5e7:
            break
    x = d.input((b, c, *[hw] * rank))
    y = conv_of(d, x, b, c, o, [k] * rank, stride, [pad] * rank, group, dil)
    end = d.one_of(None, "Relu", "Silu", "HardSwish")
    d.say(dt, "%dd %s b%d %d->%d, %d^%d k%d s%d d%d g%d pad %d" % (
        rank, kind, b, c, o, hw, rank, k, stride, dil, group, pad), end or "")
    return d.model(act(d, y, end) if end else y)


@family
def conv_transpose(d):
    dt = d.floats()
    while True:
        b, c, o, hw = 1, d.size(8, 256), d.size(3, 256), d.size(7, 96)
        k, s = d.one_of((2, 2), (3, 2), (4, 2), (3, 1), (4, 4))
        d.flops = 2 * b * c * o * k * k * hw * hw
        if 2e6 < d.flops < 2e9:
            break
    x = d.input((b, c, hw, hw))
    d.say(dt, "b%d %d->%d, %d^2 k%d s%d" % (b, c, o, hw, k, s))
    return d.model(d.op("ConvTranspose", x, d.weight((c, o, k, k), scale=(c * k) ** -0.5),
                        d.weight((o,), scale=1), kernel_shape=[k, k], strides=[s, s],
                        pads=[(k - s + 1) // 2] * 4))


def heads(d, x, b, s, nh_, w):
    return d.op("Transpose", d.op("Reshape", x, d.ints(b, s, nh_, w)), perm=[0, 2, 1, 3])


def attend(d, q, k, v, b, s, nh_, w, mask=None):
    p = d.op("MatMul", q, d.op("Transpose", k, perm=[0, 1, 3, 2]))
    p = d.op("Mul", p, d.const(np.array(w ** -0.5, NP[d.dtype])))
    if mask:
        p = d.op("Add", p, mask)
    y = d.op("MatMul", d.op("Softmax", p, axis=-1), v)
    d.flops += 4 * b * nh_ * s * s * w
    return d.op("Reshape", d.op("Transpose", y, perm=[0, 2, 1, 3]), d.ints(b, s, nh_ * w))


@family
def attention(d):
    dt = d.floats()
    b, n, w, s = (d.one_of(1, 1, 4), d.one_of(1, 4, 6, 12, 16), d.one_of(32, 64, 64, 80, 128),
                  d.size(8, 600))
    while not 1e6 < 4 * b * n * s * s * w < 2e9:
        b, s = 1, d.size(32, 400)
    q, k, v = (heads(d, d.input((b, s, n * w)), b, s, n, w) for _ in range(3))
    mask = d.input((b, 1, 1, s)) if d.chance(0.5) else None
    d.say(dt, "b%d heads %d of %d, length %d" % (b, n, w, s), "mask" if mask else "")
    return d.model(attend(d, q, k, v, b, s, n, w, mask))


def rows_of(d, least=2e5, most=6e6):
    while True:
        shape = [d.size(1, 4096), d.size(1, 4096)]
        if d.chance(0.5):
            shape.insert(0, d.size(1, 64))
        if least < math.prod(shape) < most:
            return shape


def by(shape):
    return "x".join(str(s) for s in shape)


@family
def norm(d):
    dt = d.floats()
    kind = d.one_of("LayerNormalization", "LayerNormalization", "InstanceNormalization",
                    "BatchNormalization", "LpNormalization", "rms")
    shape = rows_of(d)
    w = shape[-1]
    if kind[0] in "IB":
        shape = [d.one_of(1, 2), d.size(8, 256), d.size(8, 96)]
        shape.append(shape[-1])
        w = shape[1]
    x = d.input(shape)
    d.say(dt, kind, by(shape))
    if kind == "rms":
        s = d.op("ReduceMean", d.op("Mul", x, x), d.ints(-1), keepdims=1)
        s = d.op("Sqrt", d.op("Add", s, d.const(np.array(1e-5, NP[dt]))))
        return d.model(d.op("Mul", d.op("Div", x, s), d.weight((w,), scale=1)))
    if kind == "LpNormalization":
        return d.model(d.op(kind, x, axis=-1, p=2))
    ins = [x, d.weight((w,), scale=1), d.weight((w,), scale=1)]
    if kind[0] == "B":
        ins += [d.weight((w,), scale=1),
                d.const(d.rng.uniform(0.5, 2, (w,)).astype(NP[dt]))]
    return d.model(d.op(kind, *ins, **({"axis": -1} if kind[0] == "L" else {})))


@family
def softmax(d):
    dt = d.floats()
    shape = rows_of(d)
    axis = int(d.rng.integers(len(shape)))
    kind = d.one_of("Softmax", "Softmax", "LogSoftmax")
    d.say(dt, kind, by(shape), "axis", axis)
    return d.model(d.op(kind, d.input(shape), axis=axis))


@family
def reduce(d):
    d.dtype = d.one_of("f32", "f32", "f16", "f64", "i32", "i64")
    kinds = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"]
    if d.dtype[0] == "f":
        kinds += ["ReduceL2", "ReduceLogSumExp", "ArgMax", "CumSum"]
    kind = d.one_of(*kinds)
    shape = rows_of(d)
    axis = int(d.rng.integers(len(shape)))
    x = d.input(shape, scale=0.1)
    d.say(d.dtype, kind, by(shape), "axis", axis)
    if kind == "ArgMax":
        return d.model(d.op(kind, x, axis=axis))
    if kind == "CumSum":
        return d.model(d.op(kind, x, d.const(np.array(axis, np.int64))))
    return d.model(d.op(kind, x, d.ints(axis), keepdims=int(d.chance(0.5))))


@family
def pool(d):
    dt = d.floats()
    kind = d.one_of("MaxPool", "AveragePool", "GlobalAveragePool")
    while True:
        b, c, hw = d.one_of(1, 1, 4), d.size(3, 512), d.size(7, 224)
        k, s = d.one_of((2, 2), (3, 2), (3, 1), (5, 1), (7, 7))
        if 2e5 < b * c * hw * hw < 6e6 and hw >= k:
            break
    x = d.input((b, c, hw, hw))
    d.say(dt, kind, "b%d %d, %d^2 k%d s%d" % (b, c, hw, k, s))
    if kind[0] == "G":
        return d.model(d.op(kind, x))
    pad = (k - 1) // 2 if s < k else 0
    return d.model(d.op(kind, x, kernel_shape=[k, k], strides=[s, s], pads=[pad] * 4))


@family
def resize(d):
    dt = d.one_of("f32", "f32", "u8")
    d.dtype = dt
    mode = d.one_of("nearest", "linear", "linear", "cubic")
    while True:
        b, c, hw = 1, d.size(1, 128), d.size(16, 320)
        f = d.one_of(2.0, 2.0, 0.5, 1.5, 4.0, 0.37)
        if 1e5 < c * hw * hw * max(1, f * f) < 6e6:
            break
    how = d.one_of("half_pixel", "asymmetric", "align_corners")
    if how == "align_corners" and hw * f % 1:
        # The conformance cases keep the fraction of the width, both peers drop it.
        how = "asymmetric"
    x = d.input((b, c, hw, hw))
    d.say(dt, mode, how, "%d, %d^2 by %g" % (c, hw, f))
    return d.model(d.op("Resize", x, "", d.const(np.array([1, 1, f, f], np.float32)), mode=mode,
                        coordinate_transformation_mode=how,
                        **({"nearest_mode": "floor"} if mode == "nearest" else {})))


@family
def pointwise(d):
    """A chain of up to six ops, with operands that broadcast."""
    d.dtype = dt = d.one_of("f32", "f32", "f16", "f64", "i32", "i64", "u8", "i8")
    shape = rows_of(d)
    x = y = d.input(shape)
    real = dt[0] == "f"
    kinds = []
    for _ in range(int(d.rng.integers(1, 7))):
        kind = d.one_of("Add", "Mul", "Sub", "Max", *(ACTS if real else ("Min", "Abs")),
                        *(("Exp", "Sqrt", "Div", "Erf", "Clip") if real else ()))
        if kind == "Abs" and dt == "u8":
            kind = "Min"
        kinds.append(kind)
        if kind in ("Add", "Mul", "Sub", "Max", "Min", "Div"):
            other = [s if d.chance(0.6) else 1 for s in shape]
            v = d.values(other, dt, 1)
            if kind == "Div":
                v = np.abs(v) + NP[dt](0.5)
            y = d.op(kind, y, d.const(v))
        elif kind == "Sqrt":
            y = d.op(kind, d.op("Abs", y))
        elif kind == "Exp":
            y = d.op(kind, d.op("Tanh", y))
        elif kind == "Clip":
            y = d.op(kind, y, d.const(np.array(-1, NP[dt])), d.const(np.array(2, NP[dt])))
        elif kind in ACTS:
            y = act(d, y, kind)
        else:
            y = d.op(kind, y)
    d.say(dt, by(shape), "+".join(kinds))
    return d.model(y)


@family
def compare(d):
    d.dtype = dt = d.one_of("f32", "f16", "i32", "i64", "u8", "i8")
    shape = rows_of(d)
    x, z = d.input(shape), d.input(shape if d.chance(0.6) else [1] * (len(shape) - 1) + shape[-1:])
    kind = d.one_of("Less", "Equal", "GreaterOrEqual")
    y = d.op(kind, x, z)
    d.say(dt, kind, by(shape))
    if d.chance(0.5):
        d.say("Where")
        y = d.op("Where", y, x, z)
    return d.model(y)


@family
def move(d):
    """What moves and computes nothing."""
    d.dtype = dt = d.one_of("f32", "f32", "f16", "f64", "i64", "i32", "u8")
    kind = d.one_of("Transpose", "Transpose", "Concat", "Slice", "Gather", "Pad", "Tile", "Cast",
                    "ScatterND", "Expand", "DepthToSpace")
    shape = rows_of(d)
    if kind in ("Transpose", "DepthToSpace"):
        shape = [1, d.size(4, 64) * 4, d.size(8, 128), d.size(8, 128)]
    d.say(dt, kind, by(shape))
    if kind == "Expand":
        part = [s if d.chance(0.5) else 1 for s in shape]
        d.say("from", by(part))
        return d.model(d.op(kind, d.input(part), d.ints(*shape)))
    x = d.input(shape)
    axis = int(d.rng.integers(len(shape)))
    if kind == "Transpose":
        perm = [int(p) for p in d.rng.permutation(len(shape))]
        d.say(perm)
        return d.model(d.op(kind, x, perm=perm))
    if kind == "DepthToSpace":
        return d.model(d.op(kind, x, blocksize=2))
    if kind == "Concat":
        d.say("axis", axis)
        return d.model(d.op(kind, x, d.input(shape), x, axis=axis))
    if kind == "Slice":
        n, step = shape[axis], d.one_of(1, 1, 2, -1)
        d.say("axis", axis, "step", step)
        a, b = (n // 8, n) if step > 0 else (n, 0)
        return d.model(d.op(kind, x, d.ints(a), d.ints(b), d.ints(axis), d.ints(step)))
    if kind == "Gather":
        idx = d.const(d.rng.integers(0, shape[axis], d.size(1, 512)))
        d.say("axis", axis)
        return d.model(d.op(kind, x, idx, axis=axis))
    if kind == "Pad":
        mode = d.one_of("constant", "reflect", "edge")
        pads = [1 if s > 2 else 0 for s in shape]
        d.say(mode)
        return d.model(d.op(kind, x, d.ints(*pads, *pads), mode=mode))
    if kind == "Tile":
        return d.model(d.op(kind, x, d.ints(*[2 if i == axis else 1
                                               for i in range(len(shape))])))
    if kind == "Cast":
        to = d.one_of("f32", "f16", "f64", "i32", "i64", "u8")
        if to == "u8":		# of what is negative each side has its own idea
            x = d.op("Abs", x)
        d.say("to", to)
        return d.model(d.op(kind, x, to=h.np_dtype_to_tensor_dtype(np.dtype(NP[to]))))
    n = max(1, shape[0] // 2)
    idx = d.const(d.rng.permutation(shape[0])[:n].reshape(n, 1))
    return d.model(d.op(kind, x, idx, d.input([n] + shape[1:])))


@family
def recurrent(d):
    kind = d.one_of("LSTM", "GRU", "RNN")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    while True:
        s, b, i, n = d.size(4, 200), d.one_of(1, 1, 1, 4, 16), d.size(8, 512), d.size(16, 512)
        dirs = d.one_of(1, 1, 2)
        d.flops = 2 * dirs * s * b * gates * n * (i + n)
        if 2e6 < d.flops < 1e9:
            break
    x = d.input((s, b, i))
    w = d.weight((dirs, gates * n, i), scale=i ** -0.5)
    r = d.weight((dirs, gates * n, n), scale=n ** -0.5)
    d.say(d.dtype, kind, "length %d, b%d, %d->%d, %d directions" % (s, b, i, n, dirs))
    y = d.op(kind, x, w, r, d.weight((dirs, 2 * gates * n), scale=0.1), hidden_size=n,
             direction="bidirectional" if dirs == 2 else "forward",
             **({"linear_before_reset": d.one_of(0, 1)} if kind == "GRU" else {}))
    return d.model(y)


@family
def int8(d):
    """Dynamic quantization as ONNX Runtime's tools write it, or a QDQ pair round a product."""
    m, n, k = d.size(1, 512), d.size(16, 2048), d.size(16, 2048)
    while not 4e6 < m * n * k < 1e9:
        m, n, k = d.size(1, 512), d.size(16, 2048), d.size(16, 2048)
    d.flops, d.dtype = 2 * m * n * k, "int8"
    x = d.input((m, k), "f32")
    w = d.const(d.rng.integers(-127, 127, (k, n), endpoint=True).astype(np.int8))
    ws = d.const(d.rng.uniform(0.001, 0.01, (n,)).astype(np.float32))
    d.say("%dx%dx%d" % (m, n, k))
    if d.chance(0.5):
        d.say("dynamic")
        q, s, z = d.op("DynamicQuantizeLinear", x, n_out=3)
        y = d.op("MatMulInteger", q, w, z, d.const(np.zeros((), np.int8)))
        y = d.op("Mul", d.op("Cast", y, to=T.FLOAT), d.op("Mul", s, ws))
    else:
        d.say("qdq")
        s, z = d.const(np.array(0.03, np.float32)), d.const(np.array(128, np.uint8))
        a = d.op("DequantizeLinear", d.op("QuantizeLinear", x, s, z), s, z)
        y = d.op("MatMul", a, d.op("DequantizeLinear", w, ws,
                                   d.const(np.zeros((n,), np.int8)), axis=1))
    return d.model(d.op("Add", y, d.weight((n,), "f32", scale=1)))


def linear(d, x, m, i, o):
    d.flops += 2 * m * i * o
    return d.op("Add", d.op("MatMul", x, d.weight((i, o))), d.weight((o,), scale=0.1))


def layer_norm(d, x, w):
    return d.op("LayerNormalization", x, d.weight((w,), scale=1), d.weight((w,), scale=1), axis=-1)


@family
def encoder_block(d):
    """A layer of BERT (norms behind), ViT or Whisper (norms ahead)."""
    dt = d.floats()
    while True:
        b, s, n, w = (d.one_of(1, 1, 2, 8), d.size(4, 400), d.one_of(4, 6, 8, 12),
                      d.one_of(32, 64, 64))
        e = n * w
        if b * s * e * e * 12 * 2 < 3e9:
            break
    ahead, x = d.chance(0.5), d.input((b, s, e))
    d.say(dt, "b%d, length %d, %d heads of %d, norms %s" % (
        b, s, n, w, "ahead" if ahead else "behind"))
    y = layer_norm(d, x, e) if ahead else x
    q, k, v = (heads(d, linear(d, y, b * s, e, e), b, s, n, w) for _ in range(3))
    y = d.op("Add", x, linear(d, attend(d, q, k, v, b, s, n, w), b * s, e, e))
    if not ahead:
        y = layer_norm(d, y, e)
    z = layer_norm(d, y, e) if ahead else y
    z = linear(d, d.op("Gelu", linear(d, z, b * s, e, 4 * e)), b * s, 4 * e, e)
    y = d.op("Add", y, z)
    return d.model(y if ahead else layer_norm(d, y, e))


@family
def vision_block(d):
    """A bottleneck of ResNet, or an inverted residual of MobileNet."""
    dt = d.floats()
    mobile = d.chance(0.5)
    while True:
        hw, b = d.one_of(7, 14, 28, 56, 20, 40, 80), d.one_of(1, 1, 1, 4)
        c = d.size(16, 96) if mobile else d.size(64, 1024)
        mid = c * 6 if mobile else max(16, c // 4)
        if 5e6 < 4 * b * hw * hw * c * mid < 2e9:
            break
    d.say(dt, "MobileNet" if mobile else "ResNet", "b%d, %d via %d, %d^2" % (b, c, mid, hw))
    x = d.input((b, c, hw, hw))
    end = d.one_of("Relu", "HardSwish", "Silu") if mobile else "Relu"
    y = act(d, conv_of(d, x, b, c, mid, [1, 1], 1, [0, 0]), end)
    y = act(d, conv_of(d, y, b, mid, mid, [3, 3], 1, [1, 1], mid if mobile else 1), end)
    y = d.op("Add", x, conv_of(d, y, b, mid, c, [1, 1], 1, [0, 0]))
    d.flops = 2 * b * hw * hw * mid * (2 * c + 9 * (1 if mobile else mid))
    return d.model(y if mobile else d.op("Relu", y))


@family
def control(d):
    """A loop of small products whose count is an input, and a branch on data."""
    n, trips = d.size(16, 256), d.size(4, 64)
    while n * n * n * trips < 2e6:
        n, trips = d.size(16, 256), d.size(4, 64)
    d.flops = 2 * n * n * trips * d.one_of(1, n)
    m = d.flops // (2 * n * n * trips)
    x = d.input((m, n))
    body = Draw(d.rng)
    body.count = 1000
    w = body.weight((n, n))
    y = body.op("Tanh", body.op("MatMul", "state", w))
    keep = body.op("Identity", "go")
    g = h.make_graph(body.nodes, "body", [
        h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("go", T.BOOL, []),
        h.make_tensor_value_info("state", T.FLOAT, [m, n])],
        [h.make_tensor_value_info(keep, T.BOOL, []),
         h.make_tensor_value_info(y, T.FLOAT, [m, n])], body.inits)
    count = d.name()
    d.ins.append(h.make_tensor_value_info(count, T.INT64, []))
    d.data[count] = np.array(trips, np.int64)
    d.say("f32", "Loop of %d products %dx%dx%d" % (trips, m, n, n))
    return d.model(d.op("Loop", count, d.const(np.array(True)), x, body=g))


def draw(name, rng):
    """A case of a family: (what it is, the model, its inputs, operations)."""
    while True:
        d = Draw(rng)
        m = FAMILIES[name](d)
        if m.ByteSize() < 1 << 28:
            return " ".join(w for w in d.words if w), m, d.data, d.flops
