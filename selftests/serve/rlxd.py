# SPDX-License-Identifier: MIT
"""What the tests of rlxd share: TAP, a daemon of one's own, raw HTTP."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ.get("BUILD", "build")
RLXD = os.environ.get("RLXD", BUILD + "/bin/rlxd")
# Sanitizers have a shadow, and keep what was freed: what is resident then tells nothing.
SANITIZED = "san" in RLXD
MINILM = os.environ.get("RLXD_MINILM", BUILD + "/models/minilm")
# Where encoders run if a test does not say: "cuda" for those of a GPU that is there.
# Texts of MiniLM are then the work of another device than this processor.
DEVICE = "device = %s\n" % os.environ["DEVICE"] if os.environ.get("DEVICE") else ""
ENGINES = os.environ.get("RLXD_ENGINES", "io_uring epoll").split()


class Skip(Exception):
    pass


_tests = []


def test(fn):
    """Marks a test; it fails by raising, as assert does."""
    _tests.append(fn)
    return fn


def main():
    bad = 0
    for n, fn in enumerate(_tests, 1):
        try:
            fn()
            print("ok %d %s" % (n, fn.__name__))
        except Skip as why:
            print("ok %d %s # SKIP %s" % (n, fn.__name__, why))
        except BaseException as e:  # also assertions and interrupts of a test
            bad += 1
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            print("not ok %d %s" % (n, fn.__name__))
            if isinstance(e, KeyboardInterrupt):
                raise
        sys.stdout.flush()
    print("1..%d" % len(_tests))
    sys.exit(bad > 0)


def slowness():
    """By how much longer a computation takes for what others take of the processors."""
    begin, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < 0.1:
        sum(range(10000))
    return max(1.0, (time.perf_counter() - begin) / (time.thread_time() - cpu))


_lately = [1.0, float("-inf")]


def lately_slow():
    """That of the last ten seconds: to measure it costs more than a server's start."""
    if time.monotonic() - _lately[1] > 10:
        _lately[:] = slowness(), time.monotonic()
    return _lately[0]


def patience(seconds):
    """That long on a machine with nothing else to do: how long it may take on this one."""
    return seconds * slowness()


def within(begin, seconds):
    """Is less gone since @begin, by time.monotonic()? Measured only where it matters."""
    gone = time.monotonic() - begin
    return gone < seconds or gone < patience(seconds)


def _times_of(pid):
    """Its parent, and the ticks that it and its children that ended had of the processors."""
    try:
        with open("/proc/%s/stat" % pid) as f:
            rest = f.read().rpartition(")")[2].split()
        return int(rest[1]), sum(int(x) for x in rest[11:15])
    except OSError:         # it ended
        return 0, 0


def _threads_of(pid):
    """Of each thread: its number, its name, how long it ran and how long it waited to, in ns."""
    out = []
    with contextlib.suppress(OSError):      # it or its process may end
        for t in os.listdir("/proc/%d/task" % pid):
            with contextlib.suppress(OSError), open("/proc/%d/task/%s/comm" % (pid, t)) as name, \
                    open("/proc/%d/task/%s/schedstat" % (pid, t)) as times:
                out.append((int(t), name.read().strip(),
                            *(int(x) for x in times.read().split()[:2])))
    return out


class Mark:
    """A moment, and who had the processors until then: this test's programs, others, nobody."""

    def __init__(self):
        self.at = time.monotonic()
        times = {int(p): _times_of(p) for p in os.listdir("/proc") if p.isdigit()}
        with open("/proc/stat") as f:
            ticks = [int(x) for x in f.readline().split()[1:9]]
        mine, more = set(), {os.getpid()}
        while more:
            mine |= more
            more = {p for p, (parent, _) in times.items() if parent in more} - mine
        self.all = sum(ticks)
        self.others = sum(ticks) - ticks[3] - ticks[4]
        self.threads = {}       # how long each of ours ran, and waited for a processor; in ns
        for p in mine & set(times):
            self.others -= times[p][1]
            self.threads.update((t, x) for t, _, *x in _threads_of(p))

    def slow_until(self, end):
        """
        By how much longer something took from here to there for what others had: they left so
        much of all processors; or if that is less, by how long our threads waited for one. 1
        where others had less than a tenth: ticks are coarse.
        """
        total, ran, waited = end.all - self.all, 1, 0
        left = 1 - (end.others - self.others) / total if total > 0 else 1
        if left > 0.9:
            return 1.0
        for t, (r, w) in end.threads.items():
            before = self.threads.get(t, (0, 0))
            ran += r - before[0]
            waited += w - before[1]
        return min(1 / max(left, 0.001), (ran + waited) / ran)


def wait_for(what, seconds=20.0):
    """Polls until what() is true, and returns it."""
    begin, mark = time.monotonic(), None
    while True:
        v = what()
        if v:
            return v
        gone = time.monotonic() - begin
        if gone > seconds / 10:
            mark = mark or Mark()
        # Slow is what others made it meanwhile, whether they still do or not.
        assert within(begin, seconds) or gone < seconds * mark.slow_until(Mark()), \
            "waited %g s in vain" % gone
        time.sleep(0.02)


class Beside:
    """
    Requests beside what a test has others ask. A bound on how long each takes is that of a
    machine with nothing else to do, and grows by what other programs had of the processors
    while it was under way, before and after.
    """

    def __init__(self, one, warm_up=5):
        for _ in range(warm_up):
            one()
        self.one = one
        self.before = slowness()
        self.asked = []
        self.marks = [Mark()]

    def _mark(self, least):
        """To look costs some milliseconds, and a tick has ten."""
        if time.monotonic() - self.marks[-1].at >= least:
            self.marks.append(Mark())

    def ask(self):
        """Does it once."""
        self._mark(0.2)
        begin = time.monotonic()
        self.one()
        self.asked.append((begin, time.monotonic()))
        self._mark(0.2)

    def times(self):
        """Of all since the last call: what each would have taken alone, ascending; and of how
        many the longest took how long, for a message."""
        self._mark(0)
        slow = max(self.before, slowness())
        out, at = [], 0
        for begin, end in self.asked:
            while self.marks[at + 1].at <= begin:
                at += 1
            until = next(m for m in self.marks[at + 1:] if m.at >= end)
            out.append((end - begin) / max(slow, self.marks[at].slow_until(until)))
        told = "%d, worst %.3f s" % (len(out), max(e - b for b, e in self.asked))
        self.asked, self.marks = [], self.marks[-1:]
        return sorted(out), told

    def check(self, bound=0.5, what=""):
        """None may have taken longer."""
        times, told = self.times()
        print("# %s%s, alone %.3f s" % (what and what + ": ", told, times[-1]))
        assert times[-1] <= bound, "more than %g s" % bound


def read_all(sock):
    """What comes until the peer closes, in one way or another."""
    out = b""
    try:
        while True:
            b = sock.recv(65536)
            if not b:
                return out
            out += b
    except (ConnectionResetError, BrokenPipeError):
        return out


def begin_request(sock, head):
    """Sends all but the body; when this returns the server has begun to read that request."""
    want = b"HTTP/1.1 100 Continue\r\n\r\n"
    sock.sendall(head[:-2] + b"Expect: 100-continue\r\n\r\n")
    got = b""
    while len(got) < len(want):
        b = sock.recv(len(want) - len(got))
        assert b, got
        got += b
    assert got == want, got


def trickle(socks, byte, until):
    """A byte now and then, until that time; then all must have been closed."""
    while time.monotonic() < until:
        for c in socks:
            try:
                c.send(byte)
            except OSError:
                pass
        time.sleep(0.2)
    limit = patience(5)
    for c in socks:
        c.settimeout(limit)
        out = read_all(c)
        assert not out or b"HTTP" not in out or status_of(out) == 408, out
        c.close()


def thread_times(pid):
    """The name of each thread of a process, and the ns of processor time that it took."""
    return [(name, ran) for _, name, ran, _ in _threads_of(pid)]


def reset(sock):
    """Close it so that the peer sees an error."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Manager:
    """The receiving side of sd_notify."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = self.dir.name + "/notify"
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.settimeout(20 * lately_slow())

    def _next(self, want):
        begin = time.monotonic()
        while within(begin, 20):
            data, fds, _, _ = socket.recv_fds(self.sock, 4096, 4)
            lines = data.decode().split("\n")
            if any(ln.startswith(w) for ln in lines for w in want):
                return lines, fds
            for fd in fds:
                os.close(fd)
        raise AssertionError("no %s" % (want,))

    def next(self, *want):
        """Waits for a message that has a line of @want."""
        lines, fds = self._next(want)
        for fd in fds:
            os.close(fd)
        return lines

    def next_fd(self, want):
        """The descriptor that comes with such a message."""
        lines, fds = self._next([want])
        assert len(fds) == 1, (lines, fds)
        return fds[0]


class Server:
    """A daemon on a port that the system chose; its log is kept."""

    def __init__(self, sections="", server="", engine=None, wait=True, env=None,
                 listen="127.0.0.1:0", pass_fds=(), args=None):
        self.slow = lately_slow()   # by which the limits of its clients grow
        self.dir = tempfile.TemporaryDirectory(prefix="rlxd-test-")
        self.conf = self.dir.name + "/rlxd.conf"
        self.head = "[server]\n" + ("listen = %s\n" % listen if listen else "")
        self.head += server + "\n" + self._patient(server)
        if engine:
            self.head += "engine = %s\n" % engine
        self.write(sections)
        self.lines = []
        self.port = self.tls_port = None
        self.proc = subprocess.Popen(
            args or [RLXD, "--config", self.conf], stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, **(env or {})), pass_fds=pass_fds)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if wait:
            try:
                self.wait_log("event=ready", 60)
            except BaseException:
                self.kill()
                raise

    def _patient(self, server):
        """The limits of requests that a test does not set, by how slow this machine is."""
        return "".join("%s = %ds\n" % (name, seconds * self.slow) for name, seconds in
                       (("request_timeout", 60), ("drain_timeout", 30)) if name not in server)

    def write(self, sections):
        with open(self.conf, "w") as f:
            f.write(self.head + sections)

    def _read(self):
        for line in self.proc.stderr:
            at = line.find("event=listening address=")
            if at >= 0 and self.port is None and "unix:" not in line:
                self.port = int(line.rstrip().rsplit(":", 1)[1])
            if at >= 0 and "address=tls:" in line:
                self.tls_port = int(line.rstrip().rsplit(":", 1)[1])
            self.lines.append(line.rstrip("\n"))   # who waits for it finds the rest done

    def log(self):
        return "\n".join(self.lines)

    def wait_log(self, text, seconds=20.0, after=0):
        def there():
            if any(text in line for line in self.lines[after:]):
                return True
            if self.proc.poll() is not None:
                self.reader.join(5)
                assert any(text in line for line in self.lines[after:]), \
                    "ended without '%s':\n%s" % (text, self.log())
                return True
            return False
        wait_for(there, seconds)

    def connect(self, timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout * self.slow)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def url(self, path):
        return "%s://127.0.0.1:%d%s" % ("http", self.port, path)

    def http(self, timeout=600):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path, headers=None, method="GET", body=None):
        """status, headers, body; a connection each."""
        c = self.http()
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def post(self, path, obj, headers=None):
        st, h, b = self.get(path, headers, "POST", json.dumps(obj))
        return st, json.loads(b)

    def embed(self, texts, model="minilm", headers=None):
        st, r = self.post("/v1/embeddings", {"model": model, "input": texts}, headers)
        assert st == 200, (st, r)
        return [d["embedding"] for d in r["data"]]

    def metric(self, name, headers=None):
        """The value of one line of /metrics, 0 if it is not there."""
        for line in self.get("/metrics", headers)[2].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def raw(self, data, timeout=10, shut=False):
        """Everything that comes back for @data until the end, or the timeout."""
        s = self.connect(timeout)
        try:
            s.sendall(data)
            if shut:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)
        finally:
            s.close()

    def signal(self, sig):
        self.proc.send_signal(sig)

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()

    def ended(self, seconds=20):
        """The exit status, with the whole log, once it has ended by itself."""
        try:
            self.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            self.proc.wait(patience(seconds))
        self.reader.join(5)
        return self.proc.returncode

    def stop(self, seconds=40):
        """SIGTERM; the exit status must be 0 and nothing may have gone wrong."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        try:
            rc = self.ended(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("did not end:\n" + self.log())
        assert rc == 0, "ended with %d:\n%s" % (rc, self.log())
        for bad in ("ERROR: AddressSanitizer", "runtime error:", "LeakSanitizer",
                    "WARNING: ThreadSanitizer"):
            assert bad not in self.log(), self.log()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        if kind is None:
            self.stop()
        else:
            self.kill()
            print("# log of the daemon:")
            for line in self.lines[-40:]:
                print("#   " + line)
        self.dir.cleanup()


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="'
                    r'(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$')


def check_histogram(name, rows):
    """Bounds and counts that grow, up to +Inf and the count, for each set of labels."""
    by = {}
    for sample, labels, v in rows:
        le = [x for x in labels if x.startswith("le=")]
        rest = tuple(x for x in labels if not x.startswith("le="))
        by.setdefault(rest, []).append((sample[len(name):], le and float(le[0][4:-1]), v))
    for rest, got in by.items():
        buckets = [(le, v) for kind, le, v in got if kind == "_bucket"]
        assert buckets == sorted(buckets) and len(set(le for le, _ in buckets)) == len(buckets)
        assert [v for _, v in buckets] == sorted(v for _, v in buckets), (name, rest)
        assert [kind for kind, _, _ in got] == ["_bucket"] * len(buckets) + ["_sum", "_count"]
        assert buckets[-1] == (float("inf"), got[-1][2]), (name, rest)


def check_metrics(text):
    """Prometheus' text format, strictly: by promtool, and what it does not look at."""
    r = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert r.returncode == 0, r.stderr.decode() + r.stdout.decode()
    families, seen, now = {}, set(), None
    for line in text.decode().split("\n")[:-1]:
        if line.startswith("# HELP "):
            now = line.split(" ")[2]
            assert now not in families, "%s comes twice" % now
            families[now] = [None, []]
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == now and not families[now][0], line
            families[now][0] = line.split(" ")[3]
        else:
            m = SAMPLE.match(line)
            assert m, line
            name, labels = m.group(1), re.findall(r'[^=,]+="(?:[^"\\]|\\.)*"', m.group(2) or "")
            kind = families[now][0]
            assert name == now or (kind == "histogram" and name.startswith(now + "_")), line
            assert kind != "counter" or (name.endswith("_total") and float(m.group(3)) >= 0), line
            assert (name, tuple(labels)) not in seen, "%s comes twice" % line
            seen.add((name, tuple(labels)))
            families[now][1].append((name, labels, float(m.group(3))))
    assert text.endswith(b"\n") and len(families) > 10
    for name, (kind, rows) in families.items():
        assert kind in ("counter", "gauge", "histogram"), name
        if kind == "histogram":
            check_histogram(name, rows)


PASS = """
import fcntl, os, sys
high = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 100) for n in sys.argv[1].split(",")]
for i, n in enumerate(high):
    os.dup2(n, 3 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)))
os.execv(sys.argv[2], sys.argv[2:])
"""


def activated(socks, conf):
    """How to start it with sockets or descriptors by name, as a manager does: 3 and on."""
    fds = [s if isinstance(s, int) else s.fileno() for s in socks.values()]
    return {"args": [sys.executable, "-c", PASS, ",".join(str(n) for n in fds),
                     os.path.abspath(RLXD), "--config", conf],
            "pass_fds": fds, "env": {"LISTEN_FDNAMES": ":".join(socks)}}


def minilm(extra=""):
    if not os.path.exists(MINILM + "/model.safetensors"):
        raise Skip("the MiniLM model is not fetched")
    return "[model minilm]\npath = %s\nbuckets = 16 64 128\n%s\n" % (
        os.path.abspath(MINILM), DEVICE + extra)


def status_of(raw):
    """The status of the first reply in raw bytes; 0 if there is none."""
    # Who closed its sending half and waits is told that it is waited for.
    while raw.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
        raw = raw[25:]
    if not raw.startswith(b"HTTP/1.1 "):
        return 0
    return int(raw[9:12])
