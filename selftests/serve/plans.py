# SPDX-License-Identifier: MIT
"""Plan, GGUF, graph and ONNX files: results, in place too, and what cannot be served."""
import json
import os
import signal
import struct
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

from channels import address, channel, connect
from rlxd import BUILD, ENGINES, Server, main, test

FIXED = os.path.abspath(BUILD + "/serve/fixed.onnx")
rng = np.random.default_rng(11)


def plan(folder, name="fixed.rlxp", env=None):
    path = os.path.join(folder, name)
    subprocess.run([BUILD + "/bin/rlx", "compile", FIXED, "-o", path], check=True,
                   capture_output=True, env=dict(os.environ, **(env or {})))
    return path


def sections(path, extra=""):
    return "[model plan]\npath = %s\n%s\n[model onnx]\npath = %s\n" % (path, extra, FIXED)


def infer(s, model, x):
    return s.post("/v2/models/%s/infer" % model, {"inputs": [{
        "name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}]})


@test
def results_are_those_of_the_model():
    with tempfile.TemporaryDirectory() as d:
        path = plan(d)
        for engine in ENGINES:
            with Server(sections(path), engine=engine) as s:
                about, want = [json.loads(s.get("/v2/models/" + m)[2]) for m in ("plan", "onnx")]
                assert about["platform"] == "rlx_plan", about
                assert about["inputs"] == want["inputs"], (about, want)
                assert about["outputs"] == want["outputs"], (about, want)
                for _ in range(3):
                    x = rng.standard_normal((2, 3, 16, 16)).astype(np.float32)
                    code, got = infer(s, "plan", x)
                    assert code == 200, got
                    assert got["outputs"] == infer(s, "onnx", x)[1]["outputs"]
                code, got = infer(s, "plan", x[:1])
                assert code == 400 and "shape[0] is 1, model plan takes 2" in got["error"], got


@test
def buffers_of_clients_are_used_in_place():
    a = address()
    with tempfile.TemporaryDirectory() as d, \
            Server(sections(plan(d)) + channel(a)), connect(a) as ch:
        assert ch.model("plan").in_place
        x = ch.empty((2, 3, 16, 16))
        y, n = [ch.empty((2, 10)) for _ in "ab"], [ch.empty((2,), np.int64) for _ in "ab"]
        for _ in range(3):
            x[...] = rng.standard_normal(x.shape)
            for k, model in enumerate(("plan", "onnx")):
                y[k][...] = np.nan
                ch.infer(model, [x], [y[k], n[k]])
            assert np.array_equal(y[0], y[1]) and np.array_equal(n[0], n[1])


@test
def another_file_takes_its_place():
    """A reload maps what was renamed over it; the one before serves until then."""
    with tempfile.TemporaryDirectory() as d:
        path = plan(d)
        with Server(sections(path)) as s:
            x = rng.standard_normal((2, 3, 16, 16)).astype(np.float32)
            before = infer(s, "plan", x)
            seen = len(s.lines)
            plan(d)
            assert infer(s, "plan", x) == before
            s.signal(signal.SIGHUP)
            s.wait_log("model loaded", after=seen)
            assert infer(s, "plan", x) == before


@test
def what_cannot_be_served_is_told_at_the_start():
    with tempfile.TemporaryDirectory() as d:
        path = plan(d)
        with open(path, "rb") as f:
            whole = f.read()
        cut = os.path.join(d, "cut.rlxp")
        with open(cut, "wb") as f:
            f.write(whole[:-1])
        bent = os.path.join(d, "bent.rlxp")
        with open(bent, "wb") as f:
            f.write(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
        weights = os.path.join(d, "weights.rlxp")
        at = -int.from_bytes(whole[24:32], "little") // 4096 * -4096    # docs/formats.md
        with open(weights, "wb") as f:
            f.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        other = plan(d, "base.rlxp", {"RLX_ISA": "base"})
        for file, extra, env, text in (
                (cut, "", None, "it is cut short"), (bent, "", None, "is damaged"),
                (weights, "", None, "weights of the plan file are damaged"),
                (path, "kind = bert", None, "takes tensors and no texts"),
                (path, "tokenizer = x.json", None, "takes tensors and no texts"),
                (path, "precision = bf16", None, "compiled already"),
                (path, "batch = yes", None, "first dimension of x is not free"),
                (path, "device = ref", None, "this machine runs ref"),
                (other, "", {"RLX_ISA": "v3"}, "made for cpu base by version")):
            s = Server(sections(file, extra), wait=False, env=env)
            try:
                s.wait_log(text)
            finally:
                s.kill()


def write_onnx(path, nodes, shape, functions=()):
    """x to y, of floats; without a check, for not all of them are valid."""
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, shape)],
                     [h.make_tensor_value_info("y", T.FLOAT, None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("own", 1)],
                           functions=functions, ir_version=8), path)


def is_refused(path, *texts):
    """Told in the log, by a server that ends."""
    s = Server("[model m]\npath = %s\n" % path, wait=False)
    try:
        assert s.ended() == 1
        assert "event=ready" not in s.log() and all(t in s.log() for t in texts), s.log()
    finally:
        s.kill()


@test
def inputs_of_unknown_rank():
    """Such an input was a scalar for all who asked."""
    relu = [h.make_node("Relu", ["x"], ["y"])]
    with tempfile.TemporaryDirectory() as d:
        path = d + "/m.onnx"
        for shape in (None, [1] * 9):
            write_onnx(path, relu, shape)
            is_refused(path, "how many dimensions input x has", "write its shape")
        for shape in ([], ["n", 2], [1] * 8):
            write_onnx(path, relu, shape)
            with Server("[model m]\npath = %s\n" % path) as s:
                about = json.loads(s.get("/v2/models/m")[2])
                assert about["inputs"][0]["shape"] == [v if v != "n" else -1 for v in shape]
                code, got = infer(s, "m", np.full([2 if v == "n" else v for v in shape], -1.0))
                assert code == 200 and not any(got["outputs"][0]["data"]), got


@test
def ops_that_are_not_known():
    """Such a model was "ready", and failed every request; also within its own functions."""
    def function(name, op, domain=""):
        return h.make_function("own", name, ["x"], ["y"], [
            h.make_node(op, ["x"], ["y"], domain=domain)],
            [h.make_opsetid("", 17), h.make_opsetid("own", 1)])

    own = [h.make_node("F", ["x"], ["y"], domain="own")]
    branch = [h.make_graph([h.make_node(op, ["x"], ["b"])], op, [],
                           [h.make_tensor_value_info("b", T.FLOAT, None)])
              for op in ("Neg", "NoSuchOp")]
    choice = [h.make_node("Constant", [], ["c"], value=h.make_tensor("c", T.BOOL, [], [True])),
              h.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])]
    with tempfile.TemporaryDirectory() as d:
        path = d + "/m.onnx"
        for nodes, functions, texts in (
                ([h.make_node("NoSuchOp", ["x"], ["y"], name="here")], [],
                 ("NoSuchOp", "opset 17, node 'here'", "the op is not supported")),
                ([h.make_node("Relu", ["x"], ["y"], domain="com.example")], [],
                 ("Relu", "domain 'com.example'")),
                ([h.make_node("Attention", ["x"], ["y"])], [],
                 ("Attention", "this version of the op is not supported")),
                ([h.make_node("Relu", ["x"], ["r"]), h.make_node("NoSuchOp", ["r"], ["unused"]),
                  h.make_node("Neg", ["r"], ["y"])], [], ("NoSuchOp",)),
                (own, [function("F", "G", "own"), function("G", "NoSuchOp")], ("NoSuchOp",)),
                (own, [function("F", "F", "own")], ("nest more than 64 deep",))):
            write_onnx(path, nodes, ["n"], functions)
            is_refused(path, *texts)
        # Of a branch that no run takes nothing is asked.
        for nodes, functions in ((own, [function("F", "G", "own"), function("G", "Neg")]),
                                 (choice, [])):
            write_onnx(path, nodes, ["n"], functions)
            with Server("[model m]\npath = %s\n" % path) as s:
                code, got = infer(s, "m", np.array([-2.0]))
                assert code == 200 and got["outputs"][0]["data"] == [2], got


WIDTH, HEADS, INNER, VOCAB, CONTEXT = 32, 2, 48, 19, 8


def decoder(path):
    """A llama of one layer, all floats."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def key(name, kind, value):
        return text(name) + struct.pack("<I", kind) + value

    keys = [key("general.architecture", 8, text("llama")),
            key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5))]
    keys += [key("llama." + n, 4, struct.pack("<I", v)) for n, v in (
        ("block_count", 1), ("embedding_length", WIDTH), ("feed_forward_length", INNER),
        ("context_length", CONTEXT), ("attention.head_count", HEADS))]
    tensors, data = b"", b""
    shapes = [("token_embd", VOCAB, WIDTH), ("output_norm", WIDTH), ("output", VOCAB, WIDTH)]
    shapes += [("blk.0." + n, *d) for n, *d in (
        ("attn_norm", WIDTH), ("ffn_norm", WIDTH), ("attn_q", WIDTH, WIDTH),
        ("attn_k", WIDTH, WIDTH), ("attn_v", WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH),
        ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH), ("ffn_down", WIDTH, INNER))]
    for name, *shape in shapes:
        tensors += text(name + ".weight") + struct.pack(
            "<I%dQIQ" % len(shape), len(shape), *reversed(shape), 0, len(data))
        data += rng.standard_normal(shape).astype(np.float32).tobytes()
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + tensors
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


@test
def a_decoder_of_a_gguf_file():
    def logits(s, ids):
        code, got = s.post("/v2/models/dec/infer", {"inputs": [{
            "name": "input_ids", "datatype": "INT64", "shape": list(np.shape(ids)),
            "data": np.ravel(ids).tolist()}]})
        return (code, np.array(got["outputs"][0]["data"]).reshape(*np.shape(ids), VOCAB)
                if code == 200 else got["error"])

    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "tiny.gguf")
        decoder(path)
        with Server("[model dec]\npath = %s\n" % path) as s:
            about = json.loads(s.get("/v2/models/dec")[2])
            assert about["platform"] == "rlx_gguf", about
            ids = rng.integers(0, VOCAB, (3, CONTEXT))
            code, whole = logits(s, ids)
            assert code == 200 and np.isfinite(whole).all() and np.ptp(whole) > 0.1
            # Rows are of no other rows, nor of tokens behind.
            code, part = logits(s, ids[1:2, :5])
            assert code == 200 and np.allclose(part, whole[1:2, :5], rtol=1e-4, atol=1e-4)
            for bad, why in (([[0, VOCAB]], "an index is outside"),
                             ([[0] * (CONTEXT + 1)], "1 texts of 9 tokens")):
                code, error = logits(s, bad)
                assert code == 400 and why in error and d not in error, error


GRAPH = """graph "affine" {
  dim n[1,64]
  %1 = input(name="x", type=f32[n,3])
  %2 = {leaf}
  %3 = mul(a=%1, b=%2)
  return "y"=%3
}
"""


@test
def text_form_of_a_graph():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "affine.rlx")
        with open(path, "w") as f:
            f.write(GRAPH.replace("{leaf}", "constant(type=f32[3], data=hex\"%s\")" %
                                  np.array([1, -2, 0.5], np.float32).tobytes().hex()))
        with Server("[model graph]\npath = %s\n" % path) as s:
            about = json.loads(s.get("/v2/models/graph")[2])
            assert about["platform"] == "rlx_graph", about
            assert about["inputs"][0]["shape"] == [-1, 3], about
            for n in (5, 1, 64):
                x = rng.standard_normal((n, 3)).astype(np.float32)
                code, got = infer(s, "graph", x)
                assert code == 200, got
                y = np.array(got["outputs"][0]["data"], np.float32).reshape(n, 3)
                assert (y == x * np.array([1, -2, 0.5], np.float32)).all()
            code, got = infer(s, "graph", np.zeros((65, 3), np.float32))
            assert code == 400 and "1 to 64" in got["error"], got
        for leaf, why in (("param(name=\"w\", type=f32[3])", "param 'w', which nobody sets"),
                          ("no_op(x=%1)", "line 4, column ")):
            with open(path, "w") as f:
                f.write(GRAPH.replace("{leaf}", leaf))
            s = Server("[model graph]\npath = %s\n" % path, wait=False)
            try:
                s.wait_log(why)
            finally:
                s.kill()


main()
