# SPDX-License-Identifier: MIT
"""Writes small models into a folder: one with a free batch, one without; and one that
does next to nothing, to a matrix of any size."""
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
g = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "relu",
                 [h.make_tensor_value_info("x", T.FLOAT, ["n", "m"])],
                 [h.make_tensor_value_info("y", T.FLOAT, ["n", "m"])])
m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(m)
onnx.save(m, sys.argv[1] + "/relu.onnx")
