# SPDX-License-Identifier: MIT
"""Memory of runs whose sizes follow from what a few bytes hold, and of what does not end."""
import contextlib
import errno
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

import channels
from rlxd import ENGINES, SANITIZED, Server, main, reset, test, wait_for


def write_growing(path, kind):
    """y, of x[1]'s value, as large as shape says; or as what is computed of it does; or n x n."""
    io = [("x", T.FLOAT, [1]), ("shape", T.INT64, [2])]
    nodes = [h.make_node("Expand", ["x", "shape"], ["y"])]
    if kind == "computed":
        io[1] = ("shape", T.FLOAT, [2])
        nodes = [h.make_node("NonZero", ["x"], ["at"]), h.make_node("Shape", ["at"], ["n"]),
                 h.make_node("Cast", ["shape"], ["whole"], to=T.INT64),
                 h.make_node("Mul", ["whole", "n"], ["s"]),
                 h.make_node("Expand", ["x", "s"], ["y"])]
    if kind == "outer":
        io = [("x", T.FLOAT, ["n", 1])]
        nodes = [h.make_node("Transpose", ["x"], ["t"]), h.make_node("MatMul", ["x", "t"], ["y"])]
    nodes[-1].output[0] = "large"       # and what is given is little, but for the first
    nodes.append(h.make_node("Identity", ["large"], ["y"]) if kind == "plain" else
                 h.make_node("ReduceMax", ["large"], ["y"], keepdims=0))
    g = h.make_graph(nodes, kind, [h.make_tensor_value_info(*i) for i in io],
                     [h.make_tensor_value_info("y", T.FLOAT, None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def resident(s, what="VmHWM"):
    with open("/proc/%d/status" % s.proc.pid) as f:
        return int(f.read().split(what + ":")[1].split()[0]) << 10


def grow(s, model, *shape):
    x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}
    dims = {"name": "shape", "datatype": "FP32" if model == "computed" else "INT64", "shape": [2],
            "data": shape}
    if model == "outer":
        x.update(shape=[shape[0], 1], data=[3] * shape[0])
    return s.post("/v2/models/%s/infer" % model,
                  {"inputs": [x] if model == "outer" else [x, dims]})


@test
def memory_of_a_run():
    """What a few bytes ask for is bounded, and told with 413; the others are served."""
    with tempfile.TemporaryDirectory() as d:
        models = ""
        for kind in ("plain", "values", "computed", "outer"):
            write_growing(d + "/%s.onnx" % kind, kind)
            models += "[model %s]\npath = %s/%s.onnx\n%%s" % (kind, d, kind)
        small = "max_run_memory = 64M\n"
        with Server(models % ((small,) * 4), server="max_memory = 16M\n") as s:
            for model in ("values", "computed", "outer"):
                assert grow(s, model, 100, 100)[1]["outputs"][0]["data"] in ([3], [9]), model
            before = resident(s)
            for model in ("values", "computed", "plain"):
                for shape in ((6000, 6000), (1 << 20, 1 << 20), (1 << 30, 1 << 30)):
                    st, r = grow(s, model, *shape)
                    assert st == 413 and "(max_run_memory)" in r["error"], (model, shape, st, r)
            st, r = grow(s, "outer", 6000)
            assert st == 413 and "model outer may take 67108864" in r["error"], (st, r)
            # Ever new sizes, each of which fits.
            for i in range(40):
                for model in ("values", "computed"):
                    assert grow(s, model, 10000 + i, 400)[0] == 200, (model, i)
            # What is small enough to be run, but no reply.
            st, r = grow(s, "plain", 2000, 2000)
            assert st == 413 and "output y needs 16000000 bytes" in r["error"], (st, r)
            assert grow(s, "plain", 20, 20)[1]["outputs"][0]["data"] == [3] * 400
            grown = resident(s) - before
            # Three replicas with two sessions of 16M to 32M each, and 256M of others.
            assert SANITIZED or grown < 900 << 20, grown
            wait_for(lambda: s.metric("rlxd_memory_bytes") == 0)
        # The limit that nobody set.
        with Server(models % (("",) * 4)) as s:
            for model in ("values", "computed", "plain"):
                st, r = grow(s, model, 1 << 17, 1 << 17)
                assert st == 413 and "may take 4294967296 " in r["error"], (st, r)
            assert grow(s, "values", 1000, 1000)[0] == 200
        # One of fixed sizes is run when it is loaded.
        g = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "fixed",
                         [h.make_tensor_value_info("x", T.FLOAT, [1 << 20])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1 << 20])])
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
                  d + "/fixed.onnx")
        fixed = "[model fixed]\npath = %s/fixed.onnx\nmax_run_memory = %%dM\n" % d
        with Server(fixed % 12) as s:
            assert s.get("/v2/models/fixed/ready")[0] == 200
        s = Server(fixed % 4, wait=False)
        assert s.ended() == 1 and "may take 4194304 (max_run_memory)" in s.log(), s.log()


@test
def memory_of_runs_in_place():
    """Of sessions for each shape, too, more than one of which together may be too many."""
    a = channels.address()
    with tempfile.TemporaryDirectory() as d:
        write_growing(d + "/outer.onnx", "outer")
        model = "[model outer]\npath = %s/outer.onnx\nmax_run_memory = 64M\n" % d
        with Server(model + channels.channel(a)) as s, channels.connect(a) as ch:
            y = ch.empty(())
            before = resident(s)
            for n in [6000, 1 << 15] + list(range(2500, 2530)) + [6000, 2500]:
                x = ch.empty((n, 1))
                x[...] = 2
                y[...] = 0
                try:
                    ch.infer("outer", [x], [y])
                    assert n < 6000 and y == 4, (n, y)
                except channels.rlx.Failed as e:
                    assert n >= 6000 and e.errno == errno.ERANGE, (n, e)
            grown = resident(s) - before
            assert SANITIZED or grown < 200 << 20, grown


@test
def memory_of_heads_and_bodies_that_do_not_end():
    """Heads are held as bodies are; what goes beyond is told so, and others are served."""
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 60000
    body = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 250000\r\n\r\n" +
            b"x" * 249999)
    for engine in ENGINES:
        with Server(engine=engine, server="max_memory = 64M\nmax_header = 64K\n"
                    "header_timeout = 600s\nbody_timeout = 600s\nthreads = 1\n") as s:
            assert s.get("/healthz")[0] == 200
            before = resident(s, "RssAnon")
            socks = [s.connect() for _ in range(900)]
            for i, c in enumerate(socks):
                c.setblocking(False)
                with contextlib.suppress(OSError):
                    c.send(head if i < 500 else body)
            wait_for(lambda: s.metric("rlxd_memory_bytes") > 48 << 20)
            time.sleep(0.5)
            grown = resident(s, "RssAnon") - before
            assert SANITIZED or grown < 1.1 * (64 << 20), grown
            assert s.get("/healthz")[0] == 200
            for c in socks:
                reset(c)
            wait_for(lambda: s.metric("rlxd_memory_bytes") == 0)


main()
