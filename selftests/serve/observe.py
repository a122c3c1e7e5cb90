# SPDX-License-Identifier: MIT
"""What is told of a server: probes, metrics by route, model and key, the process."""
import http.server
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from rlxd import (BUILD, RLXD, Server, check_metrics, main, minilm, read_all, status_of, test,
                  wait_for, within)

VISION = "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")
HIST = "rlxd_http_request_duration_seconds"


def status(s, path):
    return s.get(path)[0]


PROBES = ("/livez", "/readyz", "/startupz", "/healthz", "/v2/health/live", "/v2/health/ready")


@test
def probes():
    with Server(VISION) as s:
        for path in PROBES:
            assert status(s, path) == 200, path
            assert s.get(path, method="HEAD")[0] == 200, path
            assert s.get(path, method="POST")[0] == 405, path


@test
def probes_while_models_are_loaded():
    """A key in a pipe: whoever loads the configuration waits until somebody writes it."""
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(d + "/key")

        def give():
            with open(d + "/key", "w") as f:
                f.write("secret-0123456789")
        s = Server(VISION + "[key k]\nsecret_file = %s/key\n" % d, wait=False)
        give()                              # where to listen
        s.wait_log("event=started")         # and it has begun to answer, a second later
        assert [status(s, p) for p in PROBES] == [200, 503, 503, 503, 200, 503]
        assert s.get("/v1/models")[0] == 503
        give()                              # what to load
        s.wait_log("event=ready")
        assert [status(s, p) for p in PROBES] == [200] * 6
        # Another load later is no reason to be started anew, or to get no requests.
        s.signal(signal.SIGHUP)
        for _ in range(5):
            assert [status(s, p) for p in PROBES] == [200] * 6
        give()
        s.wait_log("event=reloaded")
        s.stop()


@test
def probes_while_it_drains():
    with Server(VISION, server="header_timeout = 60s\n") as s:
        received = "rlxd_received_bytes_total"
        before = s.metric(received)
        each = s.metric(received) - before      # what to ask for it takes
        begun, asked = before + each, itertools.count(1)
        half = {p: s.connect() for p in PROBES}
        for p, c in half.items():
            c.sendall(b"GET %s HTTP/1.1\r\n" % p.encode())
        sent = sum(len(p) + 15 for p in PROBES)
        wait_for(lambda: s.metric(received) - next(asked) * each >= begun + sent)
        s.signal(signal.SIGTERM)
        s.wait_log("event=draining")
        got = []
        for p, c in half.items():
            c.sendall(b"Host: localhost\r\n\r\n")
            got.append(status_of(read_all(c)))
        assert got == [200, 503, 200, 503, 200, 503], got


def series(text, name):
    """The label sets of a family's counts, and their values."""
    out = {}
    for line in text.decode().splitlines():
        m = re.match(re.escape(name) + r"_count\{(.*)\} (\d+)$", line)
        if m:
            out[tuple(re.findall(r'="([^"]*)"', m.group(1)))] = int(m.group(2))
    return out


@test
def latency_by_route_model_and_key():
    with Server(VISION) as s:
        d = os.path.dirname(s.conf)
        for name in ("alice", "bob"):
            with open("%s/%s" % (d, name), "w") as f:
                f.write(name + "-secret-0123456789")
            os.chmod("%s/%s" % (d, name), 0o600)
        s.write(minilm() + VISION + "[key alice]\nsecret_file = %s/alice\n" % d +
                "[key bob]\nsecret_file = %s/bob\nmodels = vision\n" % d)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded", 60)
        alice, bob = ({"Authorization": "Bearer %s-secret-0123456789" % n}
                      for n in ("alice", "bob"))
        for _ in range(3):
            s.embed("hello", headers=alice)
        s.get("/v2/models/vision", bob)
        s.get("/v2/models/none", bob)
        s.get("/nowhere/%s" % ("x" * 50))
        s.get("/v1/models", {"Authorization": "Bearer nobody"})
        all_of_it = s.get("/metrics", alice)[2]
        check_metrics(all_of_it)
        got = series(all_of_it, HIST)
        assert got[("/v1/embeddings", "minilm", "alice")] == 3, got
        assert got[("/v2/models/{model}", "vision", "bob")] == 1, got
        # What a peer made up is no label.
        assert got[("/v2/models/{model}", "", "bob")] == 1 and got[("none", "", "")] >= 1, got
        assert got[("/v1/models", "", "")] == 1, got
        assert not any("x" * 50 in str(k) or "nobody" in str(k) for k in got), got
        # Bob sees his own, and nobody without a key what a key does.
        mine = series(s.get("/metrics", bob)[2], HIST)
        assert mine and all(k in ("", "bob") for _, _, k in mine), mine
        assert ("/v2/models/{model}", "vision", "bob") in mine
        none = series(s.get("/metrics")[2], HIST)
        assert none and all((m, k) == ("", "") for _, m, k in none), none


@test
def what_a_process_is():
    with Server(VISION) as s:
        text = s.get("/metrics")[2]
        check_metrics(text)
        version = re.search(r'rlxd_build_info\{version="([^"]+)",compiler="[^"]+",'
                            r'machine="[^"]+"\} 1\n', text.decode()).group(1)
        assert ("rlxd " + version) in os.popen(s.proc.args[0] + " --version").read()
        fds = len(os.listdir("/proc/%d/fd" % s.proc.pid))
        assert abs(s.metric("process_open_fds") - fds) <= 3, fds    # our own connection
        held = [s.connect() for _ in range(20)]
        wait_for(lambda: s.metric("process_open_fds") >= fds + 18)
        for c in held:
            c.close()
        assert s.metric("process_max_fds") >= s.metric("process_open_fds")
        cpu = s.metric("process_cpu_seconds_total")
        for _ in range(200):
            s.get("/metrics")
        with open("/proc/%d/stat" % s.proc.pid) as f:
            ticks = sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
        now = s.metric("process_cpu_seconds_total")
        assert cpu < now and abs(now - ticks / os.sysconf("SC_CLK_TCK")) < 0.2 + now / 2
        with open("/proc/%d/status" % s.proc.pid) as f:
            kb = dict(line.split(":", 1) for line in f)
        for name, key in (("process_resident_memory_bytes", "VmRSS"),
                          ("process_virtual_memory_bytes", "VmSize")):
            is_kb = int(kb[key].split()[0])
            assert abs(s.metric(name) / 1024 - is_kb) < is_kb / 4, (name, is_kb)
        assert s.metric("process_threads") == int(kb["Threads"])
        assert abs(s.metric("process_start_time_seconds") - time.time()) < 600
        assert s.metric("process_virtual_memory_max_bytes") != 0


class Collector:
    """Takes OTLP/HTTP in JSON; what it answers is up to the test."""

    def __init__(self):
        self.spans, self.posts, self.resources = [], [], []
        self.status, self.reply = 200, {}
        self.first = []                     # what it answers before
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.append((self.path, self.headers["Content-Type"],
                                    self.headers["Host"]))
                status = outer.first.pop(0) if outer.first else outer.status
                if status == 200:
                    for r in json.loads(body)["resourceSpans"]:
                        outer.resources.append(attributes(r["resource"]))
                        outer.spans += r["scopeSpans"][0]["spans"]
                out = json.dumps(outer.reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def option(self, path=""):
        return "otlp_endpoint = %s//127.0.0.1:%d%s\n" % ("http:", self.port, path)

    def roots(self, name):
        return [s for s in self.spans if s["name"] == name]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(of):
    return {a["key"]: a["value"].get("stringValue", a["value"].get("intValue"))
            for a in of["attributes"]}


def spans(s, result):
    return s.metric('rlxd_otlp_spans_total{result="%s"}' % result)


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@test
def spans_of_requests():
    c = Collector()
    with Server(minilm() + VISION, server=c.option()) as s:
        begin = time.time_ns()
        st, _, _ = s.get("/v1/embeddings", {"traceparent": "00-%s-%s-01" % (TRACE, SPAN)}, "POST",
                         json.dumps({"model": "minilm", "input": "hello"}))
        assert st == 200
        s.get("/v2/models/none", {"traceparent": "00-%s-%s-00" % (TRACE, SPAN)})    # not recorded
        s.get("/v2/models/vision")
        s.get("/nowhere")
        wait_for(lambda: c.roots("POST /v1/embeddings") and c.roots("GET /v2/models/{model}") and
                 c.roots("GET"))
        assert c.posts[0] == ("/v1/traces", "application/json", "127.0.0.1:%d" % c.port)
        assert c.resources[0]["service.name"] == "rlxd"
        assert int(c.resources[0]["process.pid"]) == s.proc.pid
        (root,) = c.roots("POST /v1/embeddings")
        assert (root["traceId"], root["parentSpanId"], root["kind"]) == (TRACE, SPAN, 2), root
        a = attributes(root)
        assert a["http.request.method"] == "POST" and a["http.route"] == "/v1/embeddings"
        assert a["rlxd.model"] == "minilm" and int(a["http.response.status_code"]) == 200
        below = [x for x in c.spans if x.get("parentSpanId") == root["spanId"]]
        assert [x["name"] for x in below] == ["receive", "answer", "send"], below
        times = [int(root["startTimeUnixNano"])]
        for x in below:
            assert x["traceId"] == TRACE and x["kind"] == 1
            assert int(x["startTimeUnixNano"]) == times[-1], below      # one after the other
            times.append(int(x["endTimeUnixNano"]))
        assert times == sorted(times) and times[-1] == int(root["endTimeUnixNano"])
        assert begin - 10 ** 9 < times[0] and times[-1] < time.time_ns() + 10 ** 9
        for x in c.spans:
            assert re.fullmatch("[0-9a-f]{32}", x["traceId"]) and int(x["traceId"], 16)
            assert re.fullmatch("[0-9a-f]{16}", x["spanId"]) and int(x["spanId"], 16)
        # The one that its proxy does not record is not here, and ids are of one span each.
        assert [x["traceId"] for x in c.spans].count(TRACE) == 4
        assert len(set(x["spanId"] for x in c.spans)) == len(c.spans)
        assert all(x["status"].get("code") is None for x in c.spans if "status" in x)
        wait_for(lambda: spans(s, "sent") >= len(c.spans) >= 9)
        check_metrics(s.get("/metrics")[2])
        # What it says it did not take.
        c.reply = {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "no"}}
        s.get("/v2/models/vision")
        wait_for(lambda: spans(s, "rejected") >= 2)
        c.reply = {}
        # Another path, by a reload; and none.
        s.head = s.head.replace(c.option(), c.option("/in/here"))
        s.write(VISION)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded")
        s.get("/v2/models/vision")
        wait_for(lambda: c.posts[-1][0] == "/in/here")
        n = len(s.lines)
        s.head = s.head.replace(c.option("/in/here"), "")
        s.write(VISION)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded", after=n)
        assert b"rlxd_otlp" not in s.get("/metrics")[2]
    c.close()


@test
def spans_at_the_end():
    """What was answered last is sent before it ends."""
    c = Collector()
    with Server(VISION, server=c.option()) as s:
        s.get("/v2/models/vision")
    assert c.roots("GET /v2/models/{model}"), c.spans
    c.close()


@test
def a_collector_that_fails():
    """It is asked again, then its spans are lost, and counted; requests notice nothing."""
    c = Collector()
    c.first = [503, 503]
    with Server(VISION, server=c.option()) as s:
        s.get("/v2/models/vision")
        wait_for(lambda: c.roots("GET /v2/models/{model}"))
        assert len(c.posts) >= 3 and spans(s, "failed") == 0
        # What is wrong for good is not repeated.
        c.status = 400
        n = len(c.posts)
        s.get("/v2/models/vision")
        wait_for(lambda: spans(s, "failed") >= 3)
        s.wait_log("spans not delivered")
        assert all(p[0] == "/v1/traces" for p in c.posts) and len(c.posts) > n
    c.close()


@test
def a_collector_that_hangs():
    """The queue is bounded, what does not fit is counted, and the end does not wait long."""
    ln = socket.socket()
    ln.bind(("127.0.0.1", 0))
    ln.listen(16)               # connects, and never answers
    c = "otlp_endpoint = %s//127.0.0.1:%d\n" % ("http:", ln.getsockname()[1])
    with Server(VISION, server=c) as s:
        one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = one[:-2] + b"Connection: close\r\n\r\n"
        out = s.raw(one * 2999 + last, timeout=60)
        assert out.count(b"HTTP/1.1 200 OK") == 3000
        # 2,048 wait and 256 are being sent.
        assert spans(s, "dropped") >= 3 * (3000 - 2048 - 256), spans(s, "dropped")
        assert s.metric("rlxd_otlp_queue_requests") <= 2048
        begin = time.monotonic()
    assert within(begin, 30)
    assert "spans left out at the end" in s.log(), s.log()
    ln.close()


@test
def endpoints_that_are_none():
    for url in ("x", "http:", "http:" + "//", "https:" + "//localhost", "http:" + "//[::1",
                "http:" + "//a:b", "http:" + "//a:0", "http:" + "//a:70000", "http:" + "//a@b",
                "http:" + "//a:", "http:" + "//[::1]x", "http:" + "//" + "a" * 150 + " b",
                "http:" + "//a?x", "http:" + "//:80"):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
            f.write("[server]\notlp_endpoint = %s\n" % url)
            f.flush()
            r = subprocess.run([RLXD, "--config", f.name, "--check"], capture_output=True,
                               text=True)
        assert r.returncode == 1 and "otlp_endpoint" in r.stderr, (url, r)
    for url in ("a", "a:1", "[::1]", "[::1]:65535/x/y", "127.0.0.1/", "a.b-c_d:4318/v1/traces"):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
            f.write("[server]\notlp_endpoint = %s//%s\n" % ("http:", url))
            f.flush()
            r = subprocess.run([RLXD, "--config", f.name, "--check"], capture_output=True,
                               text=True)
        assert r.returncode == 0, (url, r)


@test
def log_lines_are_text():
    """Whatever bytes a client sends: UTF-8, without controls of terminals."""
    with Server(VISION) as s:
        for log in ("text", "json"):
            s.head += "log = %s\n" % log
            s.write(VISION)
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("reloaded", after=n)
            for more, end in ((b"x", "x"), (b"\xc3\xa9", "\ufffd")):    # it is cut behind 60 bytes
                kind = b"a\xff\xc2\x9b2J\xc3\xa9" + b"x" * 51 + more
                n = len(s.lines)
                out = s.raw(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Type: %s\r\nContent-Length: 1\r\n\r\nx" % kind)
                want = "'a\ufffd\x9b2J\xe9%s%s'" % ("x" * 51, end)
                assert want in json.loads(out.split(b"\r\n\r\n", 1)[1])["error"]["message"], out
                s.wait_log("bodies of Content-Type", after=n)
                line = next(ln for ln in s.lines[n:] if "bodies of Content-Type" in ln)
                assert "a\\ufffd\\u009b2J\xe9x" in line, line
                assert log == "text" or want in json.loads(line)["error"], line
            s.head = s.head.replace("log = text\n", "")


main()
