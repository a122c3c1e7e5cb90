# SPDX-License-Identifier: MIT
"""Ten thousand exchanges with clients that send what nobody should, end where they like and
read or do not: each is answered rightly or not at all, in time, and nothing is left behind.

RLX_TEST_SEED draws the same again, RLX_EXCHANGES says how many."""
import json
import os
import random
import socket
import struct
import tempfile
import threading
import time

from mutate import mutate
from rlxd import (BUILD, ENGINES, SANITIZED, Server, main, minilm, reset, slowness, test,
                  wait_for)

SEED = int(os.environ.get("RLX_TEST_SEED") or time.time_ns() % 1000000007)
EXCHANGES = int(os.environ.get("RLX_EXCHANGES", "10000")) // len(ENGINES)
THREADS = 8
LIMIT = 60      # seconds that no reply may take, nor the end of a connection

# A reply to nonsense says whose fault it was: never 500.
STATUS = {200, 400, 401, 403, 404, 405, 408, 409, 411, 413, 414, 415, 417, 422, 429, 431, 501,
          503, 504, 505}


def post(path, body, head=b""):
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"
            % (path, len(body), head)) + body


def binary(values):
    head = json.dumps({"inputs": [{"name": "x", "shape": [1, values], "datatype": "FP32",
                       "parameters": {"binary_data_size": 4 * values}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return post(b"/v2/models/relu/infer", head + struct.pack("<f", -1.5) * values,
                b"Inference-Header-Content-Length: %d\r\n" % len(head))


def chunked(path, body, step):
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path +
            b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + step]), body[i:i + step])
                     for i in range(0, len(body), step)) + b"0\r\n\r\n")


EMBED = b'{"model":"minilm","input":["hello","world"],"encoding_format":"base64"}'
IDS = b'{"model":"minilm","input":[[101,7592,102]]}'
INFER = (b'{"id":"a","inputs":[{"name":"x","shape":[2,3],"datatype":"FP32",'
         b'"data":[1,-2,3.5,-4e1,5,null]}],"outputs":[{"name":"y","parameters":'
         b'{"binary_data":true}}]}').replace(b"null", b"6")
ENCODE = (b'{"inputs":[{"name":"input_ids","shape":[1,4],"datatype":"INT64",'
          b'"data":[101,7592,2088,102]}]}')
REGION = b'{"key":"/rlxd-no-such-memory","offset":0,"byte_size":4096}'
SHARED = (b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":'
          b'{"shared_memory_region":"r","shared_memory_byte_size":16}}]}')

GOOD = [
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/models HTTP/1.0\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\ntraceparent: 00-" + b"1" * 32 + b"-" + b"2" * 16 +
    b"-01\r\nX-Request-Id: abc\r\n\r\n",
    b"GET /v2/models/relu/versions/1/ready HTTP/1.1\r\nHost: x\r\n\r\n",
    post(b"/v1/embeddings", EMBED), post(b"/v1/embeddings", IDS, b"Expect: 100-continue\r\n"),
    post(b"/v2/models/relu/infer", INFER), post(b"/v2/models/minilm/infer", ENCODE),
    post(b"/v2/repository/index", b"{}", b"Connection: close\r\n"),
    post(b"/v2/systemsharedmemory/region/r/register", REGION),
    post(b"/v2/systemsharedmemory/unregister", b""), post(b"/v2/models/relu/infer", SHARED),
    binary(4), binary(1000), binary(20000),
    chunked(b"/v1/embeddings", EMBED, 7), chunked(b"/v2/models/relu/infer", INFER, 100),
]

def requests(rng):
    """One or several behind each other; and is it one, as it should be?"""
    out, n, good = b"", rng.choice((1, 1, 1, 1, 2, 5)), 0
    for _ in range(n):
        data = rng.choice(GOOD)
        is_good = rng.randrange(10) == 0
        out += data if is_good else mutate(rng, data, GOOD)
        good += is_good
    return out, n == good == 1


def check_replies(out, sent):
    """Whole replies of HTTP, up to the end or to where one to HEAD has no body."""
    n = 0
    while out:
        head, sep, rest = out.partition(b"\r\n\r\n")
        assert sep and head.startswith(b"HTTP/1.1 "), (sent[:300], out[:300])
        status = int(head[9:12])
        if status == 100:
            out = rest
            continue
        assert status in STATUS, (status, sent[:2000], out[:600])
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields[b"content-length"])
        no_body = b"HEAD" in sent and (not rest or rest.startswith(b"HTTP/1.1 "))
        assert no_body or len(rest) >= size, (status, size, len(rest), sent[:300], head)
        body, out = (b"", rest) if no_body else (rest[:size], rest[size:])
        if status >= 400 and body and fields.get(b"content-type") == b"application/json":
            assert json.loads(body)["error"], body
        n += 1
    return n


def read_until_end(c):
    out = b""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            b = c.recv(1 << 16)
        except ConnectionError:
            return out, True
        if not b:
            return out, False
        out += b
    raise AssertionError("a connection that does not end: %r" % out[-200:])


def exchange(s, rng):
    """One connection; how many whole replies came."""
    c = socket.socket(rng.choice((socket.AF_INET, socket.AF_UNIX)))
    c.settimeout(LIMIT)
    try:
        c.connect(s.unix if c.family == socket.AF_UNIX else ("127.0.0.1", s.port))
        data, is_good = requests(rng)
        way = rng.randrange(20)
        if way < 2:                     # ends in the middle, with or without a reset
            c.sendall(data[:rng.randrange(len(data) + 1)])
            if way:
                reset(c)
            return 0
        if way < 4:                     # has no time for the reply
            c.sendall(data)
            if way == 2:
                reset(c)
            return 0
        if way == 4:                    # never reads
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.setblocking(False)
            try:
                c.send(data * 20)
            except BlockingIOError:
                pass
            return 0
        if way < 7:                     # in pieces, each of its own packet
            c.setblocking(True)
            at = 0
            while at < len(data):
                n = rng.randrange(1, 1 + max(2, len(data) // 5))
                c.sendall(data[at:at + n])
                at += n
        else:
            c.sendall(data)
        if way < 19:
            c.shutdown(socket.SHUT_WR)
        # Else the server has to end it, by one of its limits.
        out, was_reset = read_until_end(c)
        n = 0 if was_reset else check_replies(out, data)
        assert n == 1 or not is_good, (n, was_reset, data[:300], out[:300])
        return n
    except ConnectionError:
        return 0                        # it closed while we were sending
    finally:
        c.close()


def heap(s):
    """Without the loops' chunks, which are shared memory and fill as they are needed."""
    with open("/proc/%d/status" % s.proc.pid) as f:
        return int(f.read().split("RssAnon:")[1].split()[0]) << 10


def sockets(s):
    n = 0
    for fd in os.listdir("/proc/%d/fd" % s.proc.pid):
        try:
            n += os.readlink("/proc/%d/fd/%s" % (s.proc.pid, fd)).startswith("socket:")
        except FileNotFoundError:
            pass
    return n


def settle(s):
    """Nothing is under way any more."""
    wait_for(lambda: s.metric("rlxd_connections") <= 1, LIMIT)
    for m in ("minilm", "relu"):
        wait_for(lambda: s.metric('rlxd_model_queue_rows{model="%s"}' % m) == 0, LIMIT)
    wait_for(lambda: s.metric("rlxd_memory_bytes") == 0, LIMIT)


def attack(s, n, seed):
    """@n exchanges by several threads; whole replies that came."""
    bad, replies, lock = [], [0], threading.Lock()

    def run(k):
        rng = random.Random(seed * 1000 + k)
        try:
            for _ in range(n // THREADS):
                got = exchange(s, rng)
                with lock:
                    replies[0] += got
                if bad:
                    return
        except BaseException as e:
            bad.append(e)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if bad:
        raise bad[0]
    return replies[0]


def exchanges(engine):
    relu = "[model relu]\nmax_shapes = 2\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")
    path = "%s/rlxd-exchanges-%d.sock" % (tempfile.gettempdir(), os.getpid())
    # Clients need that much longer for what is in time; who is answered has nothing to do.
    slow = slowness()
    with Server(minilm("max_tokens = 64\n") + relu, engine=engine,
                listen="127.0.0.1:0 unix:" + path, env={"MALLOC_ARENA_MAX": "1"}, server="""
header_timeout = %dms
body_timeout = %dms
idle_timeout = 500ms
send_timeout = %dms
max_body = 1M
max_header = 4K
shared_memory = unix
access_log = none
log_level = notice
""" % (500 * slow, 500 * slow, 1000 * slow)) as s:
        s.unix = path
        want = s.embed("the quick brown fox")
        # What it takes to serve anything is there after the first part.
        replies = attack(s, EXCHANGES // 5, SEED)
        settle(s)
        was, fds = heap(s), sockets(s)
        for part in range(1, 5):
            replies += attack(s, EXCHANGES // 5, SEED + part)
            assert s.embed("the quick brown fox") == want
        settle(s)
        grown = heap(s) - was
        print("# %s: %d exchanges, %d whole replies, %d KiB more in the end, seed %d"
              % (engine, EXCHANGES, replies, grown >> 10, SEED))
        assert replies > EXCHANGES // 3
        wait_for(lambda: sockets(s) <= fds, LIMIT)
        assert SANITIZED or grown < 768 << 10, "%d bytes more" % grown
        assert not [ln for ln in s.lines if "level=error" in ln and "reply lost" not in ln]


for engine in ENGINES:
    def one(engine=engine):
        exchanges(engine)
    one.__name__ = "exchanges_" + engine
    test(one)

main()
