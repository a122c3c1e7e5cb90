# SPDX-License-Identifier: MIT
"""Replies of all sizes over every kind of socket; those that are lost are told and counted."""
import json
import os
import random
import socket
import struct
import tempfile

from rlxd import BUILD, ENGINES, Server, main, read_all, reset, status_of, test, wait_for

RELU = "[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")


def server(engine, extra=""):
    path = "%s/rlxd-replies-%d.sock" % (tempfile.gettempdir(), os.getpid())
    s = Server(RELU, engine=engine, server=extra, listen="127.0.0.1:0 unix:" + path)
    s.path = path
    return s


def connect(s, family):
    if family == "tcp":
        return s.connect(30)
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(30 * s.slow)
    c.connect(s.path)
    return c


def ask(values, keep=False):
    """A request whose reply has as many floats, behind its head and some JSON."""
    head = json.dumps({"inputs": [{"name": "x", "shape": [1, values], "datatype": "FP32",
                       "parameters": {"binary_data_size": 4 * values}}],
                       "parameters": {"binary_data_output": True}}).encode()
    head += b" " * (-len(head) % 8)
    return (b"POST /v2/models/relu/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
            b"Inference-Header-Content-Length: %d\r\n%s\r\n"
            % (len(head) + 4 * values, len(head), b"" if keep else b"Connection: close\r\n")
            + head + struct.pack("<f", 1.5) * values)


def lost(s, by):
    return s.metric('rlxd_replies_lost_total{by="%s"}' % by)


@test
def every_size_over_every_socket():
    rng = random.Random(12)
    sizes = [1, 16000, 16384, 65536, 1 << 19] + [rng.randrange(1, 1 << rng.randrange(4, 20))
                                                 for _ in range(12)]
    for engine in ENGINES:
        with server(engine) as s:
            for family in ("tcp", "unix"):
                for n in sizes:
                    c = connect(s, family)
                    c.sendall(ask(n))
                    out = read_all(c)
                    c.close()
                    assert status_of(out) == 200, (engine, family, n, out[:200])
                    assert out.endswith(struct.pack("<f", 1.5) * n), (engine, family, n, len(out))
            assert not lost(s, "error") and not lost(s, "peer")
            assert "reply lost" not in s.log()


@test
def lost_replies_are_told():
    """Of peers that reset, and of peers that take nothing; of either kind of socket."""
    for engine in ENGINES:
        with server(engine, "send_timeout = 500ms\naccess_log = none\n") as s:
            for family in ("tcp", "unix"):
                for end in (reset, None):
                    before = lost(s, "peer")
                    c = connect(s, family)
                    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    c.sendall(ask(1 << 22, keep=True))
                    assert status_of(c.recv(16)) == 200    # it is being sent
                    if end:
                        end(c)
                    wait_for(lambda: lost(s, "peer") == before + 1)
                    c.close()
            assert not lost(s, "error")
            assert s.log().count('event="reply lost"') == 4, s.log()
            assert "status=200" in s.log()


main()
