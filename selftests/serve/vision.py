# SPDX-License-Identifier: MIT
"""Writes small models into a folder: one with a free batch, one without; one that does
next to nothing, to a matrix of any size; two that take long for each row, whose sums are
of small whole numbers, so that they are the same in whatever order; and some of two
inputs, of rows that become columns, of indices that may not be there, and of a shape that
is an input itself."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(1)
w = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
v = rng.standard_normal((8, 10)).astype(np.float32)
nodes = [
    h.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    h.make_node("Relu", ["c"], ["r"]),
    h.make_node("GlobalAveragePool", ["r"], ["p"]),
    h.make_node("Flatten", ["p"], ["f"]),
    h.make_node("MatMul", ["f", "v"], ["y"]),
    h.make_node("ArgMax", ["y"], ["n"], axis=1, keepdims=0),
]
for name, batch in (("vision", "batch"), ("fixed", 2)):
    g = h.make_graph(nodes, name,
                     [h.make_tensor_value_info("x", T.FLOAT, [batch, 3, 16, 16])],
                     [h.make_tensor_value_info("y", T.FLOAT, [batch, 10]),
                      h.make_tensor_value_info("n", T.INT64, [batch])],
                     [nh.from_array(w, "w"), nh.from_array(v, "v")])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(m)
    os.makedirs(sys.argv[1], exist_ok=True)
    onnx.save(m, "%s/%s.onnx" % (sys.argv[1], name))


def write(name, nodes, inputs, outputs, weights=()):
    g = h.make_graph(nodes, name, [h.make_tensor_value_info(*i) for i in inputs],
                     [h.make_tensor_value_info(*o) for o in outputs],
                     [nh.from_array(v, k) for k, v in weights])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, "%s/%s.onnx" % (sys.argv[1], name))


write("relu", [h.make_node("Relu", ["x"], ["y"])],
      [("x", T.FLOAT, ["n", "m"])], [("y", T.FLOAT, ["n", "m"])])
write("sum", [h.make_node("Add", ["a", "b"], ["y"])],
      [("a", T.FLOAT, ["n", 3]), ("b", T.FLOAT, ["n", 3])], [("y", T.FLOAT, ["n", 3])])
write("turned", [h.make_node("Transpose", ["x"], ["y"])],
      [("x", T.FLOAT, ["n", "m"])], [("y", T.FLOAT, ["m", "n"])])
write("pick", [h.make_node("Gather", ["t", "x"], ["y"])],
      [("x", T.INT64, ["n", 1])], [("y", T.FLOAT, ["n", 1])],
      [("t", np.arange(10, dtype=np.float32))])

write("pair", [h.make_node("Relu", ["a"], ["y"]), h.make_node("Relu", ["b"], ["z"])],
      [("a", T.FLOAT, ["n", "m"]), ("b", T.FLOAT, ["n", "k", "l"])],
      [("y", T.FLOAT, ["n", "m"]), ("z", T.FLOAT, ["n", "k", "l"])])
# It takes long to compile: meanwhile its client can change the shape.
write("shaped", [h.make_node("Reshape", ["x", "shape"], ["s0"])] +
      [h.make_node("Sin", ["s%d" % i], ["s%d" % (i + 1)]) for i in range(200)] +
      [h.make_node("Relu", ["s200"], ["y"])],
      [("x", T.FLOAT, ["n"]), ("shape", T.INT64, [2])], [("y", T.FLOAT, ["p", "q"])])


def write_chain(name, layers):
    links = [(h.make_node("MatMul", ["s%d" % i, "w"], ["h%d" % (i + 1)]),
              h.make_node("Sign", ["h%d" % (i + 1)], ["s%d" % (i + 1)])) for i in range(layers)]
    shapes = (("a", (64, 1024)), ("w", (1024, 1024)), ("b", (1024, 64)))
    write(name,
          [h.make_node("MatMul", ["x", "a"], ["h0"]), h.make_node("Sign", ["h0"], ["s0"])] +
          [n for link in links for n in link] +
          [h.make_node("MatMul", ["s%d" % layers, "b"], ["y"]),
           h.make_node("ArgMax", ["y"], ["n"], axis=1, keepdims=0)],
          [("x", T.FLOAT, ["batch", 64])],
          [("y", T.FLOAT, ["batch", 64]), ("n", T.INT64, ["batch"])],
          [(k, rng.integers(-1, 2, shape).astype(np.float32)) for k, shape in shapes])


write_chain("slow", 48)
write_chain("slower", 192)
