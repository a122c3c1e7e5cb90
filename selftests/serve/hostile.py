# SPDX-License-Identifier: MIT
"""Malformed, slow, huge and vanishing requests: the others are served on."""
import fcntl
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

from rlxd import (BUILD, DEVICE, ENGINES, Beside, Server, main, minilm, read_all, reset, slowness,
                  status_of, test, trickle, wait_for, within)

OK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Of the last request of a connection, which is else closed when it has been idle for long enough.
LAST = b"Host: localhost\r\nConnection: close\r\n\r\n"
CLOSE = b"GET /healthz HTTP/1.1\r\n" + LAST

POST = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"

# What must be answered with which status; 0: closed without an answer.
BAD = [
    (b"GARBAGE\r\n\r\n", {400, 501}),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400, 501}),
    (b"GET / HTTP/1.1\nHost: localhost\n\n" + b"\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA\rB: y\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n folded: y\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\n: empty\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\0c\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\n\r\n", {400}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n", {400}),
    (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", {400, 505}),
    (b"GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n", {400, 505}),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 501, 505}),
    (b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET ht" b"tp:///healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET ht" b"tp://u@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET ftp://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"GET /health\x80z HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}),
    (b"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 501}),
    (b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 501}),
    (POST + b"Content-Length: 5\r\n"
     b"Content-Length: 5\r\n\r\nhello", {400}),
    (POST + b"Content-Length: -1\r\n\r\n", {400}),
    (POST + b"Content-Length: +1\r\n\r\n", {400}),
    (POST + b"Content-Length: 1,1\r\n\r\n", {400}),
    (POST + b"Content-Length: 0x10\r\n\r\n", {400}),
    (POST + b"Content-Length: 1 1\r\n\r\n", {400}),
    (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", {400, 413}),
    (POST + b"Content-Length: 99999999999\r\n\r\n",
     {413}),
    (POST + b"Content-Length: 5\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    (POST + b"Transfer-Encoding: gzip\r\n\r\n",
     {400, 501}),
    (POST + b"Transfer-Encoding: chunked, identity\r\n\r\n", {400, 501}),
    (POST + b"Transfer-Encoding: chunked\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    (b"POST /v1/embeddings HTTP/1.0\r\nHost: localhost\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n"
     b"xyz\r\n", {400}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n"
     b"ffffffffffffffffff\r\n", {413}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n"
     b"400001\r\n", {413}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n"
     b"5\r\nhello\r\n3ffffc\r\n", {413}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n"
     b"5\r\nhelloX", {400}),
    (POST + b"Expect: a-miracle\r\n"
     b"Content-Length: 5\r\n\r\nhello", {417}),
    (POST + b"Content-Encoding: gzip\r\n"
     b"Content-Length: 5\r\n\r\nhello", {415}),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {431}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100 + b"\r\n", {431}),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70000, {431}),
    (b"GET /../../etc/passwd HTTP/1.1\r\n" + LAST, {404}),
    (b"GET /v2/models/%6d/infer HTTP/1.1\r\n" + LAST, {404, 405}),
    (b"GET /v1/embeddings HTTP/1.1\r\n" + LAST, {405}),
    (b"DELETE /healthz HTTP/1.1\r\n" + LAST, {405}),
]

# Bodies for /v1/embeddings that must be refused with 400 or 404.
BODIES = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model":"minilm"}', b'{"input":"x"}',
    b'{"model":"minilm","input":""}', b'{"model":"minilm","input":[]}',
    b'{"model":"minilm","input":[""]}', b'{"model":"minilm","input":[[]]}',
    b'{"model":"minilm","input":[[1,"a"]]}', b'{"model":"minilm","input":[[1.5]]}',
    b'{"model":"minilm","input":[[-1]]}', b'{"model":"minilm","input":[[999999999]]}',
    b'{"model":"minilm","input":[[1e99]]}', b'{"model":"minilm","input":{"a":1}}',
    b'{"model":"minilm","input":null}', b'{"model":"minilm","input":true}',
    b'{"model":"minilm","input":[["a"]]}', b'{"model":"minilm","input":["a",[1]',
    b'{"model":1,"input":"x"}',
    b'{"model":"minilm","input":"x","encoding_format":"hex"}',
    b'{"model":"minilm","input":"x","dimensions":7}',
    b'{"model":"minilm","model":"minilm","input":"x"}',
    b'{"model":"none","input":"x"}', b'{"model":"minilm","input":"\\ud800"}',
    b'{"model":"minilm","input":"' + b"word " * 600 + b'"}',
    b'{"model":"minilm","input":[' + b'"a",' * 2048 + b'"a"]}',
    b"[" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"model":"minilm","input":"x"} trailing',
]


def infer_body(shape, ids, extra=None, datatype="INT64"):
    t = {"name": "input_ids", "shape": shape, "datatype": datatype, "data": ids}
    return json.dumps({"inputs": [t] + (extra or [])}).encode()


# Bodies for /v2/models/minilm/infer that must be refused with 400.
INFERS = [
    b"{}", b'{"inputs":1}', b'{"inputs":[]}', b'{"inputs":[1]}',
    infer_body([1, 2], [1, 2], datatype="FP32"), infer_body([1, 2], [1, 2, 3]),
    infer_body([1, 2], [1]), infer_body([2], [1, 2]), infer_body([1, -2], [1, 2]),
    infer_body([1, 2], ["a", "b"]), infer_body([1, 2], [1, 2.5]), infer_body([0, 2], []),
    infer_body([1, 0], []), infer_body([1 << 62, 1 << 62], [1]),
    infer_body([1, 1 << 40], [1]), infer_body([1, 2], [1, 1 << 40]),
    infer_body([1, 1000], [5] * 1000), infer_body([1, 2], "ab"),
    infer_body([1, 2], [1, 2], [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64",
                                 "data": [1, 2]}]),
    infer_body([1, 2], [1, 2], [{"name": "nothing", "shape": [1, 2], "datatype": "INT64",
                                 "data": [1, 2]}]),
    infer_body([1, 2], [1, 2], [{"name": "attention_mask", "shape": [1, 2],
                                 "datatype": "INT64", "data": [0, 1]}]),
    infer_body([1, 2], [1, 2], [{"name": "attention_mask", "shape": [1, 3],
                                 "datatype": "INT64", "data": [1, 1, 1]}]),
    b'{"inputs":[{"name":"input_ids","shape":[1,2],"datatype":"INT64",'
    b'"parameters":{"binary_data_size":16}}]}',
    b'{"inputs":[{"name":"input_ids","shape":[1,2],"datatype":"INT64","data":[1,2]}],'
    b'"outputs":[{"name":"nothing"}]}',
    b'{"inputs":[{"name":"input_ids","shape":[1,2],"datatype":"INT64","data":[1,2]}],'
    b'"outputs":[{"name":"embedding"},{"name":"embedding"}]}',
    b'{"inputs":[{"name":"input_ids","shape":[1,2],"datatype":"INT64",'
    b'"parameters":{"shared_memory_region":"none","shared_memory_byte_size":16}}]}',
]

servers = {}


def server(engine):
    if engine not in servers:
        slow = slowness()       # clients need that much longer for what is in time
        servers[engine] = Server(minilm("max_tokens = 128\n"), engine=engine, server="""
header_timeout = %dms
body_timeout = %dms
idle_timeout = %dms
max_connections = 200
max_body = 4M
access_log = none
""" % (1000 * slow, 2000 * slow, 5000 * slow)).__enter__()
        servers[engine].limits = slow
    return servers[engine]


def alive(s):
    assert s.get("/healthz")[0] == 200


def each_engine(fn):
    """One test per engine."""
    for engine in ENGINES:
        def one(engine=engine):
            fn(server(engine))
            alive(server(engine))
        one.__name__ = "%s_%s" % (fn.__name__, engine)
        test(one)
    return fn


@each_engine
def malformed_heads(s):
    for data, want in BAD:
        got = status_of(s.raw(data))
        assert got in want, (data[:80], got, want)


@each_engine
def heads_byte_by_byte(s):
    c = s.connect()
    for data in (OK, CLOSE):
        for b in data:
            c.sendall(bytes([b]))
        out = b""
        while b"ok\n" not in out:
            b = c.recv(4096)
            assert b, out
            out += b
    assert c.recv(1) == b""
    c.close()


@each_engine
def truncated_everywhere(s):
    body = b'{"model":"minilm","input":"x"}'
    whole = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
             % len(body)) + body
    for n in range(1, len(whole)):
        assert s.raw(whole[:n], shut=True) == b"", n
    assert status_of(s.raw(whole, shut=True)) == 200


@each_engine
def malformed_bodies(s):
    for body in BODIES:
        st, _, out = s.get("/v1/embeddings", method="POST", body=body)
        assert st in (400, 404), (body[:80], st, out[:200])
        e = json.loads(out)["error"]
        assert e["message"] and e["type"] == "invalid_request_error", e


@each_engine
def malformed_infers(s):
    for body in INFERS:
        st, _, out = s.get("/v2/models/minilm/infer", method="POST", body=body)
        assert st == 400, (body[:200], st, out[:200])
        assert json.loads(out)["error"], out
    st, _, out = s.get("/v2/models/none/infer", method="POST", body=INFERS[0])
    assert st == 404, (st, out)


@each_engine
def malformed_binary(s):
    ids = struct.pack("<4q", 101, 7592, 2088, 102)
    def ask(size, data, length=None, shape=(1, 4)):
        head = json.dumps({"inputs": [{"name": "input_ids", "shape": shape,
                           "datatype": "INT64", "parameters": {"binary_data_size": size}}]
                           }).encode()
        n = len(head) if length is None else length
        return s.get("/v2/models/minilm/infer",
                     {"Inference-Header-Content-Length": str(n)}, "POST", head + data)
    assert ask(32, ids)[0] == 200
    for size, data, length in ((31, ids, None), (33, ids, None), (32, ids[:31], None),
                               (32, ids + b"x", None), (32, ids, 10), (32, ids, 0),
                               (32, ids, 99999), (-1, ids, None), (1 << 62, ids, None),
                               (32, ids, "abc"), (32, ids, "-1"), ("a", ids, None)):
        st, _, out = ask(size, data, length)
        assert st == 400 and json.loads(out)["error"], (size, length, st, out[:200])


@each_engine
def random_bytes(s):
    rng = random.Random(5)
    for i in range(150):
        n = rng.randrange(1, 400)
        data = bytes(rng.randrange(256) for _ in range(n))
        if i % 3 == 0:
            k = rng.randrange(len(OK))
            data = OK[:k] + data + OK[k:]
        s.raw(data + b"\r\n\r\n", shut=True)


@each_engine
def pipelined(s):
    n = 500
    out = s.raw(OK * n + CLOSE)
    assert out.count(b"HTTP/1.1 200 OK") == n + 1 and out.endswith(b"ok\n"), len(out)


@each_engine
def pipelined_by_who_asks_no_more(s):
    """What came whole before the end is answered; what did not ends the connection."""
    body = b'{"model":"minilm","input":"x"}'
    whole = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for one, n in ((OK, 2), (OK, 10), (OK, 500), (OK, 5000), (whole, 40)):
        for rest in (b"", OK[:20], whole[:-1], POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
            out = s.raw(one * n + rest, timeout=60, shut=True)
            assert out.count(b"HTTP/1.1 200 OK") == n, (one[:9], n, rest, out.count(b"200 OK"))


@each_engine
def pipelined_posts_in_order(s):
    data, texts = b"", ["a b c", "d", "e f", "g h i j k", "l"] * 8
    for i, t in enumerate(texts):
        body = json.dumps({"model": "minilm", "input": t}).encode()
        data += (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r%d\r\n"
                 b"Content-Length: %d\r\n\r\n" % (i, len(body))) + body
    out = s.raw(data + CLOSE, timeout=60)
    ids = [line.split(b": ")[1].strip() for line in out.split(b"\r\n")
           if line.lower().startswith(b"x-request-id: r")]
    assert ids == [b"r%d" % i for i in range(len(texts))], ids[:5]
    assert out.count(b"HTTP/1.1 200 OK") == len(texts) + 1


@each_engine
def chunked(s):
    body = json.dumps({"model": "minilm", "input": "some words here"}).encode()
    want = json.loads(s.get("/v1/embeddings", method="POST", body=body)[2])["data"]
    for step in (1, 2, 7, 1000):
        data = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(body[i:i + step]), body[i:i + step])
                        for i in range(0, len(body), step))
        out = s.raw(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n" + data +
                    b"0\r\nTrailer: x\r\n\r\n" + CLOSE)
        head, rest = out.split(b"\r\n\r\n", 1)
        assert status_of(out) == 200 and rest.endswith(b"ok\n"), out[:300]
        got = json.JSONDecoder().raw_decode(rest.decode())[0]["data"]
        assert got == want
    # A body in chunks that is too large, and one that is nothing but overhead.
    big = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(s.raw(head + big * 100)) == 413
    tiny = b"1;" + b"e" * 500 + b"\r\nx\r\n"
    assert status_of(s.raw(head + tiny * 5000)) in (400, 413)


@each_engine
def expect_continue(s):
    body = b'{"model":"minilm","input":"x"}'
    c = s.connect()
    c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
              b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
    assert c.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    c.sendall(body)
    out = read_all(c)
    assert status_of(out) == 200, out[:200]
    c.close()
    # Told no before the body, not after.
    c = s.connect()
    c.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
              b"Content-Length: 1000\r\n\r\n")
    assert status_of(c.recv(1000)) == 404
    c.close()


@each_engine
def http_1_0(s):
    """Staying is asked for and told; there are no interim replies to wait for."""
    stay = OK.replace(b"1.1", b"1.0")[:-2] + b"Connection: keep-alive\r\n\r\n"
    out = s.raw(stay * 2 + OK.replace(b"1.1", b"1.0"))
    assert out.count(b"\r\nConnection: keep-alive\r\n") == 2, out
    assert out.count(b"200 OK") == 3 and out.count(b"\r\nConnection: close\r\n") == 1, out
    assert b"Connection:" not in s.raw(OK + CLOSE).split(b"\r\n\r\n")[0]
    body = b'{"model":"minilm","input":"x"}'
    for expect in (b"100-continue", b"more"):
        c = s.connect()
        c.sendall(POST.replace(b"1.1", b"1.0") + b"Expect: %s\r\nContent-Length: %d\r\n\r\n"
                  % (expect, len(body)))
        time.sleep(0.1)
        c.sendall(body)
        out = read_all(c)
        assert out.startswith(b"HTTP/1.1 200 "), (expect, out[:200])
        c.close()


@each_engine
def head_and_keep_alive(s):
    out = s.raw(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + CLOSE)
    assert out.count(b"HTTP/1.1 200 OK") == 2 and out.count(b"ok\n") == 1, out
    assert b"Content-Length: 3" in out.split(b"\r\n\r\n")[0]
    out = s.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert status_of(out) == 200 and b"Connection: close" in out
    out = s.raw(b"HEAD /nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_of(out) == 404 and out.endswith(b"\r\n\r\n")
    assert status_of(s.raw(b"\r\n\r\n" + CLOSE)) == 200


@each_engine
def slow_loris(s):
    """150 connections that trickle; a good one is served meanwhile, then they end."""
    slow = [s.connect() for _ in range(150)]
    begin = time.monotonic()
    for i, c in enumerate(slow):
        c.sendall(OK[:10] if i % 2 else
                  POST + b"Content-Length: 100\r\n\r\n{")
    alive(s)
    assert within(begin, 5)
    trickle(slow, b"a", begin + 4 * s.limits)


@each_engine
def idle_is_closed(s):
    c = s.connect(20 * s.limits)
    c.sendall(OK)
    assert c.recv(4096)
    begin = time.monotonic()
    assert c.recv(1) == b""
    assert time.monotonic() - begin > 3 * s.limits
    assert within(begin, 4 + 5 * s.limits)
    c.close()


@each_engine
def flood_of_connections(s):
    """More than max_connections: the surplus is told so, then all works again."""
    many = [socket.create_connection(("127.0.0.1", s.port), timeout=10 * s.limits)
            for _ in range(260)]
    # Those it took end by header_timeout.
    refused = sum(status_of(read_all(c)) == 503 for c in many)
    assert refused >= 40, refused
    for c in many:
        c.close()
    wait_for(lambda: s.raw(CLOSE).startswith(b"HTTP/1.1 200"))


@each_engine
def large_bodies(s):
    """Just within max_body, in one piece and in many; and one byte too many."""
    pad = 4 << 20
    body = b'{"model":"minilm","input":"hello","user":"'
    body += b"x" * (pad - len(body) - 2) + b'"}'
    for step in (len(body), 100000):
        c = s.connect(60)
        c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        for i in range(0, len(body), step):
            c.sendall(body[i:i + step])
        out = read_all(c)
        assert status_of(out) == 200, out[:300]
        c.close()
    assert s.get("/v1/embeddings", method="POST", body=body + b" ")[0] == 413
    assert s.metric("rlxd_memory_bytes") == 0


@each_engine
def vanishing_clients(s):
    """Connections that end anywhere in a request or before its reply."""
    body = json.dumps({"model": "minilm", "input": ["word " * 20] * 8}).encode()
    whole = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
             % len(body)) + body
    rng = random.Random(7)
    for i in range(60):
        c = s.connect()
        n = len(whole) if i % 2 else rng.randrange(len(whole))
        c.sendall(whole[:n])
        if i % 3 == 0:
            reset(c)
        else:
            c.close()
    wait_for(lambda: s.metric("rlxd_connections") <= 1, 120)
    wait_for(lambda: s.metric('rlxd_model_queue_rows{model="minilm"}') == 0, 120)


@each_engine
def never_reading_client(s):
    """Replies that nobody takes do not hold up others."""
    c = s.connect()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.settimeout(2)
    data = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
    try:
        c.sendall(data * 20)
    except OSError:
        pass
    alive(s)
    c.close()


@each_engine
def pipelining_clients_that_never_read(s):
    """What waits behind replies that nobody takes leaves room for what others ask."""
    data = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400
    socks = [s.connect() for _ in range(100)]
    for c in socks:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        c.setblocking(False)
    begin = last = time.monotonic()
    # Until no more is taken of any of them.
    while time.monotonic() - last < 1 and within(begin, 20):
        for c in socks:
            try:
                c.send(data)
                last = time.monotonic()
            except OSError:
                pass
        time.sleep(0.02)
    for _ in range(3):
        out = s.raw(CLOSE, timeout=10)
        assert status_of(out) == 200, out
    for c in socks:
        reset(c)


# A process of its own, so as not to take turns with who measures: on each connection as much as
# the server takes, and all replies are read; argv: port, connections.
PIPELINE = """
import select, socket, sys
data, left = b"GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" * 500, {}
while True:
    while len(left) < int(sys.argv[2]):
        c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        c.setblocking(False)
        left[c] = b""
    for c in sum(select.select(left, left, [])[:2], []):
        try:
            left[c] = left.get(c) or data
            left[c] = left[c][c.send(left[c]):]
        except BlockingIOError:
            pass
        except OSError:
            del left[c]
            continue
        try:
            if not c.recv(1 << 20):
                del left[c]
        except BlockingIOError:
            pass
        except OSError:
            del left[c]
"""


def answered(reply):
    assert reply[0] == 200, reply


@test
def beside_clients_that_pipeline():
    """Who asks one thing is not kept waiting for a place to be received in."""
    relu = "[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")
    row = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}
    for engine in ENGINES:
        with Server(relu, engine=engine, server="threads = 1\nmax_connections = 8192\n") as s:
            limit = Beside(lambda: answered(s.post("/v2/models/relu/infer", row)))
            flood = subprocess.Popen([sys.executable, "-c", PIPELINE, str(s.port), "64"])
            try:
                wait_for(lambda: s.metric("rlxd_connections") > 64)
                end = time.monotonic() + 5
                while time.monotonic() < end:
                    limit.ask()
                assert flood.poll() is None
            finally:
                flood.kill()
                flood.wait()
            # It is in line behind one short request of each, some times over. The third worst:
            # once or twice in so many the machine itself may have been elsewhere.
            times, told = limit.times()
            print("# %s: %s, third alone %.3f s" % (engine, told, times[-3]))
            assert times[-3] <= 0.1, (engine, times[-5:], told)


WORD = (1 << 64) - 1


def fold(a, b):
    return (a * b & WORD) ^ (a * b >> 64)


def hash_bytes(data, seed):
    """rlx_hash_bytes()."""
    h = seed ^ 0x9e3779b97f4a7c15
    whole = len(data) // 8 * 8
    for w, in struct.iter_unpack("<Q", data[:whole]):
        h = fold(h ^ w, 0xa0761d6478bd642f)
    h = fold(h ^ int.from_bytes(data[whole:], "little"), 0xe7037ed1a0b428db)
    return fold(h ^ len(data), 0x8ebc6af09c88c6e3)


def sizes_of_one_hash(m):
    """
    For the next m that has one, an l: hashed input by input, a of [1, m] and b of [1, 0, l]
    have one hash, since with that l a factor of it is 0.
    """
    while True:
        h = hash_bytes(b"a", 1)
        h = hash_bytes(struct.pack("<2q", 1, m), h)
        h = hash_bytes(b"b", h + 1 & WORD) ^ 0x9e3779b97f4a7c15
        for w in (1, 0):
            h = fold(h ^ w, 0xa0761d6478bd642f)
        if h < 1 << 58:
            return m, h
        m += 1


@test
def sizes_whose_hash_is_the_same():
    """A program is used for the sizes that it was made for, whatever hash others have."""
    model = "[model pair]\npath = %s/serve/pair.onnx\nbatch = yes\nmax_batch = 8\n"
    with Server(model % os.path.abspath(BUILD)) as s:
        for m, k in map(sizes_of_one_hash, (4, 4, 100000, 50000, 4)):
            x = [float(i % 5) - 1 for i in range(8 * m)]
            head = json.dumps({"inputs": [
                {"name": "a", "datatype": "FP32", "shape": [8, m],
                 "parameters": {"binary_data_size": 32 * m}},
                {"name": "b", "datatype": "FP32", "shape": [8, 0, k],
                 "parameters": {"binary_data_size": 0}}],
                "parameters": {"binary_data_output": True}}).encode()
            st, h, out = s.get("/v2/models/pair/infer", {
                "Inference-Header-Content-Length": str(len(head))}, "POST",
                head + struct.pack("<%df" % len(x), *x))
            assert st == 200, (m, k, out)
            out = out[int(h["Inference-Header-Content-Length"]):]
            assert out == struct.pack("<%df" % len(x), *(max(v, 0) for v in x)), (m, k)


def same(x, y):
    """To the bit on CPUs. On a GPU larger batches are other kernels, which sum otherwise."""
    return x == y if not DEVICE else max(abs(a - b) for a, b in zip(x, y)) < 1e-5


@each_engine
def many_at_once(s):
    """Fuzzed and good requests side by side: each good one has the right answer."""
    want = s.embed("the quick brown fox")[0]
    bad = []

    def good():
        for _ in range(15):
            try:
                if not same(s.embed("the quick brown fox")[0], want):
                    bad.append("another vector")
            except BaseException as e:
                bad.append(repr(e))

    def ugly(seed):
        rng = random.Random(seed)
        for _ in range(40):
            data, _ = rng.choice(BAD)
            try:
                s.raw(data[:rng.randrange(1, len(data) + 1)], shut=True, timeout=20)
            except OSError:
                pass
    threads = [threading.Thread(target=good) for _ in range(4)]
    threads += [threading.Thread(target=ugly, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad, bad[:3]


def unsent(sock):
    """Bytes that the peer's socket has not taken."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4))[0]


@test
def drain_answers_what_was_pipelined():
    """What was received when it began, and of that what is in the socket yet, too: all of it is
    there, as none waits on the client's side any more."""
    body = json.dumps({"model": "minilm", "input": ["word " * 60] * 40}).encode()
    slow = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    live = OK.replace(b"healthz", b"livez")
    for engine in ENGINES:
        for one, n in ((slow, 3), (live, 3), (live, 2000)):
            with Server(minilm(), engine=engine, server="idle_timeout = 10min\n") as s:
                c = s.connect(60)
                c.sendall(slow + one * n)
                wait_for(lambda: s.metric('rlxd_model_queue_rows{model="minilm"}') > 0)
                wait_for(lambda: not unsent(c))
                s.signal(signal.SIGTERM)
                s.wait_log("event=draining")
                out = read_all(c)
                c.close()
                assert out.count(b"HTTP/1.1 200 OK") == n + 1, (engine, n, out.count(b"200 OK"))
                assert out.count(b"Connection: close") == 1, engine


@test
def drain_ends_who_goes_on_asking():
    def ask_on(c):
        try:
            while True:
                c.sendall(OK * 20)
        except OSError:
            pass
    for engine in ENGINES:
        with Server(minilm(), engine=engine, server="drain_timeout = 10min\n") as s:
            c = s.connect()
            threads = [threading.Thread(target=fn, args=(c,)) for fn in (ask_on, read_all)]
            for t in threads:
                t.start()
            wait_for(lambda: s.metric("rlxd_sent_bytes_total") > 10000)
            s.signal(signal.SIGTERM)
            assert s.ended() == 0 and "event=drained" in s.log(), s.log()
            for t in threads:
                t.join()
            c.close()


@test
def servers_end_well():
    for engine in list(servers):
        servers.pop(engine).__exit__(None, None, None)


main()
