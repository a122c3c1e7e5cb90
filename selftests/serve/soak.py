# SPDX-License-Identifier: MIT
"""
Minutes of load with reloads, vanishing and hostile clients, then with kills; half of
the clients come by TLS, whose certificate changes with each reload. Others come over a
channel, and find the next server by themselves.

Each reply is compared with what a quiet server said. In the first three quarters the
server is not killed: there no request may fail, and at the end neither memory nor
descriptors may have grown. Then it is killed (SIGKILL) every few seconds and started
on the same listening socket: a client that lost its connection asks again and must
get the right reply, and nothing else may fail. An fd store has the weights, which the
next server adopts unless their files were replaced; now and then it is killed too.
Another server stands by, follows all reloads, and goes on; or is killed as well.
"""
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import certs
from channels import Load, address, channel, rlx
from rlxd import BUILD, ENGINES, RLXD, activated, main, reset, test, wait_for

MINUTES = float(os.environ.get("RLX_SOAK_MINUTES", "20"))
SECRET = "secret-of-the-soak"
TEXTS = ["a", "hello world", "the quick brown fox jumps over the lazy dog " * 2,
         "word " * 50, "Zürich und 北京"]


class Daemon:
    """rlxd on a socket that outlives it."""

    def __init__(self, dir):
        self.dir = dir
        self.ln = {name: socket.create_server(("127.0.0.1", 0), backlog=512)
                   for name in ("http", "tls")}
        self.port, self.tls_port = (s.getsockname()[1] for s in self.ln.values())
        certs.ca("ca")
        self.certify()
        with open(dir + "/secret", "w") as f:
            f.write(SECRET)
        os.chmod(dir + "/secret", 0o600)
        self.log = open(dir + "/log", "a")
        self.channel = address()
        self.write(False)
        self.keep()
        self.start()

    def write(self, second):
        with open(self.dir + "/conf.new", "w") as f:
            f.write("[server]\naccess_log = none\nengine = %s\nidle_timeout = 5s\n"
                    "header_timeout = 2s\nbody_timeout = 5s\nfd_store = %s/store\n"
                    "standby = yes\n%s"
                    "[key soak]\nsecret_file = %s/secret\n"
                    "[model minilm]\npath = %s/m\nbuckets = 16 64\n"
                    "[model relu]\npath = %s/serve/relu.onnx\n%s"
                    % (ENGINES[0], self.dir, certs.options("live"), self.dir, self.dir,
                       os.path.abspath(BUILD), channel(self.channel)))
            if second:
                f.write("[model second]\npath = %s\n" % os.path.abspath(
                    BUILD + "/serve/vision.onnx"))
        os.rename(self.dir + "/conf.new", self.dir + "/conf")

    def certify(self):
        """Another certificate; a start between the two files would fail, so none is."""
        certs.cert("next")
        for end in (".pem", ".key"):
            os.rename(certs.DIR + "/next" + end, certs.DIR + "/live" + end)

    def keep(self):
        self.fd_store = subprocess.Popen([RLXD, "--fd-store", self.dir + "/store"],
                                       stderr=self.log)

    def begin(self):
        how = activated(self.ln, self.dir + "/conf")
        how["env"] = dict(os.environ, **how["env"])
        return subprocess.Popen(stderr=self.log, **how)

    def start(self):
        """One that serves, and then one that stands by."""
        self.proc = self.begin()
        wait_for(self.ready, 60)
        self.next = self.begin()
        wait_for(self.stood_by, 60)

    def stood_by(self):
        return self.metrics()["rlxd_standby_ready"] == 1

    def kill(self, both):
        """The one that serves; another one does when this returns."""
        self.proc.kill()
        self.proc.wait()
        if both:
            self.next.kill()
            self.next.wait()
            self.start()
            return
        self.proc = self.next
        wait_for(self.ready, 60)
        self.next = self.begin()

    def client(self, tls=False):
        if tls:
            return http.client.HTTPSConnection("localhost", self.tls_port, timeout=120,
                                               context=certs.context())
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def metrics(self):
        c = self.client()
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        return {ln.rsplit(" ", 1)[0]: float(ln.rsplit(" ", 1)[1])
                for ln in text.splitlines() if not ln.startswith("#")}

    def ready(self):
        try:
            return self.metrics().get("rlxd_ready") == 1
        except (OSError, http.client.HTTPException):
            return False

    def adopted(self):
        """How often weights were adopted; a reload soon after hides it from the metrics."""
        with open(self.dir + "/log") as f:
            return f.read().count("weights adopted")

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.proc.pid))


def ask(c, text):
    c.request("POST", "/v1/embeddings", json.dumps({"model": "minilm", "input": text}),
              {"Authorization": "Bearer " + SECRET})
    r = c.getresponse()
    body = r.read()
    return r.status, body


class Soak:
    def __init__(self, d):
        self.d = d
        self.end = self.kills = False
        self.up = threading.Lock()      # held while it is killed and started
        self.ok = self.again = self.reloads = self.killed = self.vanished = 0
        self.bad = []
        c = d.client()
        self.want = {}
        for t in TEXTS:
            st, body = ask(c, t)
            assert st == 200, body
            self.want[t] = json.loads(body)["data"][0]["embedding"]
        c.close()

    def right(self, text, body):
        """A batch may round differently; a wrong reply is far away from that."""
        got = json.loads(body)["data"][0]["embedding"]
        return max(abs(a - b) for a, b in zip(got, self.want[text])) < 2e-6

    def good(self, seed):
        rng = random.Random(seed)
        c = self.d.client(tls=seed % 2)
        while not self.end:
            text = rng.choice(TEXTS)
            while not self.end:
                try:
                    st, body = ask(c, text)
                except (OSError, http.client.HTTPException) as e:
                    c.close()
                    if not self.kills:
                        self.bad.append("lost: %r" % e)
                    self.again += 1
                    time.sleep(0.05)
                    continue
                if st == 503 and self.kills:    # it is being loaded
                    self.again += 1
                    time.sleep(0.05)
                    continue
                break
            else:
                break
            if st != 200:
                self.bad.append("%d %s" % (st, body[:200]))
            elif not self.right(text, body):
                self.bad.append("a wrong vector")
            self.ok += 1
            if rng.random() < 0.05:
                c.close()
        c.close()

    def vanish(self, seed):
        rng = random.Random(seed)
        body = json.dumps({"model": "minilm", "input": ["word " * 30] * 5}).encode()
        whole = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                 b"Content-Length: %d\r\n\r\n" % (SECRET.encode(), len(body))) + body
        while not self.end:
            try:
                tls = rng.random()
                port = self.d.port if tls < 0.5 else self.d.tls_port
                c = socket.create_connection(("127.0.0.1", port), timeout=30)
                if tls > 0.7:       # in between: what is no TLS at all
                    c = certs.context().wrap_socket(c, server_hostname="localhost")
                data = whole
                if rng.random() < 0.3:
                    data = bytes(rng.randrange(256) for _ in range(300)) + b"\r\n\r\n"
                c.sendall(data[:rng.randrange(1, len(data) + 1)])
                time.sleep(rng.random() * 0.2)
                if rng.random() < 0.5:
                    reset(c)
                else:
                    c.close()
                self.vanished += 1
            except OSError:
                pass
            time.sleep(0.05)

    def vanish_from_channel(self):
        rng = random.Random(99)
        while not self.end:
            p = subprocess.Popen([BUILD + "/bin/rlx", "load", "--to", "channel:" + self.d.channel,
                                  "--model", "relu", "--size", "4", "--size", "32",
                                  "--connections", "3", "--rate", "300"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * 2)
            p.kill()
            p.wait()
            self.vanished += 1

    def reload(self):
        n = 0
        while not self.end:
            time.sleep(1 if MINUTES < 5 else 5)
            n += 1
            self.d.write(n % 2)
            if n % (9 if self.kills else 3) == 0:   # seldom, so that some are adopted
                shutil.copy(self.d.dir + "/m/model.safetensors", self.d.dir + "/new")
                os.replace(self.d.dir + "/new", self.d.dir + "/m/model.safetensors")
            with self.up:       # before it listens to signals, this one would end it
                self.d.certify()
                self.d.proc.send_signal(signal.SIGHUP)
            self.reloads += 1

    def run(self):
        threads = [threading.Thread(target=self.good, args=(i,)) for i in range(4)]
        threads += [threading.Thread(target=self.vanish, args=(i,)) for i in range(2)]
        threads += [threading.Thread(target=t)
                    for t in (self.vanish_from_channel, self.reload)]
        loads = [Load(self.d.channel, flags=rlx.RECOVER_ALL, pause=0.01) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            self.peace()
            self.war()
        finally:
            self.end = True
            for t in threads:
                t.join()
        self.channel = sum(ld.stop() for ld in loads)

    def settled(self):
        """The least of some readings: requests under way come and go."""
        rss, fds = [], []
        for _ in range(20):
            rss.append(self.d.metrics()["process_resident_memory_bytes"])
            fds.append(self.d.fds())
            time.sleep(0.2)
        return min(rss), min(fds)

    def peace(self):
        time.sleep(MINUTES * 60 * 0.25)
        first = self.settled()
        time.sleep(MINUTES * 60 * 0.5)
        last = self.settled()
        print("# after a quarter: %.1f MB, %d descriptors; after three: %.1f MB, %d"
              % (first[0] / 1e6, first[1], last[0] / 1e6, last[1]))
        assert self.d.proc.poll() is None, "ended by itself"
        assert not self.bad, self.bad[:5]
        # Two loads of the model may overlap; anything that grows with time is more.
        assert last[0] < first[0] * 1.25 + 30e6, (first, last)
        assert last[1] <= first[1] + 12, (first, last)

    def war(self):
        self.kills = True
        end = time.monotonic() + MINUTES * 60 * 0.25
        while time.monotonic() < end:
            time.sleep(random.random() * 4 + 1)
            with self.up:
                self.d.kill(random.random() < 0.2)
                self.killed += 1
                if random.random() < 0.15:
                    self.d.fd_store.kill()
                    self.d.fd_store.wait()
                    self.d.keep()
                    self.d.kill(True)       # they are of the former fd store
        assert not self.bad, self.bad[:5]


@test
def soak():
    with tempfile.TemporaryDirectory() as tmp:
        shutil.copytree(BUILD + "/models/minilm", tmp + "/m")
        d = Daemon(tmp)
        try:
            wait_for(d.ready, 60)
            s = Soak(d)
            s.run()
            print("# %d replies right and %d over channels, %d asked again, %d reloads, "
                  "%d kills, %d vanished, weights adopted %d times"
                  % (s.ok, s.channel, s.again, s.reloads, s.killed, s.vanished, d.adopted()))
            assert not s.bad, s.bad[:5]
            assert s.ok > 100 and s.killed and s.reloads and s.vanished and d.adopted()
            assert s.channel > 100
            for what in ("clients", "arenas", "arena_bytes"):
                wait_for(lambda: d.metrics()['rlxd_channel_%s{channel="c"}' % what] == 0)
            for p in (d.next, d.proc):
                p.send_signal(signal.SIGTERM)
                assert p.wait(60) == 0
        finally:
            for p in (d.next, d.proc, d.fd_store):
                p.kill()
            d.log.flush()
            with open(tmp + "/log") as f:
                lines = [ln for ln in f if "level=error" in ln or "Sanitizer" in ln]
            for ln in lines[-10:]:
                print("# " + ln.rstrip())


main()
