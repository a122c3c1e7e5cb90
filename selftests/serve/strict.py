# SPDX-License-Identifier: MIT
"""What is refused, or done to the letter: pages of browsers, names, versions, wishes."""
import json
import os
import signal
import socket
import struct
import tempfile
import threading
import time

from rlxd import (BUILD, ENGINES, MINILM, RLXD, Server, activated, main, minilm, read_all,
                  status_of, test, wait_for)

VISION_PATH = os.path.abspath(BUILD + "/serve/vision.onnx")
VISION = "[model vision]\npath = %s\n" % VISION_PATH
JSON = {"Content-Type": "application/json"}


def ask(s, path="/v2/models/vision", method="GET", body=None, **headers):
    return s.get(path, {k.replace("_", "-"): v for k, v in headers.items()}, method, body)


@test
def names_that_a_page_may_have_for_us():
    """DNS rebinding: a name of the page's own, made to mean this machine."""
    with Server(VISION, server="hosts = rlxd.example\n") as s:
        for host in ("localhost", "localhost:%d" % s.port, "LOCALHOST:1", "127.0.0.1", "[::1]:8000",
                     "192.0.2.7:80", "localhost.", "a.localhost", "rlxd.example",
                     "Rlxd.Example:8000", "rlxd.example."):
            for path in ("/v2/models/vision", "/v1/models", "/metrics", "/healthz", "/v2"):
                st, _, out = ask(s, path, Host=host)
                assert st == 200, (host, path, st, out)
        for host in ("evil.example", "evil.example:%d" % s.port, "localhost.evil.example",
                     "127.0.0.1.evil.example", "xlocalhost", "rlxd.example.evil", "127.0.0.1x",
                     "0x7f000001", "2130706433", "x", ".", "[::1", "[evil]", "a" * 1000):
            for path in ("/v2/models/vision", "/v1/models", "/metrics"):
                st, _, out = ask(s, path, Host=host)
                assert st == 403 and b"hosts in rlxd.conf" in out, (host, path, st, out)
            assert ask(s, "/v2/repository/index", "POST", Host=host)[0] == 403
            # A probe may have any name for us.
            for path in ("/healthz", "/livez", "/v2/health/ready", "/v2"):
                assert ask(s, path, Host=host)[0] == 200, (host, path)
        # The host of an absolute target is what counts, whatever Host says.
        for target, host, want in ((b"localhost", b"evil.example", 200),
                                   (b"evil.example", b"localhost", 403)):
            out = s.raw(b"GET %s%s/v2/models/vision HTTP/1.1\r\nHost: %s\r\n"
                        b"Connection: close\r\n\r\n" % (b"http" b"://", target, host))
            assert status_of(out) == want, out
        # A reload changes them.
        s.head = s.head.replace("rlxd.example", "*")
        s.write(VISION)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded")
        assert ask(s, Host="evil.example")[0] == 200


@test
def names_do_not_matter_to_who_shows_a_key():
    d = os.path.dirname
    with Server(VISION) as s:
        key = d(s.conf) + "/key"
        with open(key, "w") as f:
            f.write("secret-0123456789")
        os.chmod(key, 0o600)
        s.write(VISION + "[key k]\nsecret_file = %s\n" % key)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded")
        assert ask(s, Host="api.example", Authorization="Bearer secret-0123456789")[0] == 200
        assert ask(s, Host="api.example")[0] == 401
        assert ask(s, "/metrics", Host="api.example")[0] == 403
        assert ask(s, "/metrics", Host="localhost")[0] == 200


@test
def names_on_a_unix_socket():
    with Server(VISION, listen="127.0.0.1:0 unix:%s" % "/tmp/rlxd-strict-%d" % os.getpid()) as s:
        c = socket.socket(socket.AF_UNIX)
        c.connect("/tmp/rlxd-strict-%d" % os.getpid())
        c.sendall(b"GET /v2/models/vision HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n")
        assert status_of(read_all(c)) == 200
        c.close()


@test
def off_this_machine_by_an_explicit_word():
    """Plain HTTP on an address of the network is what somebody wrote down, or refused."""
    with Server(VISION, listen="", server="listen_insecure = 0.0.0.0:0\n"
                "shared_memory = local\n") as s:
        assert "whoever reaches it may ask everything" in s.log(), s.log()
        assert ask(s)[0] == 200 and ask(s, "/metrics")[0] == 200
        assert ask(s, Host="evil.example")[0] == 403
        # Memory of this machine is for its own processes alone.
        st, _, out = ask(s, "/v2/systemsharedmemory/status")
        assert st == 403 and b"of this machine" in out, (st, out)
        key = os.path.dirname(s.conf) + "/key"
        with open(key, "w") as f:
            f.write("secret-0123456789")
        os.chmod(key, 0o600)
        s.write(VISION + "[key k]\nsecret_file = %s\n" % key)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded")
        for path in ("/v2/models/vision", "/metrics"):
            assert ask(s, path)[0] == 401
            assert ask(s, path, Authorization="Bearer secret-0123456789")[0] == 200
        assert ask(s, "/healthz")[0] == 200
    with Server(args=[RLXD, "--model", "vision=" + VISION_PATH, "--listen-insecure",
                      "0.0.0.0:0"]) as s:
        assert ask(s)[0] == 200
    ln = socket.socket()
    ln.bind(("0.0.0.0", 0))
    ln.listen(16)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(VISION)
        f.flush()
        with Server(**activated({"insecure": ln}, f.name)) as s:
            assert ask(s)[0] == 200
        s = Server(wait=False, **activated({"http": ln}, f.name))
        assert s.ended() == 1
        assert "not an address of this machine alone" in s.log(), s.log()
    ln.close()
    s = Server(VISION, listen="", server="listen_insecure = tls:0.0.0.0:0\n", wait=False)
    assert s.ended() == 1
    assert "TLS goes to listen" in s.log(), s.log()


def origin(host, scheme="http"):
    return scheme + ":" + "//" + host


@test
def pages_of_other_origins():
    with Server(VISION) as s:
        own = "localhost:%d" % s.port
        for o in (origin("evil.example"), origin("localhost:3000"), origin("localhost"), "null",
                  "http:" + "//", "localhost", "*", "x" * 500, origin("evil.example", "https")):
            for method, path in (("GET", "/v2/models/vision"), ("POST", "/v2/repository/index"),
                                 ("GET", "/metrics"), ("OPTIONS", "/v1/embeddings")):
                st, h, _ = ask(s, path, method, Origin=o)
                assert st == 403 and h["Access-Control-Allow-Origin"] is None, (o, path, st)
        # A page of ours, had we any; but not one that has a name of its own for us.
        assert ask(s, Origin=origin(own), Host=own)[0] == 200
        assert ask(s, Origin=origin("evil.example:1"), Host="evil.example:1")[0] == 403
        out = s.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: a\r\nOrigin: b\r\n\r\n",
                    shut=True)
        assert status_of(out) == 400, out
        assert ask(s)[1]["Access-Control-Allow-Origin"] is None


@test
def cors_by_configuration():
    app = origin("app.example", "https")
    with Server(VISION, server="cors_origins = %s %s\n" % (app, origin("localhost:3000"))) as s:
        # What a browser asks first; no key is needed for that.
        st, h, out = ask(s, "/v1/embeddings", "OPTIONS", Origin=app,
                         Access_Control_Request_Method="POST",
                         Access_Control_Request_Headers="authorization,content-type,x-stainless-os")
        assert st == 204 and not out and h["Content-Length"] is None, (st, dict(h))
        assert h["Access-Control-Allow-Origin"] == app and h["Vary"] == "Origin"
        assert "POST" in h["Access-Control-Allow-Methods"]
        allowed = h["Access-Control-Allow-Headers"].lower().replace(" ", "").split(",")
        assert "*" in allowed and "authorization" in allowed    # which "*" does not cover
        st, h, _ = ask(s, Origin=app)
        assert st == 200 and h["Access-Control-Allow-Origin"] == app
        assert h["Access-Control-Expose-Headers"] == "*"
        # Mistakes can be read as well.
        st, h, _ = ask(s, "/v2/models/none", Origin=app)
        assert st == 404 and h["Access-Control-Allow-Origin"] == app
        assert ask(s, Origin=origin("localhost:3000"))[0] == 200
        for o in (origin("app.example"), app + ":1", app + ".evil", origin("localhost:3001"),
                  "null"):
            assert ask(s, Origin=o)[0] == 403, o
    with Server(VISION, server="cors_origins = *\n") as s:
        for o in (app, "null", origin("x")):
            st, h, _ = ask(s, Origin=o)
            assert st == 200 and h["Access-Control-Allow-Origin"] == o
        assert ask(s, Origin="x" * 300)[0] == 403


@test
def early_errors_are_whole_replies():
    """What is refused by its head alone: in the API's form, with an id, for a page to read."""
    app = origin("app.example", "https")
    with Server(VISION, server="cors_origins = %s\nmax_body = 1M\n" % app) as s:
        for line, want in (("Content-Length: 2000000", 413),
                           ("Content-Length: 5\r\nContent-Length: 5", 400),
                           ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
                           ("Transfer-Encoding: gzip", 501), ("Expect: more", 417)):
            for path, kind in (("/v1/embeddings", dict), ("/v2/models/vision/infer", str)):
                out = s.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: early\r\n"
                            b"Origin: %s\r\n%s\r\n\r\n" % (path.encode(), app.encode(),
                                                         line.encode()), shut=True)
                head, _, body = out.partition(b"\r\n\r\n")
                assert status_of(out) == want, (line, out)
                assert b"X-Request-Id: early\r\n" in head, (line, out)
                assert b"Access-Control-Allow-Origin: %s\r\n" % app.encode() in head, out
                assert isinstance(json.loads(body)["error"], kind), (line, out)
        for bad in (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70000, b"RUBBISH\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"):
            out = s.raw(bad)
            assert status_of(out) in (400, 431, 501) and b"\r\nX-Request-Id: " in out, out
        out = s.raw(b"HEAD /v2 HTTP/1.1\r\n\r\n", shut=True)
        assert status_of(out) == 400 and out.endswith(b"\r\n\r\n"), out


@test
def errors_of_heads_that_cannot_be_read():
    """Malformed, too large, late or cut: the form is that of the path, as far as it came."""
    good = b"Host: localhost\r\n"
    with Server(VISION, server="max_header = 1K\nheader_timeout = 300ms\n") as s:
        for path, kind in ((b"/v1/embeddings", dict), (b"/v2/models/vision/infer", str),
                           (b"/x", None)):
            line = b"POST %s HTTP/1.1\r\n" % path
            for head, want in (
                    (line + good + b"X: " + b"y" * 2000 + b"\r\n\r\n", 431),
                    (line + good + b"X: " + b"y" * 2000, 431),
                    (line + good + b"X: y\r\n" * 70 + b"\r\n", 431),
                    (b"POST %s%s HTTP/1.1\r\n" % (path, b"z" * 3000), 431),
                    (line + good, 408), (line[:-11], 408),
                    (line + b"Host : localhost\r\n\r\n", 400), (line + b"\r\n", 400),
                    (line + good + b"no colon\r\n\r\n", 400),
                    (line[:-2] + b"\n" + good + b"\r\n", 400),
                    (line + good + b"X: \0\r\n\r\n", 400),
                    (line + good + b" folded: y\r\n\r\n", 400),
                    (line.replace(b" HTTP", b"\x80 HTTP") + good + b"\r\n", 400),
                    (line.replace(path, b"http" b"://localhost" + path) + b"Host\r\n\r\n", 400),
                    (b"BREW" + line[4:] + good + b"\r\n", 501),
                    (line.replace(b"1.1", b"3.0") + good + b"\r\n", 505)):
                out = s.raw(head, timeout=20)
                top, _, body = out.partition(b"\r\n\r\n")
                assert status_of(out) == want, (head[:99], out)
                assert b"\r\nX-Request-Id: " in top, out
                is_json = b"Content-Type: application/json" in top
                assert is_json == bool(kind), (head[:99], out)
                assert not kind or isinstance(json.loads(body)["error"], kind), (head[:99], out)
        # Nothing stands behind the head of a reply to HEAD.
        for head in (b"HEAD /v2 HTTP/1.1\r\nHost : x\r\n\r\n",
                     b"HEAD /v2 HTTP/1.1\r\nX: " + b"y" * 2000):
            out = s.raw(head)
            assert status_of(out) in (400, 431) and out.endswith(b"\r\n\r\n"), out


@test
def options():
    with Server(VISION) as s:
        for path, allow in (("/v1/embeddings", "POST, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS"),
                            ("*", "GET, HEAD, POST, OPTIONS")):
            out = s.raw(b"OPTIONS %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode(),
                        shut=True)
            assert status_of(out) == 204 and b"Allow: %s\r\n" % allow.encode() in out, out
        assert ask(s, "/nowhere", "OPTIONS")[0] == 404
        assert ask(s, "/v1/embeddings")[1]["Allow"] == "POST, OPTIONS"


@test
def types_of_bodies():
    body = json.dumps({"model": "vision", "input": "x"})
    with Server(VISION) as s:
        for kind in ("text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
                     "multipart/form-data; boundary=x", "text/html", "json", "application/jsonx",
                     "application/xml", ";", "a" * 300):
            for path in ("/v1/embeddings", "/v2/models/vision/infer",
                         "/v2/systemsharedmemory/region/x/register"):
                st, _, out = ask(s, path, "POST", body, Content_Type=kind)
                assert st == 415 and b"application/json" in out, (kind, path, st, out)
        for kind in ("application/json", "Application/JSON; charset=utf-8", "application/json ;x=y",
                     "application/vnd.api+json", "application/octet-stream"):
            st, _, out = ask(s, "/v1/embeddings", "POST", body, Content_Type=kind)
            assert st == 400 and b"makes no embeddings" in out, (kind, st, out)
        assert b"makes no embeddings" in ask(s, "/v1/embeddings", "POST", body)[2]
        # Nothing is nothing, whatever its type.
        assert ask(s, "/v2/repository/index", "POST", Content_Type="text/plain")[0] == 200


@test
def absolute_targets():
    """As proxies are asked; a server must take them (RFC 9112, 3.2.2)."""
    with Server(VISION) as s:
        for path, want in (("/healthz", 200), ("/v2/models/vision", 200), ("/healthz?x=y", 200),
                           ("", 404), ("?x", 404), ("/", 404), ("/../healthz", 404)):
            for scheme in ("http", "HTTP", "https"):
                target = scheme + ":" + "//localhost:1" + path
                out = s.raw(b"GET %s HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n"
                            % target.encode())
                assert status_of(out) == want, (target, out[:200])


@test
def versions():
    """There is one of a model; no other is answered as if it were that."""
    body = json.dumps({"inputs": []})
    with Server(VISION) as s:
        for v in ("2", "0", "01", "1.0", "-1", "latest", "%31", "1" * 23):
            for what in ("", "/ready", "/config"):
                st, _, out = ask(s, "/v2/models/vision/versions/%s%s" % (v, what))
                assert st == 404 and b"no version" in out, (v, what, st, out)
            st, _, out = ask(s, "/v2/models/vision/versions/%s/infer" % v, "POST", body)
            assert st == 404 and b"no version" in out, (v, st, out)
        assert ask(s, "/v2/models/vision/versions/%s" % ("1" * 1000))[0] == 404
        for what in ("", "/ready", "/config"):
            assert ask(s, "/v2/models/vision/versions/1" + what)[0] == 200
        assert ask(s, "/v2/models/none/versions/1")[0] == 404


def infer(s, inputs, params=None, binary=b"", model="minilm", **more):
    head = json.dumps(dict({"inputs": inputs}, **(dict(parameters=params) if params else {}),
                           **more)).encode()
    h = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
    st, _, out = s.get("/v2/models/%s/infer" % model, h, "POST", head + binary)
    return st, json.loads(out)


def ids(kind, data, shape=None, name="input_ids"):
    return {"name": name, "shape": shape or [1, len(data)], "datatype": kind, "data": data}


def binary(kind, size, shape, name="input_ids"):
    return {"name": name, "shape": shape, "datatype": kind,
            "parameters": {"binary_data_size": size}}


@test
def names_with_zero_bytes():
    """Behind one another name would be hidden from who compares up to it."""
    with Server(minilm() + VISION) as s:
        st, r = s.post("/v1/embeddings", {"model": "minilm\0x", "input": "a"})
        assert st in (400, 404), r
        good = [101, 7592, 102]
        for bad in (dict(ids("INT64", good), name="input_ids\0x"),
                    dict(ids("INT64", good), datatype="INT64\0x")):
            st, r = infer(s, [bad])
            assert st == 400, (bad, r)
        for out in ({"name": "embedding\0x"},):
            st, r = infer(s, [ids("INT64", good)], outputs=[out])
            assert st == 400, r
        assert infer(s, [ids("INT64", good)], outputs=[{"name": "embedding"}])[0] == 200


@test
def ids_of_32_bits():
    good = [101, 7592, 2088, 999, 102]
    with Server(minilm()) as s:
        want = infer(s, [ids("INT64", good)])
        assert want[0] == 200, want
        assert infer(s, [ids("INT32", good)]) == want
        raw = struct.pack("<5i", *good)
        assert infer(s, [binary("INT32", 20, [1, 5])], binary=raw) == want
        # One of each kind, and rows of different lengths.
        mask = ids("INT32", [1, 1, 1, 1, 1, 1, 1, 0, 0, 0], [2, 5], "attention_mask")
        two = infer(s, [ids("INT64", good + good, [2, 5]), mask])
        assert two[0] == 200
        assert infer(s, [binary("INT32", 40, [2, 5]), mask], binary=raw * 2) == two
        mask["datatype"] = "INT64"
        assert infer(s, [ids("INT32", good + good, [2, 5]), mask]) == two
        assert two[1]["outputs"][0]["data"][:384] == want[1]["outputs"][0]["data"]
        for bad in (ids("INT32", [101, 1 << 31, 102]), ids("INT32", [101, -1, 102]),
                    ids("INT32", [101, 1 << 20, 102]), ids("UINT32", good), ids("INT16", good),
                    ids("INT32", good, [1, 4]), ids("INT32", good, [5])):
            st, r = infer(s, [bad])
            assert st == 400 and r["error"], (bad, r)
        for size, data in ((40, raw * 2), (16, raw), (20, raw[:16])):
            assert infer(s, [binary("INT32", size, [1, 5])], binary=data)[0] == 400
    # Another model's tensors are what it says.
    with Server(VISION) as s:
        st, r = infer(s, [ids("INT32", [1], [1], name="x")], model="vision")
        assert st == 400 and r["error"], r


@test
def json_tensors_are_nested_as_their_shape():
    """Or not at all; what lies in other arrays was taken in the order of the text."""
    def x(data, shape=(2, 3), kind="FP32"):
        return {"name": "x", "datatype": kind, "shape": list(shape), "data": data}

    def y(r):
        return r["outputs"][0]["data"]

    with Server("[model relu]\npath = %s/relu.onnx\n[model pair]\npath = %s/pair.onnx\n"
                % ((os.path.abspath(BUILD + "/serve"),) * 2)) as s:
        want = [1, 0, 3, 4, 5, 6]
        for good in ([1, -2, 3, 4, 5, 6], [[1, -2, 3], [4, 5, 6]]):
            st, r = infer(s, [x(good)], model="relu")
            assert st == 200 and y(r) == want, (good, r)
        for bad in ([[1, 2], [3, 4], [5, 6]], [[1, 2, 3, 4, 5, 6]], [[1, 2, 3], [4, 5], [6]],
                    [[1, 2, 3], 4, 5, 6], [1, 2, 3, [4, 5, 6]], [[[1, 2, 3], [4, 5, 6]]],
                    [[1, 2, 3], [4, 5, [6]]], [[1], [2], [3], [4], [5], [6]],
                    [[1, 2, 3], [4, 5, 6], []], [[1, 2, 3, 4], [5, 6]]):
            st, r = infer(s, [x(bad)], model="relu")
            assert st == 400 and "nested otherwise than its shape" in r["error"], (bad, r)
        for bad in ([1, 2, 3, 4, 5, 6, []], [[], 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, []],
                    [[1, 2, []], [4, 5, 6]], [[1, 2, 3], []], [[], []], [{}, 2, 3, 4, 5, 6], 1,
                    [[1, 2, 3], [4, 5, "6"]], [[1, 2, 3], [4, 5, None]], "[]", {}, None):
            st, r = infer(s, [x(bad)], model="relu")
            assert st == 400 and "'data'" in r["error"], (bad, r)
        for shape, good, bad in (((0, 3), [[]], [[[]]]), ((2, 0), [[], []], [[]]),
                                 ((2, 0), [], [[], [], []]), ((0, 3), [], [[], []])):
            assert infer(s, [x(bad, shape)], model="relu")[0] == 400, (shape, bad)
            if (shape, good) != ((0, 3), [[]]):
                assert infer(s, [x(good, shape)], model="relu")[0] == 200, (shape, good)
        a = {"name": "a", "datatype": "FP32", "shape": [1, 1], "data": [[1]]}
        b = {"name": "b", "datatype": "FP32", "shape": [2, 2, 2]}
        eight = list(range(8))
        for data, want in ((eight, 200), ([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], 200),
                           ([eight[:4], eight[4:]], 400), ([[[0, 1, 2, 3]], [[4, 5, 6, 7]]], 400)):
            st, r = infer(s, [a, dict(b, data=data)], model="pair")
            assert st == want, (data, st, r)
            assert st != 200 or r["outputs"][1]["data"] == eight, r


@test
def numbers_that_no_float_is():
    def ask(s, text, kind="FP32"):
        body = (b'{"inputs":[{"name":"x","datatype":"%s","shape":[1,2],"data":[0,%s]}]}'
                % (kind.encode(), text))
        st, _, out = s.get("/v2/models/relu/infer", {}, "POST", body)
        return st, json.loads(out)

    with Server("[model relu]\npath = %s\n" % os.path.abspath(BUILD + "/serve/relu.onnx")) as s:
        for bad in (b"1e999", b"-1e999", b"1e39", b"1" + b"0" * 400):
            st, r = ask(s, bad)
            assert st == 400 and "element 1 of 'data' is no finite FP32" in r["error"], (bad, r)
        for good, want in ((b"3.4e38", 3.4e38), (b"1e-999", 0)):
            st, r = ask(s, good)
            assert st == 200 and abs(r["outputs"][0]["data"][1] - want) < 1e33, (good, r)


@test
def wishes_of_a_request():
    """priority, timeout, sequence_id: done, or refused; never taken and forgotten."""
    good = ids("INT64", [101, 7592, 102])
    with Server(minilm("max_batch = 1\n")) as s:
        for params in ({"priority": 0}, {"sequence_id": 0}, {"sequence_id": ""}, {"timeout": 0},
                       {"timeout": 60000000}, {"timeout": (1 << 63) - 1}, {"custom": 7},
                       {"sequence_id": 0, "sequence_start": False, "sequence_end": False}):
            st, r = infer(s, [good], params)
            assert st == 200, (params, r)
        for params, why in (({"priority": 1}, "priority"), ({"priority": -1}, "priority"),
                            ({"priority": "high"}, "priority"), ({"priority": True}, "priority"),
                            ({"sequence_id": 5}, "sequence_id"),
                            ({"sequence_id": "a"}, "sequence_id"),
                            ({"sequence_id": 0, "sequence_start": True}, "sequence_start"),
                            ({"sequence_end": True}, "sequence_end"),
                            ({"timeout": -1}, "timeout"), ({"timeout": "1s"}, "timeout"),
                            ({"timeout": 1.5}, "timeout"), ({"timeout": 1 << 64}, "timeout")):
            st, r = infer(s, [good], params)
            assert st == 400 and why in r["error"], (params, st, r)
        # Of the wrong kind, wherever they stand; or none.
        odd = ("true", 1, None, [True], {}), ([], {}, None, [1])
        for key, values in (("binary_data_output", odd[0]), ("sequence_start", odd[0]),
                            ("sequence_end", odd[0]), ("custom", odd[1]),
                            ("timeout", odd[1]), ("sequence_id", odd[1] + (True,))):
            for v in values:
                st, r = infer(s, [good], {key: v})
                assert st == 400 and key in r["error"], (key, v, st, r)
        out = {"name": "embedding"}
        for key, values in (("binary_data", odd[0]), ("shared_memory_region", (1, True, [])),
                            ("custom", odd[1])):
            for v in values:
                st, r = infer(s, [good], outputs=[dict(out, parameters={key: v})])
                assert st == 400 and key in r["error"], (key, v, st, r)
        for key, values in (("binary_data_size", ("24", True, 1.5, -1, None, [])),
                            ("shared_memory_region", (1, True, [], None)), ("custom", odd[1])):
            for v in values:
                st, r = infer(s, [dict(good, parameters={key: v})])
                assert st == 400 and key in r["error"], (key, v, st, r)
        for bad in ([], "x", 1, True, [{"priority": 0}]):
            for st, r in (infer(s, [good], bad or [7]), infer(s, [dict(good, parameters=bad)]),
                          infer(s, [good], outputs=[dict(out, parameters=bad)])):
                assert st == 400 and "'parameters' is no object" in r["error"], (bad, st, r)
        for bad in (5, True, ["a"], {}):
            st, r = infer(s, [good], id=bad)
            assert st == 400 and "'id'" in r["error"], (bad, st, r)
        st, r = infer(s, [dict(good, parameters=None)], id=None, parameters=None,
                      outputs=[dict(out, parameters=None)])
        assert st == 200 and "id" not in r, (st, r)
        st, r = infer(s, [dict(good, parameters={"custom": "x"})], {"custom": 1.5}, id="a",
                      outputs=[dict(out, parameters={"custom": False, "binary_data": False})])
        assert st == 200 and r["id"] == "a" and len(r["outputs"][0]["data"]) == 384, (st, r)
        # What waits behind longer work than its timeout is not begun.
        done = []
        t = threading.Thread(target=lambda: done.append(s.embed(["word " * 60] * 100)))
        t.start()
        wait_for(lambda: s.metric('rlxd_model_queue_rows{model="minilm"}') > 20)
        st, r = infer(s, [good], {"timeout": 1})
        assert st == 504 and "its own timeout" in r["error"], (st, r)
        t.join()
        assert len(done[0]) == 100
        assert infer(s, [good], {"timeout": 600 * 1000000})[0] == 200


def chunked_until_told(s, size, first=b""):
    """Sends the size of a chunk and none of it; what comes back, and after how long."""
    c = s.connect(20)
    begin = time.monotonic()
    c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n" + first + b"%x\r\n" % size)
    out = c.recv(1000)
    c.close()
    return status_of(out), time.monotonic() - begin


@test
def what_never_fits_is_told_at_once():
    """By its size, not by a timeout; and with 413, for another try would be no better."""
    for engine in ENGINES:
        with Server(VISION, engine=engine, server="max_body = 8M\nmax_memory = 2M\n"
                    "body_timeout = 60s\n") as s:
            for size in ((2 << 20) + 1, 1 << 30, 1 << 62, (1 << 64) - 1, 1 << 70):
                st, took = chunked_until_told(s, size)
                assert st == 413 and took < 30, (engine, size, st, took)
            half = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
            st, took = chunked_until_told(s, (1 << 20) + 1, half)
            assert st == 413 and took < 30, (engine, st, took)
            out = s.raw(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
                        b"Content-Length: %d\r\n\r\n" % ((2 << 20) + 1))
            assert status_of(out) == 413 and b"max_memory" in out, out
            wait_for(lambda: s.metric("rlxd_memory_bytes") == 0)


@test
def truncation():
    """As sentence-transformers does it: its file tells where, the special tokens stay."""
    words = "the contract is void unless the court of the county hears a case against it ".split()
    with open(MINILM + "/vocab.txt") as f:
        vocab = f.read().split("\n")
    want_ids = [101] + [vocab.index(w) for w in words * 12]

    def ask(s, limit, cut):
        st, r = s.post("/v1/embeddings", {"model": "m", "input": " ".join(words * 12)})
        if not cut:
            assert st == 400 and "at most %d;" % limit in r["error"]["message"], r
            return
        assert st == 200 and r["usage"]["prompt_tokens"] == limit, (limit, r)
        ids = want_ids[:limit - 1] + [102]
        assert s.embed([ids], "m")[0] == r["data"][0]["embedding"], limit
        assert s.post("/v1/embeddings", {"model": "m", "input": [ids + [102]]})[0] == 400

    with tempfile.TemporaryDirectory() as d:
        for name in os.listdir(MINILM):
            os.symlink(os.path.abspath(MINILM + "/" + name), d + "/" + name)
        model = "[model m]\npath = %s\nbuckets = 16 64 128\n" % d
        with Server(model + "truncate = yes\n") as s:
            ask(s, 128, True)               # no file: as far as there are buckets
            for text, limit in (('{"max_seq_length": 37, "do_lower_case": false}', 37),
                                ('{"max_seq_length": 500}', 128), ("{}", 128),
                                (' ' * 9000 + '{"max_seq_length": 21}', 21),
                                ('{"max_seq_length": null}', 128), ('{"max_seq_length": 3}', 3)):
                n = len(s.lines)
                with open(d + "/sentence_bert_config.json", "w") as f:
                    f.write(text)
                s.signal(signal.SIGHUP)
                s.wait_log("event=reloaded", 60, after=n)
                ask(s, limit, True)
            for text in ("", "x", '{"max_seq_length": 0}', '{"max_seq_length": -5}',
                         '{"max_seq_length": "a"}', '{"max_seq_length": 1.5}', "[1"):
                n = len(s.lines)
                with open(d + "/sentence_bert_config.json", "w") as f:
                    f.write(text)
                s.signal(signal.SIGHUP)
                s.wait_log("reload failed", 60, after=n)
                assert any("sentence_bert_config.json" in ln for ln in s.lines[n:]), s.lines[n:]
                ask(s, 3, True)
            os.unlink(d + "/sentence_bert_config.json")
            os.mkfifo(d + "/sentence_bert_config.json")     # whose writer never comes
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("reload failed", 60, after=n)
            ask(s, 3, True)
            os.unlink(d + "/sentence_bert_config.json")
        with open(d + "/sentence_bert_config.json", "w") as f:
            f.write('{"max_seq_length": 20}')
        with Server(model) as s:
            ask(s, 20, False)
        with Server(model + "truncate = yes\nmax_tokens = 60\n") as s:
            ask(s, 60, True)                # what rlxd.conf says counts more


@test
def batches_that_never_fit():
    with Server(minilm("max_queue = 8\n")) as s:
        st, r = infer(s, [ids("INT64", [101, 102] * 9, [9, 2])])
        assert st == 413 and "8" in r["error"], r


main()
