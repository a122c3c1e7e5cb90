# SPDX-License-Identifier: MIT
"""What one client can cost the others: its work, its memory, its absence; a log unread."""
import contextlib
import errno
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from rlxd import (BUILD, ENGINES, RLXD, SANITIZED, Beside, Mark, Server, main, minilm, reset,
                  status_of, test, thread_times, wait_for)

RELU = "[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")
BATCH = 8
SLOW = "[model slow]\npath = %s\nbatch = yes\nmax_batch = %d\n" % (
    os.path.abspath(BUILD + "/serve/slow.onnx"), BATCH)
# A batch of it takes longer than until somebody looks for clients that left.
SLOWER = SLOW.replace("slow", "slower")
rng = np.random.default_rng()
WAITING = 'rlxd_model_queue_rows{model="minilm"}'


def post(body, more=b""):
    return (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n%s"
            b"Content-Length: %d\r\n\r\n" % (more, len(body))) + body


def embed(texts, more=b""):
    return post(json.dumps({"model": "minilm", "input": texts}).encode(), more)


DATATYPES = {np.dtype(np.float32): "FP32", np.dtype(np.int64): "INT64"}


def tensors(*arrays):
    """JSON and binary data that ask for these inputs, and the length of the first."""
    head = json.dumps({"inputs": [
        {"name": name, "datatype": DATATYPES[x.dtype], "shape": x.shape,
         "parameters": {"binary_data_size": x.nbytes}} for name, x in arrays],
        "parameters": {"binary_data_output": True}}).encode()
    head += b" " * (-len(head) % 8)
    return head + b"".join(x.tobytes() for _, x in arrays), len(head)


def some_rows(n):
    return rng.integers(-3, 4, (n, 64)).astype(np.float32)


def many_rows(n, more=b"", model=b"slow"):
    body, length = tensors(("x", some_rows(n)))
    return (b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\n%s"
            b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
            % (model, more, length, len(body))) + body, n


def each_engine(fn):
    """One test per engine, with a server of its own."""
    for engine in ENGINES:
        def one(engine=engine):
            with Server(minilm("max_batch = %d\nmax_queue = 8192\n" % BATCH) + RELU + SLOW + SLOWER,
                        engine=engine, server="threads = 1\nmax_memory = 64M\n") as s:
                fn(s)
        one.__name__ = "%s_%s" % (fn.__name__, engine)
        test(one)
    return fn


def one_row(s):
    """A request of one row, which may take half a second beside anything that others ask."""
    return Beside(lambda: s.embed("hello"))


# Not of this test, for their parent ends: so many compute until their input ends.
OTHERS = """
import os, select, sys
for _ in range(int(sys.argv[1])):
    if not os.fork():
        while not select.select([0], [], [], 0)[0]:
            sum(range(10000))
        os._exit(0)
"""


@test
def what_others_had_counts():
    """In that moment, neither before nor after: 0.3 s of computing beside four programs."""
    r, w = os.pipe()
    subprocess.run([sys.executable, "-c", OTHERS, str(2 * os.cpu_count())], stdin=r, check=True)
    begin, cpu = Mark(), time.thread_time()
    while time.thread_time() - cpu < 0.3:
        sum(range(10000))
    end = Mark()
    os.close(w)
    os.close(r)
    took, slow = end.at - begin.at, begin.slow_until(end)
    assert took > 0.5, "nothing was beside it"
    assert 0.15 < took / slow < 0.45, (took, slow)      # ticks are coarse


def worst_beside(s, limit, n=8):
    """So many requests of one row, while rows of others wait."""
    for _ in range(n):
        limit.ask()
    assert s.metric(WAITING) > 0, "nothing was beside it"


LONG = ["hello world %d " % i * 20 for i in range(2048)]


@each_engine
def one_row_beside_a_batch_of_the_same_address(s):
    """Connections of one client take turns, and no run is longer than others can wait."""
    limit = one_row(s)
    c = s.connect(600)
    c.sendall(embed(LONG))
    wait_for(lambda: s.metric(WAITING) > 1000, 60)
    worst_beside(s, limit)
    reset(c)
    wait_for(lambda: s.metric(WAITING) == 0, 60)
    limit.check()


@each_engine
def one_row_beside_many_batches(s):
    """Likewise where requests are large and many, so that reading them takes long."""
    limit = one_row(s)
    begun, stop = threading.Event(), []

    def ask():
        while not stop:
            c = s.connect(600)
            c.sendall(embed(["hello world " * 30] * 500))
            begun.wait(600)     # however long the first of them take to read
            time.sleep(0.3)
            reset(c)
    threads = [threading.Thread(target=ask, daemon=True) for _ in range(6)]
    for t in threads:
        t.start()
    wait_for(lambda: s.metric(WAITING) > 500, 60)
    begun.set()
    for _ in range(20):
        limit.ask()
    stop.append(1)
    for t in threads:
        t.join()
    wait_for(lambda: s.metric(WAITING) == 0, 60)
    limit.check()


def leaves(s, leave, ask, rows, model="minilm"):
    """A client leaves with rows waiting: no more than a batch or two of them are run."""
    name = 'rlxd_model_%%s{model="%s"%%s}' % model
    ok, cancelled = (name % ("rows_total", ',result="%s"' % r) for r in ("ok", "cancelled"))
    waiting = name % ("queue_rows", "")
    before, gone = s.metric(ok), s.metric(cancelled)
    c = s.connect(600)
    c.sendall(ask)
    wait_for(lambda: s.metric(ok) > before and s.metric(waiting) > 0, 60)
    leave(c)
    ran = s.metric(ok)
    wait_for(lambda: s.metric(cancelled) > gone, 60)
    wait_for(lambda: s.metric(waiting) == 0, 60)
    wait_for(lambda: s.metric(ok) - before + s.metric(cancelled) - gone == rows, 60)
    # What runs when it leaves, and what begins until that is seen.
    late = s.metric(ok) - ran
    assert late <= 3 * BATCH, "%d of %d rows were run after it left" % (late, rows)


def half(c):
    """Says that it has no more to ask, and is gone later."""
    c.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    c.close()


def many_texts(n, more=b""):
    return embed(["hello world %d " % i * 20 for i in range(n)], more), n


@each_engine
def clients_that_leave(s):
    for leave in (reset, lambda c: c.close(), half):
        leaves(s, leave, *many_texts(400))
        # Received in place, or with bytes of a next request before the end.
        leaves(s, leave, *many_texts(800))
        leaves(s, lambda c: (c.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000),
                             leave(c)), *many_texts(400))
        leaves(s, leave, *many_rows(2000, model=b"slower"), model="slower")


def parts(c):
    """Says goodbye as TLS has it, and closes."""
    c.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        c.unwrap()
    c.close()


def parts_later(c):
    """Likewise, but keeps the connection for a while."""
    c.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        c.unwrap()
    time.sleep(0.2)
    c.close()


@test
def clients_that_leave_by_tls():
    from tls_server import AUTH, TlsServer

    key = "".join("%s: %s\r\n" % h for h in AUTH.items()).encode()
    for engine in ENGINES:
        with TlsServer(minilm("max_batch = %d\nmax_queue = 8192\n" % BATCH) + SLOWER,
                       engine=engine, server="threads = 1\n") as s:
            for leave in (reset, lambda c: c.close(), half, parts, parts_later):
                leaves(s, leave, *many_texts(400, key))
                leaves(s, leave, *many_texts(800, key))
                leaves(s, leave, *many_rows(2000, key, b"slower"), model="slower")
                leaves(s, lambda c: (c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 200),
                                     leave(c)), *many_rows(2000, key, b"slower"), model="slower")


@each_engine
def who_asks_no_more_is_answered(s):
    """To close one's sending half is no farewell: that client reads on."""
    texts = ["hello world %d " % i * 20 for i in range(200)]
    out = s.raw(embed(texts), timeout=120, shut=True)
    # It may have been asked whether it is there: by interim replies, which say nothing.
    while out.startswith(b"HTTP/1.1 100 "):
        out = out.split(b"\r\n\r\n", 1)[1]
    assert status_of(out) == 200, out[:200]
    assert len(json.loads(out.split(b"\r\n\r\n", 1)[1])["data"]) == len(texts)


MEMORY = 64 << 20


class Memory:
    """What a server's resident memory grows by, at most, from now on."""

    def __init__(self, s):
        self.pid = s.proc.pid
        self.base = self.read("VmRSS")
        with open("/proc/%d/clear_refs" % self.pid, "w") as f:
            f.write("5")

    def read(self, key):
        with open("/proc/%d/status" % self.pid) as f:
            return next(int(ln.split()[1]) << 10 for ln in f if ln.startswith(key + ":"))

    def check(self, what):
        grown = self.read("VmHWM") - self.base
        assert SANITIZED or grown <= MEMORY * 1.1, \
            "%s: %.1f MB of %.1f MB" % (what, grown / 1e6, MEMORY / 1e6)


def in_parallel(fn, args):
    out = []

    def one(a):
        out.append(fn(a))
    threads = [threading.Thread(target=one, args=(a,)) for a in args]
    for t in threads:
        t.start()
    return threads, out


def quoted(part, size):
    return b'{"model":"minilm","input":"' + part * (size // len(part)) + b'"}'


def listed(part, size):
    return b'{"model":"minilm","input":[' + part * (size // len(part)) + part.strip(b",") + b"]}"


# What takes much memory, or long, to read; and what all of it is answered.
GREEDY = [
    ("marks", quoted("\u4e2d\u0301".encode(), 12 << 20), {400, 503}),
    ("words", quoted(b"word ", 12 << 20), {400, 503}),
    ("one word", quoted(b"a", 12 << 20), {400, 503}),
    ("nothing but spaces", quoted(b" ", 12 << 20), {200, 503}),
    ("escapes", quoted(b"\\u00e9", 12 << 20), {400, 503}),
    ("numbers", listed(b"0,", 12 << 20), {400, 503}),
    ("lists", listed(b"[],", 12 << 20), {400, 503}),
    ("many texts", listed(b'"%s",' % (b"word " * 1200), 12 << 20), {400, 503}),
    ("keys", b'{"model":"minilm","input":{' +
     b",".join(b'"%d":0' % i for i in range(600000)) + b"}}", {400, 503}),
]


@each_engine
def memory_of_what_is_read(s):
    """Requests that are refused in the end take no more than max_memory allows before."""
    limit = one_row(s)
    memory = Memory(s)

    for what, body, want in GREEDY:
        body = post(body, b"Connection: close\r\n")
        threads, out = in_parallel(lambda b: status_of(s.raw(b, timeout=120)), [body] * 6)
        limit.ask()
        while any(t.is_alive() for t in threads):
            limit.ask()
        for t in threads:
            t.join()
        assert set(out) <= want and len(out) == 6, (what, out)
        memory.check(what)
        limit.check(what=what)
    assert s.metric("rlxd_memory_bytes") == 0


# Two megabytes, whose reply has twelve.
TENSOR_HEAD = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [512, 1024],
                                      "parameters": {"binary_data_size": 2 << 20}}]}).encode()
TENSOR = TENSOR_HEAD + struct.pack("<f", 0.123456789) * (512 << 10)


@each_engine
def memory_of_replies_that_nobody_takes(s):
    limit = one_row(s)
    path, key = "/v2/models/relu/infer", "Inference-Header-Content-Length"
    assert s.get(path, {key: str(len(TENSOR_HEAD))}, "POST", TENSOR)[0] == 200
    ask = b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %d\r\nContent-Length: %d\r\n\r\n" % (
        path.encode(), key.encode(), len(TENSOR_HEAD), len(TENSOR))
    memory = Memory(s)
    socks = [s.connect(60) for _ in range(24)]
    for c in socks:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # One by itself until its reply begins, since many at once may hold so many bytes that all
    # are refused.
    socks[0].sendall(ask + TENSOR)
    assert socks[0].recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
    threads, _ = in_parallel(lambda c: c.sendall(ask + TENSOR), socks[1:])
    for t in threads:
        t.join()
    for _ in range(20):
        limit.ask()
    wait_for(lambda: s.metric("rlxd_memory_bytes") > 0, 20)
    memory.check("24 replies")
    for c in socks:
        reset(c)
    wait_for(lambda: s.metric("rlxd_memory_bytes") == 0, 60)
    limit.check()


def ask_slow(s, x, model="slow", headers=None):
    """What a model makes of these rows."""
    body, length = tensors(("x", x))
    headers = dict(headers or {}, **{"Inference-Header-Content-Length": str(length)})
    st, h, out = s.get("/v2/models/%s/infer" % model, headers, "POST", body)
    assert st == 200, (st, out)
    out = out[int(h["Inference-Header-Content-Length"]):]
    return (np.frombuffer(out[:x.nbytes], np.float32).reshape(x.shape),
            np.frombuffer(out[x.nbytes:], np.int64))


def ask_slow_json(s, x):
    st, r = s.post("/v2/models/slow/infer", {"inputs": [
        {"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.tolist()}]})
    assert st == 200, (st, r)
    y, n = (np.array(o["data"], dtype) for o, dtype in zip(r["outputs"], (np.float32, np.int64)))
    return y.reshape(x.shape), n


def ask_slow_region(s, x):
    """Inputs, and then outputs, in one region of shared memory."""
    sizes = [x.nbytes, x.nbytes, len(x) * 8]
    at = [0] + list(np.cumsum(sizes))
    name = "rlxd-limits-%d" % os.getpid()
    with open("/dev/shm/" + name, "wb") as f:
        f.write(x.tobytes() + b"\xff" * sum(sizes[1:]))
    try:
        assert s.post("/v2/systemsharedmemory/region/r/register",
                      {"key": "/" + name, "offset": 0, "byte_size": sum(sizes)})[0] == 200
        where = [{"parameters": {"shared_memory_region": "r", "shared_memory_offset": int(at[i]),
                                 "shared_memory_byte_size": sizes[i]}} for i in range(3)]
        st, r = s.post("/v2/models/slow/infer", {
            "inputs": [dict(where[0], name="x", datatype="FP32", shape=x.shape)],
            "outputs": [dict(where[1], name="y"), dict(where[2], name="n")]})
        assert st == 200, (st, r)
        assert s.post("/v2/systemsharedmemory/unregister", {})[0] == 200
        with open("/dev/shm/" + name, "rb") as f:
            out = f.read()
    finally:
        os.unlink("/dev/shm/" + name)
    return (np.frombuffer(out[at[1]:at[2]], np.float32).reshape(x.shape),
            np.frombuffer(out[at[2]:], np.int64))


def ask_slow_channel(s, x):
    import channels

    ch = channels.connect(s.channel)
    at, y, n = ch.empty(x.shape), ch.empty(x.shape), ch.empty((len(x),), np.int64)
    at[...], y[...], n[...] = x, np.nan, -1
    ch.infer("slow", [at], [y, n])
    out = y.copy(), n.copy()
    ch.close()
    return out


def slow_server(engine):
    """A model whose rows are independent, and the same as if they were not."""
    import channels

    a = channels.address()
    s = Server(SLOW + SLOW.replace("slow]", "whole]").replace("batch = yes", "batch = no") +
               channels.channel(a), engine=engine,
               server="threads = 1\nshared_memory = local\n")
    s.channel = a
    return s


def slow_by_definition(x):
    """In double, of the weights in the file."""
    import onnx
    from onnx import numpy_helper

    a, w, b = (numpy_helper.to_array(t).astype(np.float64)
               for t in onnx.load(BUILD + "/serve/slow.onnx").graph.initializer)
    h = np.sign(x.astype(np.float64) @ a)
    for _ in range(48):
        h = np.sign(h @ w)
    return h @ b, np.argmax(h @ b, axis=1)


@test
def rows_are_put_together():
    """However rows of a request come, and however many run at once: bit for bit."""
    for engine in ENGINES:
        with slow_server(engine) as s:
            for ask in (ask_slow, ask_slow_json, ask_slow_region, ask_slow_channel):
                # Of channels what takes no longer than others may wait for is one run.
                n = 1000 if ask is ask_slow_channel else 100
                x = some_rows(int(rng.integers(n, 3 * n)))
                want = ask_slow(s, x, "whole")
                for got, ref in zip(want, slow_by_definition(x[:8])):
                    assert np.array_equal(got[:8], ref), engine
                before = s.metric('rlxd_model_batches_total{model="slow"}')
                for got, ref in zip(ask(s, x), want):
                    assert np.array_equal(got, ref), (engine, ask.__name__)
                ran = s.metric('rlxd_model_batches_total{model="slow"}') - before
                assert len(x) / BATCH <= ran <= len(x), (ask.__name__, len(x), ran)
            one = some_rows(1)
            assert all(np.array_equal(a, b) for a, b in
                       zip(ask_slow(s, one), ask_slow(s, one, "whole")))


def one_slow_row(s):
    return Beside(lambda: ask_slow(s, some_rows(1)))


def beside_slow(s, limit, what):
    """A request of one row while many wait; then nothing of what was there."""
    waiting = 'rlxd_model_queue_rows{model="slow"}'
    wait_for(lambda: s.metric(waiting) > 500, 60)
    beside = 0
    for _ in range(10):
        limit.ask()
        beside += s.metric(waiting) > 0
    assert beside >= 5, "nothing was beside it"
    limit.check(what=what)


@test
def one_row_beside_rows_of_any_model():
    """Likewise of a model that is no encoder, if its rows are independent."""
    import channels

    for engine in ENGINES:
        with slow_server(engine) as s:
            limit = one_slow_row(s)
            stop = []

            def ask():
                while not stop:
                    c = s.connect(600)
                    c.sendall(many_rows(2048)[0])
                    time.sleep(1)
                    reset(c)
            threads = [threading.Thread(target=ask) for _ in range(2)]
            for t in threads:
                t.start()
            try:
                beside_slow(s, limit, "HTTP")
            finally:
                stop.append(1)
                for t in threads:
                    t.join()
            wait_for(lambda: s.metric('rlxd_model_queue_rows{model="slow"}') == 0, 60)
            ch = channels.connect(s.channel)
            x, y, n = ch.empty((2048, 64)), ch.empty((2048, 64)), ch.empty((2048,), np.int64)
            x[...] = some_rows(2048)
            ch.submit(ch.prepare("slow", [x], [y, n]))
            beside_slow(s, limit, "channel")
            ch.close()
            # Who is gone is not worked for.
            wait_for(lambda: s.metric('rlxd_model_queue_rows{model="slow"}') == 0, 60)
            assert s.metric('rlxd_model_rows_total{model="slow",result="cancelled"}') > 500


AUTH = {"Authorization": "Bearer limits-key-0123456789"}


def one_whole_row(s):
    return Beside(lambda: ask_slow(s, some_rows(1), "whole", AUTH))


@test
def one_row_beside_undivided_requests():
    """Of the same key, over other connections: each is a run of seconds, and is passed."""
    more = "".join("%s: %s\r\n" % h for h in AUTH.items()).encode()
    waiting, ran = ('rlxd_model_%s{model="whole"}' % n for n in ("queue_rows", "batches_total"))
    whole = SLOW.replace("slow]", "whole]").replace("batch = yes", "batch = no")
    with tempfile.NamedTemporaryFile("w", suffix=".key") as f:
        f.write(AUTH["Authorization"].split()[1] + "\n")
        f.flush()
        for engine in ENGINES:
            with Server(whole + "[key k]\nsecret_file = %s\n" % f.name, engine=engine,
                        server="threads = 1\n") as s:
                limit = one_whole_row(s)
                before = s.metric(ran, AUTH)
                socks = [s.connect(600) for _ in range(3)]
                for c in socks:
                    c.sendall(many_rows(2048, more, b"whole")[0])
                # One runs, the others wait.
                wait_for(lambda: s.metric(waiting, AUTH) == 2, 60)
                for _ in range(10):
                    limit.ask()
                assert s.metric(ran, AUTH) - before < 10 + 3, "nothing was beside it"
                for c in socks:
                    reset(c)
                limit.check()


@test
def shapes_that_come_and_go():
    """What is compiled for more shapes than are kept, again and again, does not add up."""
    whole = SLOW.replace("slow]", "whole]").replace("batch = yes", "batch = no\nmax_shapes = 8")
    with Server(whole, server="threads = 1\nmax_memory = 64M\n") as s:
        sizes = list(range(1, 25))
        for _ in range(2):
            for n in sizes:
                ask_slow(s, some_rows(n), "whole")
        memory = Memory(s)
        for _ in range(10):
            rng.shuffle(sizes)
            for n in sizes:
                ask_slow(s, some_rows(n), "whole")
        # Weights are 4.7 MB, of which no shape may have any of its own.
        grown = memory.read("VmRSS") - memory.base
        assert SANITIZED or grown < 4 << 20, "%.1f MB more by 240 programs" % (grown / 1e6)


def eight_bits(path, out):
    """An ONNX file whose weights of products are bytes, each dequantised where it is used."""
    import onnx
    from onnx import helper, numpy_helper
    g = (m := onnx.load(path)).graph
    used = {n.input[1] for n in g.node if n.op_type == "MatMul"}
    for w in list(g.initializer):
        name = w.name
        if name not in used or len(w.dims) != 2:
            continue
        x = numpy_helper.to_array(w)
        scale = np.abs(x).max() / np.float32(127)
        w.CopyFrom(numpy_helper.from_array(np.rint(x / scale).astype(np.int8), name + "_8"))
        g.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
        g.node.insert(0, helper.make_node("DequantizeLinear", [name + "_8", name + "_scale"],
                                          [name]))
    onnx.save(m, out)


@test
def lengths_of_an_8_bit_encoder():
    """What is made of its weights is there once, and not again for each length of a text."""
    with tempfile.TemporaryDirectory() as d:
        path = d + "/int8.onnx"
        eight_bits(BUILD + "/models/minilm.onnx", path)
        conf = "[model int8]\npath = %s\nmax_shapes = 64\n" % path
        with Server(conf, server="threads = 1\n") as s:
            memory = None
            for n in rng.permutation(64) + 1:
                ids = rng.integers(1000, 20000, (1, n))
                st, r = s.post("/v2/models/int8/infer", {"inputs": [
                    {"name": k, "datatype": "INT64", "shape": [1, int(n)],
                     "data": x.ravel().tolist()} for k, x in
                    (("input_ids", ids), ("attention_mask", np.ones_like(ids)),
                     ("token_type_ids", np.zeros_like(ids)))]})
                assert st == 200, (n, st, r)
                memory = memory or Memory(s)
            # A program and its workspace, of 5 MB; all weights would be 43 MB of floats.
            grown = memory.read("VmRSS") - memory.base
            assert SANITIZED or grown < 64 * 8 << 20, "%.1f MB a length" % (grown / 63e6)


def one_json_row(n):
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, n], "data":
                                   np.round(rng.standard_normal(n), 8).tolist()}]}).encode()


def post_relu(s, body):
    st, _, out = s.get("/v2/models/relu/infer", None, "POST", body)
    assert st == 200, (st, out[:200])


@test
def one_row_beside_what_is_read():
    """Others of the same address whose requests are as short, or take long to read each."""
    for engine in ENGINES:
        with Server(RELU, engine=engine, server="threads = 1\n") as s:
            mine = one_json_row(24000)      # 0.3 MB, as a image may have
            limit = Beside(lambda: post_relu(s, mine))
            for n, size in ((100, 3000), (6, 1 << 20)):
                stop, body = [], one_json_row(size)

                def ask():
                    while not stop:
                        post_relu(s, body)
                threads, _ = in_parallel(lambda f: f(), [ask] * n)
                time.sleep(1)
                for _ in range(5):
                    limit.ask()
                stop.append(1)
                for t in threads:
                    t.join()
                limit.check(what="%s, %d of %d bytes" % (engine, n, len(body)))


@test
def one_row_beside_metrics():
    """Each takes a millisecond or two to write: as many at once as there may be connections."""
    models = "".join(RELU.replace("relu]", "relu%d]" % i) for i in range(40))
    for engine in ENGINES:
        with Server(minilm() + models, engine=engine, server="threads = 1\n") as s:
            s.metric(WAITING)               # how long they are is known then
            limit = one_row(s)
            socks = [s.connect(60) for _ in range(900)]
            for c in socks:
                c.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for _ in range(5):
                limit.ask()
            assert socks[-1].recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
            for c in socks:
                reset(c)
            limit.check(what=engine)


@each_engine
def one_row_beside_a_full_queue(s):
    """Who fills it has no more room; who asks little has."""
    waiting = 'rlxd_model_queue_rows{model="slow"}'
    socks = [s.connect(600) for _ in range(2)]
    for c in socks:
        c.sendall(many_rows(2048)[0])
    wait_for(lambda: s.metric(waiting) > 3500, 60)
    for n, want in ((60, 200), (1500, 503)):
        body, length = tensors(("x", some_rows(n)))
        st, h, out = s.get("/v2/models/slow/infer",
                           {"Inference-Header-Content-Length": str(length)}, "POST", body)
        assert st == want, (n, st, out)
    assert b"queue" in out and h["Retry-After"], out
    for c in socks:
        reset(c)
    wait_for(lambda: s.metric(waiting) == 0, 60)


@test
def large_regions_are_read_by_workers():
    """A small request may name much shared memory; a loop's others do not wait for it."""
    name, size = "rlxd-limits-%d" % os.getpid(), 32 << 20
    ask = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, size // 8],
                       "parameters": {"shared_memory_region": "r",
                                      "shared_memory_byte_size": size}}]}
    with open("/dev/shm/" + name, "wb") as f:
        f.truncate(size)
    try:
        for engine in ENGINES:
            with Server(minilm(), engine=engine, server="shared_memory = local\n") as s:
                assert s.post("/v2/systemsharedmemory/region/r/register",
                              {"key": "/" + name, "offset": 0, "byte_size": size})[0] == 200
                before = thread_times(s.proc.pid)
                for _ in range(10):
                    st, r = s.post("/v2/models/minilm/infer", ask)
                    assert st == 400 and "tokens" in str(r), (st, r)
                after = thread_times(s.proc.pid)
                all_of = sum(t for _, t in after) - sum(t for _, t in before)
                loop = dict(after)["rlxd-loop"] - dict(before)["rlxd-loop"]
                assert loop < all_of / 4, (engine, loop, all_of)
    finally:
        os.unlink("/dev/shm/" + name)


def refused(s, status, part, model, *arrays):
    body, length = tensors(*arrays)
    st, _, out = s.get("/v2/models/%s/infer" % model,
                       {"Inference-Header-Content-Length": str(length)}, "POST", body)
    assert st == status and part in out.decode(errors="replace"), (model, st, out[:300])
    return out


@test
def what_are_no_rows():
    """Inputs and outputs that cannot be what batch = yes says; more than may wait."""
    import channels

    a = channels.address()
    models = "".join("[model %s]\npath = %s/%s.onnx\nbatch = yes\nmax_queue = 400\n"
                     "max_elements = 6\n" % (
        n, os.path.abspath(BUILD + "/serve"), n) for n in ("sum", "turned", "pick", "relu"))
    models += RELU.replace("relu]", "small]") + "max_elements = 12\n"

    def ones(*shape):
        return np.ones(shape, np.float32)
    with Server(models + channels.channel(a)) as s:
        refused(s, 400, "input b has 1 rows, input a has 3", "sum", ("a", ones(3, 3)),
                ("b", ones(1, 3)))
        refused(s, 413, "max_queue", "sum", ("a", ones(401, 3)), ("b", ones(401, 3)))
        out = refused(s, 200, "", "sum", ("a", ones(400, 3)), ("b", ones(400, 3)))
        assert np.all(np.frombuffer(out[-400 * 3 * 4:], np.float32) == 2)
        assert b'"shape":[0,3]' in refused(s, 200, "", "sum", ("a", ones(0, 3)),
                                           ("b", ones(0, 3)))
        refused(s, 501, "batch = no", "turned", ("x", ones(2, 3)))
        refused(s, 413, "the inputs of one row have 7 elements", "relu", ("x", ones(2, 7)))
        assert len(refused(s, 200, "", "relu", ("x", ones(100, 6)))) > 2400
        refused(s, 413, "the inputs have 14 elements", "small", ("x", ones(2, 7)))
        refused(s, 200, "", "small", ("x", ones(2, 6)))
        # Once one row has failed, what is left of them is not run.
        x = np.full((400, 1), 3, np.int64)
        refused(s, 200, "", "pick", ("x", x))
        before = s.metric('rlxd_model_rows_total{model="pick",result="ok"}')
        x[0] = 10
        refused(s, 400, "", "pick", ("x", x))
        ran = s.metric('rlxd_model_rows_total{model="pick",result="ok"}') - before
        assert before == 400 and ran < 100, (before, ran)
        ch = channels.connect(a)
        x, y = ch.empty((401, 3)), ch.empty((401, 3))
        x[...] = 1
        for shape, n, want in (((401, 3), 401, errno.ERANGE), ((400, 3), 399, errno.ERANGE),
                               ((400, 3), 400, 0)):
            y[...] = np.nan
            try:
                ch.infer("relu", [x[:shape[0]]], [y[:n]])
                got = 0
            except channels.rlx.Failed as e:
                got = e.errno
            assert got == want, (shape, n, got)
        assert np.all(y[:400] == 1) and np.all(np.isnan(y[400:]))
        ch.close()


@test
def stalled_reader_of_the_log():
    """Nobody waits for it, and what was left out is counted."""
    with tempfile.TemporaryDirectory() as d:
        conf = d + "/rlxd.conf"
        with open(conf, "w") as f:
            f.write("[server]\nlisten = unix:%s/sock\naccess_log = all\n" % d)
        p = subprocess.Popen([RLXD, "--config", conf], stderr=subprocess.PIPE, text=True)
        try:
            while "event=ready" not in p.stderr.readline():
                pass
            c = socket.socket(socket.AF_UNIX)
            c.settimeout(30)
            c.connect(d + "/sock")
            ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n\r\n"
            ask %= b"x" * 64
            # A pipe holds 64 KiB, and the daemon some more.
            for _ in range(4000):
                c.sendall(ask)
                assert status_of(c.recv(4096)) == 200
            c.close()
            p.terminate()
            time.sleep(0.5)
            log = p.stderr.read()
            assert p.wait(20) == 0
            assert log.count("event=request") > 1000
            assert 'event="lines left out" count=' in log, log[-2000:]
        finally:
            p.kill()


@test
def who_has_had_a_reply_makes_room():
    """Connections that stay open behind their last reply count for nobody who comes."""
    ask = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for engine in ENGINES:
        with Server(RELU, engine=engine, server="threads = 1\nmax_connections = 16\n") as s:
            with contextlib.ExitStack() as stay:
                for i in range(64):
                    c = stay.enter_context(socket.create_connection(("127.0.0.1", s.port), 60))
                    c.sendall(ask)
                    reply = c.recv(4096)
                    assert reply.startswith(b"HTTP/1.1 200 "), (engine, i, reply)


if __name__ == "__main__":
    main()
