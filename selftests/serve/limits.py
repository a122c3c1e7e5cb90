# SPDX-License-Identifier: MIT
"""What one client can cost the others: its work, its memory, its absence; a log unread."""
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time

from rlxd import (BUILD, ENGINES, RLXD, Server, main, minilm, reset, status_of, test,
                  wait_for)

RAN = 'rlxd_model_rows_total{model="minilm",result="ok"}'
CANCELLED = 'rlxd_model_rows_total{model="minilm",result="cancelled"}'
RELU = "[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")
BATCH = 8
WAITING = 'rlxd_model_queue_rows{model="minilm"}'


def post(body, more=b""):
    return (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n%s"
            b"Content-Length: %d\r\n\r\n" % (more, len(body))) + body


def embed(texts):
    return post(json.dumps({"model": "minilm", "input": texts}).encode())


def each_engine(fn):
    """One test per engine, with a server of its own."""
    for engine in ENGINES:
        def one(engine=engine):
            with Server(minilm("max_batch = %d\nmax_queue = 8192\n" % BATCH) + RELU,
                        engine=engine, server="threads = 1\nmax_memory = 64M\n") as s:
                fn(s)
        one.__name__ = "%s_%s" % (fn.__name__, engine)
        test(one)
    return fn


def one_row(s):
    begin = time.monotonic()
    s.embed("hello")
    return time.monotonic() - begin


def slowness():
    """How many times as long as alone a busy thread takes on this machine just now."""
    wall, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < 0.25:
        pass
    return max(1, (time.monotonic() - wall) / 0.25)


class Limit:
    """
    A request of one row may take half a second beside anything that others ask. Where other
    programs have a share of the processors, before or after, by so much more.
    """

    def __init__(self, s):
        for _ in range(5):
            one_row(s)
        self.before = slowness()

    def check(self, worst, what=""):
        limit = 0.5 * max(self.before, slowness())
        assert worst <= limit, "%s: %.3f s of %.3f s" % (what, worst, limit)


def worst_beside(s, n=8):
    """The longest of so many requests of one row, while rows of others wait."""
    worst = max(one_row(s) for _ in range(n))
    assert s.metric(WAITING) > 0, "nothing was beside it"
    return worst


LONG = ["hello world %d " % i * 20 for i in range(2048)]


@each_engine
def one_row_beside_a_batch_of_the_same_address(s):
    """Connections of one client take turns, and no run is longer than others can wait."""
    limit = Limit(s)
    c = s.connect(600)
    c.sendall(embed(LONG))
    wait_for(lambda: s.metric(WAITING) > 1000, 60)
    worst = worst_beside(s)
    reset(c)
    wait_for(lambda: s.metric(WAITING) == 0, 60)
    limit.check(worst)


@each_engine
def one_row_beside_many_batches(s):
    """Likewise where requests are large and many, so that reading them takes long."""
    limit = Limit(s)
    stop = []

    def ask():
        while not stop:
            c = s.connect(600)
            c.sendall(embed(["hello world " * 30] * 500))
            time.sleep(0.3)
            reset(c)
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for t in threads:
        t.start()
    wait_for(lambda: s.metric(WAITING) > 500, 60)
    worst = max(one_row(s) for _ in range(20))
    stop.append(1)
    for t in threads:
        t.join()
    wait_for(lambda: s.metric(WAITING) == 0, 60)
    limit.check(worst)


def leaves(s, leave, texts):
    """A client leaves with rows waiting: no more than a batch or two of them are run."""
    before, gone = s.metric(RAN), s.metric(CANCELLED)
    c = s.connect(600)
    c.sendall(embed(texts))
    wait_for(lambda: s.metric(RAN) > before and s.metric(WAITING) > 0, 60)
    leave(c)
    ran = s.metric(RAN)
    wait_for(lambda: s.metric(CANCELLED) > gone, 60)
    wait_for(lambda: s.metric(WAITING) == 0, 60)
    wait_for(lambda: s.metric(RAN) - before + s.metric(CANCELLED) - gone == len(texts), 60)
    # What runs when it leaves, and what begins until that is seen.
    late = s.metric(RAN) - ran
    assert late <= 3 * BATCH, "%d of %d rows were run after it left" % (late, len(texts))


def half(c):
    """Says that it has no more to ask, and is gone later."""
    c.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    c.close()


@each_engine
def clients_that_leave(s):
    for leave in (reset, lambda c: c.close(), half):
        leaves(s, leave, ["hello world %d " % i * 20 for i in range(400)])
        # Received in place, or with bytes of a next request before the end.
        leaves(s, leave, ["hello world %d " % i * 20 for i in range(800)])
        leaves(s, lambda c: (c.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000),
                             leave(c)), ["hello world %d " % i * 20 for i in range(400)])


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
        assert grown <= MEMORY * 1.1, "%s: %.1f MB of %.1f MB" % (what, grown / 1e6, MEMORY / 1e6)


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
    limit = Limit(s)
    memory = Memory(s)

    for what, body, want in GREEDY:
        body = post(body, b"Connection: close\r\n")
        threads, out = in_parallel(lambda b: status_of(s.raw(b, timeout=120)), [body] * 6)
        times = []
        while any(t.is_alive() for t in threads):
            times.append(one_row(s))
        for t in threads:
            t.join()
        assert set(out) <= want and len(out) == 6, (what, out)
        memory.check(what)
        limit.check(max(times, default=0), what)
    assert s.metric("rlxd_memory_bytes") == 0


# Two megabytes, whose reply has twelve.
TENSOR_HEAD = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [512, 1024],
                                      "parameters": {"binary_data_size": 2 << 20}}]}).encode()
TENSOR = TENSOR_HEAD + struct.pack("<f", 0.123456789) * (512 << 10)


@each_engine
def memory_of_replies_that_nobody_takes(s):
    limit = Limit(s)
    path, key = "/v2/models/relu/infer", "Inference-Header-Content-Length"
    assert s.get(path, {key: str(len(TENSOR_HEAD))}, "POST", TENSOR)[0] == 200
    ask = b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %d\r\nContent-Length: %d\r\n\r\n" % (
        path.encode(), key.encode(), len(TENSOR_HEAD), len(TENSOR))
    memory = Memory(s)
    socks = [s.connect(60) for _ in range(24)]
    for c in socks:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    threads, _ = in_parallel(lambda c: c.sendall(ask + TENSOR), socks)
    for t in threads:
        t.join()
    times = [one_row(s) for _ in range(20)]
    wait_for(lambda: s.metric("rlxd_memory_bytes") > 0, 20)
    memory.check("24 replies")
    for c in socks:
        reset(c)
    wait_for(lambda: s.metric("rlxd_memory_bytes") == 0, 60)
    limit.check(max(times))


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


if __name__ == "__main__":
    main()
