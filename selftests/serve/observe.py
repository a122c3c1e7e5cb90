# SPDX-License-Identifier: MIT
"""What is told of a server: probes, metrics by route, model and key, the process."""
import os
import re
import signal
import tempfile
import time

from rlxd import (BUILD, Server, check_metrics, main, minilm, read_all, status_of, test, wait_for)

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
        begun = s.metric("rlxd_received_bytes_total")
        half = {p: s.connect() for p in PROBES}
        for p, c in half.items():
            c.sendall(b"GET %s HTTP/1.1\r\n" % p.encode())
        sent = sum(len(p) + 15 for p in PROBES)
        wait_for(lambda: s.metric("rlxd_received_bytes_total") >= begun + sent)
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


main()
