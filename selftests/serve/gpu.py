# SPDX-License-Identifier: MIT
"""Models on a GPU: the emulated one serves what the CPU does; without one that is said."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fd_store_rig import DROP, GET, OK, PUT, FdStore
from rlxd import BUILD, MINILM, Server, main, test

EMULATOR = os.path.abspath(BUILD + "/test/emu")
CACHE = os.path.abspath(BUILD + "/emu-cache")
# With DEVICE in the environment the GPU is the machine's own.
EMULATED = "DEVICE" not in os.environ
ENV = {"LD_LIBRARY_PATH": EMULATOR, "RLX_EMU_CACHE": CACHE, "XDG_CACHE_HOME": CACHE,
       "RLX_EMU_FAST": "1"} if EMULATED else {}
DATA = [0.01 * (i % 97) - 0.4 for i in range(2 * 3 * 16 * 16)]


def section(model, device):
    path = os.path.abspath("%s/serve/%s.onnx" % (BUILD, model))
    return "[model %s]\npath = %s\ndevice = %s\n" % (model, path, device)


def infer(s, model="vision"):
    st, r = s.post("/v2/models/%s/infer" % model, {"inputs": [
        {"name": "x", "datatype": "FP32", "shape": [2, 3, 16, 16], "data": DATA}]})
    assert st == 200, r
    return [o["data"] for o in r["outputs"]]


@test
def a_gpu_that_is_not_there():
    s = Server(section("vision", "cuda:99"), wait=False)
    assert s.ended() == 1
    assert "cannot start" in s.log() and "[model vision]: no device 'cuda:99'" in s.log(), s.log()


@test
def the_emulated_gpu_serves():
    with Server(section("vision", "cpu")) as s:
        want = infer(s)
    with Server(section("vision", "cuda"), env=ENV) as s:
        for _ in range(2):
            y, n = infer(s)
            assert max(abs(a - b) for a, b in zip(y, want[0])) < 1e-4, (y, want[0])
            assert n == want[1]
        # What is asked wrong is told as elsewhere, and it goes on.
        st, r = s.post("/v2/models/vision/infer", {"inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 3, 8, 8], "data": [0] * 192}]})
        assert st == 400 and "shape" in json.dumps(r), (st, r)
        assert infer(s)[1] == want[1]


def of_mixed_lengths(s, clients, each):
    """What each asked, compared with its own alone; the statuses and the worst difference."""
    texts = ["a", "hello world", "The quick brown fox", "what is in a name " * 5, "x y z " * 20,
             "lorem ipsum dolor sit amet " * 12]
    got, lock = [], threading.Lock()

    def ask(http, text):
        http.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": text}))
        r = http.getresponse()
        body = json.loads(r.read())
        return r.status, body["data"][0]["embedding"] if r.status == 200 else body

    alone = {}
    for t in texts:
        st, alone[t] = ask(s.http(), t)
        assert st == 200, alone[t]

    def client(seed):
        http, draw = s.http(), random.Random(seed)
        for _ in range(each):
            t = draw.choice(texts)
            st, e = ask(http, t)
            with lock:
                got.append((st, e if st != 200 else
                            max(abs(a - b) for a, b in zip(e, alone[t]))))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == clients * each
    return got


@test
def texts_of_mixed_lengths():
    """Programs of all lengths and sizes share a workspace: none leaves there what another reads."""
    batch = random.choice(("", "max_batch = %d\n" % random.randint(1, 70)))
    with tempfile.TemporaryDirectory() as d:
        small = d + "/small"
        subprocess.run([sys.executable, os.path.dirname(__file__) + "/small.py", MINILM, small],
                       check=True)
        with Server("[model m]\npath = %s\ndevice = cuda\n%s" % (small if EMULATED else
                    os.path.abspath(MINILM), batch), env=ENV) as s:
            got = of_mixed_lengths(s, *((8, 30) if EMULATED else (32, 1000)))
            bad = [g for g in got if g[0] != 200]
            assert not bad, (batch, len(bad), bad[:3])
            worst = max(d for _, d in got)
            assert worst < 5e-3, (batch, worst)


def only_emulated(fn):
    """What no real device is to be put through."""
    return test(fn) if EMULATED else fn


@only_emulated
def a_device_that_is_lost():
    """503 to whom it befell; the process begins anew, and is reached all the time."""
    env = dict(ENV, RLX_EMU_FAIL="cuGraphLaunch:6:700!")     # in each life of the process
    with Server(section("vision", "cuda") + section("fixed", "cpu"), env=env) as s:
        pid, seen, end = s.proc.pid, [], time.monotonic() + 60
        while s.log().count("starting anew") < 2 or seen[-1] != 200:
            assert time.monotonic() < end, (seen, s.log())
            st, r = s.post("/v2/models/vision/infer", {"inputs": [
                {"name": "x", "datatype": "FP32", "shape": [2, 3, 16, 16], "data": DATA}]})
            assert st in (200, 503), (st, r)
            seen.append(st)
            # Whoever connects meanwhile waits in the queue: nobody is refused.
            assert st == 200 or "cuda" in json.dumps(r), r
        assert 503 in seen and s.proc.poll() is None and s.proc.pid == pid
        assert infer(s, "fixed")


@test
def weights_are_on_it_once():
    """Servers that share an fd store use one copy there, whoever of them dies."""
    def start(k, name):
        s = Server(section("fixed", "cuda"), server=k.conf(), env=ENV)
        assert infer(s, "fixed") == want
        assert "weights %s on the device" % name in s.log(), s.log()
        assert s.metric('rlxd_weights_resident{model="fixed"}') == 1
        assert "not adopted" not in s.log() and "not shared" not in s.log(), s.log()
        return s

    with Server(section("fixed", "cuda"), env=ENV) as s:     # nobody keeps anything
        want = infer(s, "fixed")
    with FdStore() as k:
        a = start(k, "kept")
        b = start(k, "adopted")
        a.proc.kill()
        a.kill()
        assert infer(b, "fixed") == want
        b.proc.kill()
        b.kill()
        with start(k, "adopted") as c:
            assert {"weights-fixed", "resident-fixed"} < set(k.names())
            # The model goes, and what was kept of it.
            c.write(section("vision", "cpu"))
            c.signal(signal.SIGHUP)
            c.wait_log("event=reloaded", 60)
            assert not {"weights-fixed", "resident-fixed"} & set(k.names())


@test
def what_is_kept_of_it_is_looked_at():
    """Something else by that name is not taken, and does no harm."""
    with FdStore() as k:
        with Server(section("fixed", "cuda"), server=k.conf(), env=ENV) as s:
            want = infer(s, "fixed")
        op, _, version, fd = k.ask(GET, "weights-fixed")
        assert op == OK
        assert k.ask(DROP, "resident-fixed")[0] == OK
        assert k.ask(PUT, "resident-fixed", fd=fd)[0] == OK
        os.close(fd)
        for said in "weights not adopted on the device", "weights adopted on the device":
            with Server(section("fixed", "cuda"), server=k.conf(), env=ENV) as s:
                assert infer(s, "fixed") == want
                assert said in s.log(), s.log()


def running_sums(path):
    """Neg, Scan with a body that adds, Neg: the host's step lies between two kernels."""
    from onnx import TensorProto as T, helper as h, save
    tensor = h.make_tensor_value_info
    body = h.make_graph(
        [h.make_node("Add", ["c", "e"], ["next"]), h.make_node("Identity", ["next"], ["part"])],
        "body", [tensor(n, T.FLOAT, [32]) for n in ("c", "e")],
        [tensor(n, T.FLOAT, [32]) for n in ("next", "part")])
    g = h.make_graph(
        [h.make_node("Neg", ["x"], ["n"]), h.make_node("Neg", ["zero"], ["z"]),
         h.make_node("Scan", ["z", "n"], ["last", "all"], body=body, num_scan_inputs=1),
         h.make_node("Neg", ["all"], ["y"])],
        "sums", [tensor("zero", T.FLOAT, [32]), tensor("x", T.FLOAT, [4, 32])],
        [tensor("y", T.FLOAT, [4, 32])])
    save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


@test
def a_step_of_the_host_between_kernels():
    """By channel, where sessions are strict, and by HTTP: it is served as on the CPU."""
    import numpy as np
    from channels import address, channel, connect
    with tempfile.TemporaryDirectory() as d:
        path, a = d + "/sums.onnx", address()
        running_sums(path)
        with Server("[model sums]\npath = %s\ndevice = cuda\n" % path + channel(a),
                    env=ENV) as s, connect(a) as ch:
            zero, x, y = ch.empty((32,)), ch.empty((4, 32)), ch.empty((4, 32))
            for _ in range(3):
                x[...] = np.random.default_rng().standard_normal(x.shape)
                zero[...], y[...] = 0, np.nan
                want = np.cumsum(np.array(x, np.float64), axis=0)
                ch.infer("sums", [zero, x], [y])
                assert np.allclose(y, want, atol=1e-5), abs(y - want).max()
                st, r = s.post("/v2/models/sums/infer", {"inputs": [
                    {"name": n, "datatype": "FP32", "shape": list(v.shape),
                     "data": v.ravel().tolist()} for n, v in (("zero", zero), ("x", x))]})
                assert st == 200, r
                got = np.array(r["outputs"][0]["data"]).reshape(4, 32)
                assert np.allclose(got, want, atol=1e-5), abs(got - want).max()


main()
