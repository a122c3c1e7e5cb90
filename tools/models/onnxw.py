# SPDX-License-Identifier: MIT
"""Writes ONNX files with the standard library alone, and makes random weights.

A machine that runs the demo has python3 for pip anyway; numpy and onnx would be
two more things to fetch for what is, on the writing side, a dozen field numbers.
"""

import os
import random
import struct

FLOAT, INT64 = 1, 7
SIZE = {FLOAT: 4, INT64: 8}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field_int(tag, n):
    return varint(tag << 3) + varint(n)


def field_float(tag, x):
    return varint(tag << 3 | 5) + struct.pack("<f", x)


def field_bytes(tag, b):
    if isinstance(b, str):
        b = b.encode()
    return varint(tag << 3 | 2) + varint(len(b)) + b


def f32(*values):
    return struct.pack("<%df" % len(values), *values)


def i64(*values):
    return struct.pack("<%dq" % len(values), *values)


class Weights:
    """Random weights, the same for a seed on every machine."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def uniform(self, n, lo, hi):
        return f32(*(self.rng.uniform(lo, hi) for _ in range(n)))

    def bits(self, n, log2):
        """n floats of random sign and magnitude in [2^log2, 2^(log2+1)).

        Built as bit patterns in one big integer, since a loop over a hundred
        million elements would take a minute. Their mean square is
        mean_square(log2).
        """
        word = lambda w: int.from_bytes(struct.pack("<I", w) * n, "little")
        r = int.from_bytes(self.rng.randbytes(4 * n), "little")
        r = r & word(0x807FFFFF) | word(127 + log2 << 23)
        return r.to_bytes(4 * n, "little")

    @staticmethod
    def mean_square(log2):
        return 7 / 3 * 4.0 ** log2


class Graph:
    """A graph under construction; node() returns the names of its outputs."""

    def __init__(self, name, opset):
        self.name, self.opset = name, opset
        self.nodes, self.inits, self.ins, self.outs = [], [], [], []
        self.count = {}

    def fresh(self, op):
        k = self.count[op] = self.count.get(op, -1) + 1
        return "/%s_%d" % (op, k)

    def value(self, name, dtype, dims):
        shape = b"".join(
            field_bytes(1, field_int(1, d) if isinstance(d, int)
                        else field_bytes(2, d)) for d in dims)
        tensor = field_int(1, dtype) + field_bytes(2, shape)
        return field_bytes(1, name) + field_bytes(2, field_bytes(1, tensor))

    def input(self, name, dtype, dims):
        self.ins.append(self.value(name, dtype, dims))
        return name

    def output(self, name, dtype, dims):
        self.outs.append(self.value(name, dtype, dims))

    def init(self, name, dtype, dims, raw):
        n = SIZE[dtype]
        for d in dims:
            n *= d
        assert len(raw) == n, (name, dims, len(raw))
        self.inits.append((name, dtype, dims, raw))
        return name

    def tensor_head(self, dtype, dims):
        return b"".join(field_int(1, d) for d in dims) + field_int(2, dtype)

    def const(self, dtype, dims, raw):
        """A Constant node, as exporters write scalars and shapes."""
        return self.node("Constant", [], value=(dtype, dims, raw))

    def attr(self, key, v):
        out = field_bytes(1, key)
        if isinstance(v, float):
            return out + field_float(2, v) + field_int(20, 1)
        if isinstance(v, int):
            return out + field_int(3, v) + field_int(20, 2)
        if isinstance(v, str):
            return out + field_bytes(4, v) + field_int(20, 3)
        if isinstance(v, tuple):
            dtype, dims, raw = v
            t = self.tensor_head(dtype, dims) + field_bytes(9, raw)
            return out + field_bytes(5, t) + field_int(20, 4)
        return (out + b"".join(field_int(8, i) for i in v) +
                field_int(20, 7))

    def node(self, op, inputs, outputs=None, **attrs):
        name = self.fresh(op)
        out = outputs or [name + "_out"]
        self.nodes.append(
            b"".join(field_bytes(1, i) for i in inputs) +
            b"".join(field_bytes(2, o) for o in out) +
            field_bytes(3, name) + field_bytes(4, op) +
            b"".join(field_bytes(5, self.attr(k, v))
                     for k, v in attrs.items()))
        return out[0] if len(out) == 1 else out

    def initializers(self, side, side_name):
        """Their fields one by one; data goes to the file side if there is one."""
        for name, dtype, dims, raw in self.inits:
            head = self.tensor_head(dtype, dims) + field_bytes(8, name)
            if side is None or len(raw) < 1024:
                yield field_bytes(5, head + field_bytes(9, raw))
                continue
            side.write(b"\0" * (-side.tell() % 4096))
            at = {"location": side_name, "offset": str(side.tell()),
                  "length": str(len(raw))}
            side.write(raw)
            yield field_bytes(5, head + b"".join(
                field_bytes(13, field_bytes(1, k) + field_bytes(2, v))
                for k, v in at.items()) + field_int(14, 1))

    def save(self, path, external=False):
        """Writes path, and path.data beside it if external; both whole or not."""
        side_path = path + ".data"
        side = open(side_path + ".new", "wb") if external else None
        parts = [field_bytes(1, n) for n in self.nodes]
        parts.append(field_bytes(2, self.name))
        parts += self.initializers(side, os.path.basename(side_path))
        parts += [field_bytes(11, v) for v in self.ins]
        parts += [field_bytes(12, v) for v in self.outs]
        if side:
            side.close()
            os.replace(side_path + ".new", side_path)
        with open(path + ".new", "wb") as f:
            f.write(field_int(1, 8) + field_bytes(2, "rlx tools/models"))
            f.write(varint(7 << 3 | 2) + varint(sum(map(len, parts))))
            f.writelines(parts)
            f.write(field_bytes(8, field_bytes(1, "") +
                                field_int(2, self.opset)))
        os.replace(path + ".new", path)
