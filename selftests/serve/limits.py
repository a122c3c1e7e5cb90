# SPDX-License-Identifier: MIT
"""What one client can cost the others: its work, its memory, its absence; a log unread."""
import json
import socket
import subprocess
import tempfile
import threading
import time

from rlxd import ENGINES, RLXD, Server, main, minilm, reset, status_of, test, wait_for

RAN = 'rlxd_model_rows_total{model="minilm",result="ok"}'
CANCELLED = 'rlxd_model_rows_total{model="minilm",result="cancelled"}'
BATCH = 8
WAITING = 'rlxd_model_queue_rows{model="minilm"}'


def post(body, version=b"1.1", path=b"/v1/embeddings"):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return (b"POST %s HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (path, version, len(body))) + body


def embed(texts, **more):
    return post({"model": "minilm", "input": texts}, **more)


def each_engine(fn):
    """One test per engine, with a server of its own."""
    for engine in ENGINES:
        def one(engine=engine):
            with Server(minilm("max_batch = %d\nmax_queue = 8192\n" % BATCH), engine=engine,
                        server="threads = 1\n") as s:
                fn(s)
        one.__name__ = "%s_%s" % (fn.__name__, engine)
        test(one)
    return fn


def one_row(s):
    begin = time.monotonic()
    s.embed("hello")
    return time.monotonic() - begin


def allowed(s):
    """
    How long a request of one row may take beside others: half a second where one alone
    takes no more than a sixtieth of that, else as much longer as it does.
    """
    alone = sorted(one_row(s) for _ in range(15))[7]
    return max(0.5, 60 * alone)


def worst_beside(s, n=8):
    """The longest of so many requests of one row, while rows of others wait."""
    worst = max(one_row(s) for _ in range(n))
    assert s.metric(WAITING) > 0, "nothing was beside it"
    return worst


LONG = ["hello world %d " % i * 20 for i in range(2048)]


@each_engine
def one_row_beside_a_batch_of_the_same_address(s):
    """Connections of one client take turns, and no run is longer than others can wait."""
    limit = allowed(s)
    c = s.connect(600)
    c.sendall(embed(LONG))
    wait_for(lambda: s.metric(WAITING) > 1000, 60)
    worst = worst_beside(s)
    assert worst <= limit, "%.3f s of %.3f s" % (worst, limit)
    reset(c)


@each_engine
def one_row_beside_many_batches(s):
    """Likewise where requests are large and many, so that reading them takes long."""
    limit = allowed(s)
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
    assert worst <= limit, "%.3f s of %.3f s" % (worst, limit)


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
            ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + b"x" * 64 + b"\r\n\r\n"
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
