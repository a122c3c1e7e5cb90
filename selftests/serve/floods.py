# SPDX-License-Identifier: MIT
"""A request of one row beside one client's flood: of handshakes, of requests, of new keys."""
import http.client
import json
import os
import subprocess
import sys
import time

from rlxd import BUILD, ENGINES, SANITIZED, Beside, main, test
from tls_server import AUTH, SECRET, TlsServer

RELU = "[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")
ROW = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})
# By a thousand connections and what they do, at most.
GROWN = 128 << 20
ASK = "/v2/models/relu/infer"

# A process of its own, so as not to take turns with who measures; argv: what, port, connections,
# secret. On each connection it sends as much as the server takes and reads what comes; one that
# ends is followed by another.
FLOOD = """
import select, socket, ssl, sys, threading
what, port, n, secret = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
row = sys.argv[5].encode()
key = b"Authorization: Bearer %s\\r\\n" % secret.encode()
health = b"GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" * 500
rows = (b"POST /v2/models/relu/infer HTTP/1.1\\r\\nHost: localhost\\r\\n" + key +
        b"Content-Length: %d\\r\\n\\r\\n" % len(row) + row) * 200
ctx = ssl.create_default_context()
ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE

def hello():
    out = ssl.MemoryBIO()
    try:
        ctx.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()

data = {"hello": hello(), "rows": rows}.get(what, health)
later = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
poll, by = select.epoll(), {}

def begin():
    c = socket.create_connection(("127.0.0.1", port))
    if what == "by_tls":
        c = ctx.wrap_socket(c, server_hostname="localhost")
    c.setblocking(False)
    poll.register(c.fileno(), select.EPOLLIN | select.EPOLLOUT)
    by[c.fileno()] = [c, b""]

def end(c):
    poll.unregister(c.fileno())
    del by[c.fileno()]
    c.close()

def send(e):
    e[1] = e[1] or data
    e[1] = e[1][e[0].send(e[1]):]
    # One is enough where the answer is what costs.
    if what == "hello" and not e[1]:
        poll.modify(e[0].fileno(), select.EPOLLIN)

def receive(e):
    if not e[0].recv(1 << 20) or what == "hello":
        end(e[0])

def shake():
    while True:
        try:
            c = socket.create_connection(("127.0.0.1", port))
            ctx.wrap_socket(c, server_hostname="localhost").close()
        except OSError:
            pass

for _ in range(n if what == "shake" else 0):
    threading.Thread(target=shake).start()

while what != "shake":
    while len(by) < n:
        try:
            begin()
        except OSError:
            pass
    for fd, events in poll.poll(1, 256):
        for event, fn in ((select.EPOLLOUT, send), (~select.EPOLLOUT, receive)):
            try:
                if events & event and fd in by:
                    fn(by[fd])
            except later:
                pass
            except OSError:
                end(by[fd][0])
"""


def flood(what, port, n):
    return subprocess.Popen([sys.executable, "-c", FLOOD, what, str(port), str(n), SECRET, ROW])


# The command asks for new keys wherever a line says "K".
NEW_KEYS = "while :; do yes K | openssl s_client -connect 127.0.0.1:%d >/dev/null 2>&1; done"


def new_keys(port):
    return subprocess.Popen(["sh", "-c", NEW_KEYS % port], start_new_session=True)


def one_row(s):
    """Of a connection of its own, without TLS."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=600)
    try:
        c.request("POST", ASK, body=ROW, headers=AUTH)
        st = c.getresponse().status
        assert st == 200, st
    finally:
        c.close()


def resident(s, key):
    with open("/proc/%d/status" % s.proc.pid) as f:
        return next(int(ln.split()[1]) << 10 for ln in f if ln.startswith(key + ":"))


def beside(what, start, seconds=3):
    """@start(server) floods: the worst of all may take half a second, the third a fifth of it."""
    for engine in ENGINES:
        with TlsServer(RELU, engine=engine, server="threads = 1\nmax_connections = 8192\n") as s:
            limit = Beside(lambda: one_row(s), 20)
            base, n = resident(s, "VmRSS"), 0
            procs = start(s)
            try:
                time.sleep(1.5)
                end = time.monotonic() + seconds
                while time.monotonic() < end or n < 5:
                    limit.ask()
                    n += 1
                assert all(p.poll() is None for p in procs), "the flood ended"
            finally:
                for p in procs:
                    end_all(p)
            grown = resident(s, "VmHWM") - base
            times, told = limit.times()
            print("# %s, %s: %s, alone %.3f s, third %.3f s, %d MB" % (
                what, engine, told, times[-1], times[-3], grown >> 20))
            bound = 0.5 * (4 if SANITIZED else 1)
            assert times[-1] <= bound, (engine, times[-5:], told)
            # Once or twice the machine itself may have been elsewhere.
            assert times[-3] <= bound / 5, (engine, times[-5:], told)
            assert SANITIZED or grown <= GROWN, grown


def end_all(p):
    """With what a shell began."""
    if os.getpgid(p.pid) == p.pid:
        os.killpg(p.pid, 9)
    else:
        p.kill()
    p.wait()


@test
def handshakes():
    """Done by workers where there are many, in turn between addresses."""
    beside("shake", lambda s: [flood("shake", s.tls_port, 200)])


@test
def handshakes_that_stop():
    """A signature for each greeting, whose sender does nothing."""
    beside("hello", lambda s: [flood("hello", s.tls_port, 1000)])


@test
def requests_by_tls():
    """One of each connection in a turn, whatever has been received already."""
    beside("by tls", lambda s: [flood("by_tls", s.tls_port, 200)])


@test
def new_keys_without_end():
    """A connection that wants nothing but new keys, or to be agreed on anew, is closed."""
    beside("new keys", lambda s: [new_keys(s.tls_port) for _ in range(4)])


@test
def requests_that_are_pipelined():
    """Connections that end take no room from those that ask."""
    beside("health", lambda s: [flood("health", s.port, 400)])


@test
def rows_that_are_pipelined():
    """Likewise, and one that comes is taken and heard with all others, not behind them."""
    beside("rows", lambda s: [flood("rows", s.port, 1000)])


if __name__ == "__main__":
    main()
