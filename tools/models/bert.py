# SPDX-License-Identifier: MIT
"""Writes a BERT encoder as exporters do: dynamic batch and sequence, shape
arithmetic in the graph, MatMul weights transposed to [in, out].

  bert.py wheel DIR OUT      weights of DIR/model.safetensors, DIR/config.json;
                             layer norm and GELU in primitive ops (opset 14)
  bert.py base OUT           BERT-base with random weights in OUT.data beside it;
                             LayerNormalization as one op (opset 17)
"""

import array
import json
import math
import struct
import sys

from onnxw import FLOAT, INT64, Graph, Weights, f32, i64

BASE = {"hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072,
        "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12}


class Safetensors:
    """Tensors by name out of one mapped-in-memory file of f32."""

    def __init__(self, path):
        with open(path, "rb") as f:
            n, = struct.unpack("<Q", f.read(8))
            self.head = json.loads(f.read(n))
            self.data = memoryview(f.read())

    def get(self, name, dims):
        t = self.head[name]
        if t["dtype"] != "F32" or t["shape"] != list(dims):
            sys.exit("%s is %s %s, not F32 %s" %
                     (name, t["dtype"], t["shape"], list(dims)))
        lo, hi = t["data_offsets"]
        return bytes(self.data[lo:hi])


class RandomTensors:
    """Stands in for a file: any name, any shape, plausible values."""

    def __init__(self, seed):
        self.w = Weights(seed)

    def get(self, name, dims):
        if name.endswith("LayerNorm.weight"):
            return self.w.uniform(dims[0], 0.8, 1.2)
        if name.endswith("bias"):
            return self.w.uniform(dims[0], -0.1, 0.1)
        return self.w.bits(math.prod(dims), -6)


class Bert:
    def __init__(self, g, cfg, tensors):
        self.g, self.cfg, self.tensors = g, cfg, tensors
        self.hidden = cfg["hidden_size"]
        self.heads = cfg["num_attention_heads"]

    def scalar(self, x):
        return self.g.const(FLOAT, [], f32(x))

    def weight(self, name, *dims):
        return self.g.init(name, FLOAT, dims, self.tensors.get(name, dims))

    def linear(self, x, name, n_in, n_out):
        """x W^T + b; the file holds W as [out, in]."""
        raw = array.array("f", self.tensors.get(name + ".weight",
                                                (n_out, n_in)))
        t = b"".join(raw[i::n_in].tobytes() for i in range(n_in))
        w = self.g.init(name + ".weight_t", FLOAT, (n_in, n_out), t)
        b = self.weight(name + ".bias", n_out)
        return self.g.node("Add", [b, self.g.node("MatMul", [x, w])])

    def layer_norm(self, x, name):
        g, eps = self.g, self.cfg["layer_norm_eps"]
        w = self.weight(name + ".weight", self.hidden)
        b = self.weight(name + ".bias", self.hidden)
        if g.opset >= 17:
            return g.node("LayerNormalization", [x, w, b], axis=-1,
                          epsilon=eps)
        mean = g.node("ReduceMean", [x], axes=[-1])
        d = g.node("Sub", [x, mean])
        sq = g.node("Pow", [d, self.scalar(2.0)])
        var = g.node("ReduceMean", [sq], axes=[-1])
        std = g.node("Sqrt", [g.node("Add", [var, self.scalar(eps)])])
        y = g.node("Mul", [g.node("Div", [d, std]), w])
        return g.node("Add", [y, b])

    def gelu(self, x):
        g = self.g
        e = g.node("Erf", [g.node("Div", [x, self.scalar(math.sqrt(2))])])
        y = g.node("Mul", [x, g.node("Add", [e, self.scalar(1.0)])])
        return g.node("Mul", [y, self.scalar(0.5)])

    def dim(self, x, axis):
        """Dimension axis of x as a one-element tensor."""
        g = self.g
        d = g.node("Gather", [g.node("Shape", [x]),
                              g.const(INT64, [], i64(axis))], axis=0)
        return g.node("Unsqueeze", [d, g.const(INT64, [1], i64(0))])

    def reshape(self, x, *tail):
        """x to [batch, sequence, tail...]."""
        g = self.g
        parts = [self.dim(x, 0), self.dim(x, 1)]
        parts += [g.const(INT64, [1], i64(t)) for t in tail]
        return g.node("Reshape", [x, g.node("Concat", parts, axis=0)])

    def attention(self, x, mask, name):
        g, h = self.g, self.hidden
        size = h // self.heads
        part = {}
        for p in "query", "key", "value":
            y = self.linear(x, name + ".self." + p, h, h)
            y = self.reshape(y, self.heads, size)
            perm = [0, 2, 3, 1] if p == "key" else [0, 2, 1, 3]
            part[p] = g.node("Transpose", [y], perm=perm)
        s = g.node("MatMul", [part["query"], part["key"]])
        s = g.node("Div", [s, self.scalar(math.sqrt(size))])
        s = g.node("Softmax", [g.node("Add", [s, mask])], axis=-1)
        y = g.node("MatMul", [s, part["value"]])
        y = g.node("Transpose", [y], perm=[0, 2, 1, 3])
        y = self.linear(self.reshape(y, h), name + ".output.dense", h, h)
        return self.layer_norm(g.node("Add", [y, x]),
                               name + ".output.LayerNorm")

    def layer(self, x, mask, name):
        g, h, m = self.g, self.hidden, self.cfg["intermediate_size"]
        x = self.attention(x, mask, name + ".attention")
        y = self.gelu(self.linear(x, name + ".intermediate.dense", h, m))
        y = self.linear(y, name + ".output.dense", m, h)
        return self.layer_norm(g.node("Add", [y, x]),
                               name + ".output.LayerNorm")

    def embeddings(self, ids, types):
        g, cfg, h = self.g, self.cfg, self.hidden
        rows = cfg["max_position_embeddings"]
        word = self.weight("embeddings.word_embeddings.weight",
                           cfg["vocab_size"], h)
        kind = self.weight("embeddings.token_type_embeddings.weight",
                           cfg["type_vocab_size"], h)
        place = self.weight("embeddings.position_embeddings.weight", rows, h)
        all_pos = g.init("embeddings.position_ids", INT64, (1, rows),
                         i64(*range(rows)))
        one = g.const(INT64, [1], i64(1))
        pos = g.node("Slice", [all_pos, g.const(INT64, [1], i64(0)),
                               self.dim(ids, 1), one, one])
        x = g.node("Add", [g.node("Gather", [word, ids]),
                           g.node("Gather", [kind, types])])
        x = g.node("Add", [x, g.node("Gather", [place, pos])])
        return self.layer_norm(x, "embeddings.LayerNorm")

    def build(self):
        g, dims = self.g, ["batch", "sequence"]
        ids = g.input("input_ids", INT64, dims)
        mask = g.input("attention_mask", INT64, dims)
        types = g.input("token_type_ids", INT64, dims)
        m = g.node("Unsqueeze", [mask, g.const(INT64, [1], i64(1))])
        m = g.node("Unsqueeze", [m, g.const(INT64, [1], i64(2))])
        m = g.node("Sub", [self.scalar(1.0),
                           g.node("Cast", [m], to=FLOAT)])
        m = g.node("Mul", [m, self.scalar(-3.4028234663852886e38)])
        x = self.embeddings(ids, types)
        for i in range(self.cfg["num_hidden_layers"]):
            x = self.layer(x, m, "encoder.layer.%d" % i)
        g.node("Identity", [x], ["last_hidden_state"])
        g.output("last_hidden_state", FLOAT, dims + [self.hidden])
        return g


def main(argv):
    if len(argv) == 4 and argv[1] == "wheel":
        with open(argv[2] + "/config.json", encoding="utf-8") as f:
            cfg = json.load(f)
        tensors = Safetensors(argv[2] + "/model.safetensors")
        Bert(Graph("minilm", 14), cfg, tensors).build().save(argv[3])
    elif len(argv) == 3 and argv[1] == "base":
        Bert(Graph("bert-base", 17), BASE, RandomTensors(1)).build().save(
            argv[2], external=True)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
