# SPDX-License-Identifier: MIT
"""Servers that serve in turns: the next one goes on where the one before it ended."""
import fcntl
import json
import os
import random
import signal
import subprocess
import time

from channels import Load, address, channel, rlx
from fd_store_rig import GET, OK, PUT, TEXTS, Clients, FdStore, adopted, free_port
from rlxd import BUILD, ENGINES, RLXD, Server, begin_request, main, minilm, test, wait_for

KILLS = 6
VISION = "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")


def fds(*servers):
    """Descriptors of each: the least of some readings, for connections come and go."""
    out = []
    for _ in range(10):
        out.append([len(os.listdir("/proc/%d/fd" % s.proc.pid)) for s in servers])
        time.sleep(0.05)
    return [min(v) for v in zip(*out)]


class Pair:
    """An fd store and servers in turns, the first of which serves."""

    def __init__(self, sections="", engine=None):
        self.sections, self.engine = sections, engine
        self.listen = "127.0.0.1:%d" % free_port()
        self.servers, self.killed = [], []

    def start(self, what="standing by"):
        s = Server(self.sections, engine=self.engine, wait=False, listen=self.listen,
                   server=self.fd_store.conf() + "standby = yes\n")
        self.servers.append(s)
        s.wait_log("event=ready", 60)
        s.wait_log('event="%s"' % what if " " in what else "event=" + what, 60)
        return s

    def kill(self, s):
        s.proc.kill()
        self.servers.remove(s)
        self.killed.append(s)

    def bury(self):
        """Until then one may take a connection to its end, though the next one serves."""
        for s in self.killed:
            s.proc.wait()

    def __enter__(self):
        self.fd_store = FdStore().__enter__()
        self.start("started")
        self.start()
        return self

    def __exit__(self, kind, value, tb):
        for s in self.servers:
            if kind is None:
                s.stop()
            else:
                s.__exit__(kind, value, tb)
        self.fd_store.__exit__(kind, value, tb)


@test
def the_next_one_goes_on():
    """Under load: nobody is refused, no reply is lost or wrong; nothing adds up."""
    for engine in ENGINES:
        with Pair(minilm(), engine) as p:
            first = p.servers[0]
            wait_for(lambda: first.metric("rlxd_standby_ready") == 1)
            assert first.metric("rlxd_took_over") == 0
            before = fds(p.fd_store, p.servers[1])
            load = Clients(first.port, {t: first.embed(t)[0] for t in TEXTS})
            try:
                for _ in range(KILLS):
                    time.sleep(0.2)
                    s = p.servers[1]
                    p.kill(p.servers[0])
                    s.wait_log("took over")
                    done = load.done
                    wait_for(lambda: load.done > done + 4)
                    p.bury()
                    assert s.metric("rlxd_took_over") == 1 and adopted(s) == 1
                    p.start()
                    wait_for(lambda: s.metric("rlxd_standby_ready") == 1)
            finally:
                load.end = True
            load.stop()
            assert load.again and load.done > KILLS
            wait_for(lambda: fds(p.fd_store, p.servers[1]) == before)


@test
def begun_at_once():
    """As at a boot, with nothing kept: one of them serves, the others stand by."""
    with FdStore() as k:
        listen = "127.0.0.1:%d" % free_port()
        some = [Server(VISION, wait=False, listen=listen,
                       server=k.conf() + "standby = yes\n") for _ in range(4)]
        try:
            for s in some:
                s.wait_log("event=ready", 60)
            one = wait_for(lambda: [s for s in some if "event=started" in s.log()])
            wait_for(lambda: all("standing by" in s.log() for s in some if s not in one))
            assert len(one) == 1 and one[0].get("/healthz")[0] == 200
        finally:
            for s in some:
                s.kill()


@test
def whoever_stands_by_may_die():
    with Pair(minilm()) as p:
        a, b = p.servers
        want = a.embed("hello")
        p.kill(b)
        p.bury()
        wait_for(lambda: a.metric("rlxd_standby_ready") == 0)
        assert a.embed("hello") == want
        p.start()
        # Some more wait behind it: each gets its turn, in whichever order.
        p.start()
        p.start()
        for _ in range(3):
            s = p.servers[0]
            p.kill(s)
            p.bury()
            assert s.embed("hello") == want     # by the same port
            wait_for(lambda: any("took over" in s.log() for s in p.servers))
            p.servers.sort(key=lambda s: 'event="took over"' not in s.log())
        # And both at once: what is kept is enough.
        assert len(p.servers) == 1
        for s in (p.start(), p.servers[0]):
            p.kill(s)
        s = p.start("started")
        p.bury()
        assert adopted(s) == 1 and s.embed("hello") == want


@test
def killed_again_and_again():
    """At any moment of a start, of whichever is there."""
    rng = random.Random(7)
    with Pair(minilm()) as p:
        want = p.servers[0].embed("hello")
        before = fds(p.fd_store)
        for _ in range(20):
            s = Server(p.sections, wait=False, listen=p.listen,
                       server=p.fd_store.conf() + "standby = yes\n")
            p.servers.append(s)
            time.sleep(rng.random() * 0.08)
            if rng.random() < 0.7:
                p.kill(rng.choice(p.servers))
        while p.servers:
            p.kill(p.servers[0])
        s = p.start("started")
        p.bury()
        assert s.embed("hello") == want
        p.start()
        wait_for(lambda: fds(p.fd_store) == before)


@test
def it_stands_by_with_what_was_reloaded():
    with Pair(minilm()) as p:
        a, b = p.servers
        want = a.embed("hello")
        for s in p.servers:
            s.write(minilm() + VISION)
        a.signal(signal.SIGHUP)
        a.wait_log("event=reloaded", 60)
        b.wait_log("event=reloaded models=2", 60)
        p.kill(a)
        p.bury()
        b.port = a.port
        assert b.embed("hello") == want
        assert b.get("/v2/models/vision/ready")[0] == 200
        # One that fails is tried again, by whoever stands by alone.
        c = p.start()
        c.write(minilm() + "[model x]\npath = /nowhere\n")
        b.signal(signal.SIGHUP)
        c.wait_log("reload failed", 60)
        c.write(minilm())
        c.wait_log("event=reloaded models=1", 60)
        n = len(b.lines)
        b.write("[model x]\n")
        b.signal(signal.SIGHUP)
        b.wait_log("reload failed", 60, after=n)
        time.sleep(2)
        assert sum("event=reloaded" in ln for ln in c.lines) == 1, c.log()
        # Nobody asks it, but it can be told itself.
        n = len(c.lines)
        c.signal(signal.SIGHUP)
        c.wait_log("event=reloaded", 60, after=n)


@test
def told_to_end():
    """The next one serves while what was asked of this one is answered."""
    with Pair(minilm()) as p:
        a, b = p.servers
        body = json.dumps({"model": "minilm", "input": "hello"}).encode()
        head = (b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                % len(body))
        c = a.connect()
        begin_request(c, head)
        c.sendall(body[:9])
        late = a.connect()
        a.signal(signal.SIGTERM)
        # Whichever of them has it; but who is silent for a second is not waited for.
        late.sendall(head + body)
        b.wait_log("took over")
        assert a.proc.poll() is None
        assert late.recv(4096).startswith(b"HTTP/1.1 200"), "not answered"
        late.close()
        b.port = a.port
        assert b.embed("hello")
        c.sendall(body[9:])
        assert c.recv(4096).startswith(b"HTTP/1.1 200"), "not answered"
        c.close()
        assert a.ended() == 0
        p.servers.remove(a)
        s = p.start()
        s.stop()
        p.servers.remove(s)
        wait_for(lambda: b.metric("rlxd_standby_ready") == 0)


@test
def told_to_end_again_and_again():
    """Who connects at that moment is answered, by the old one or by the next."""
    for engine in ENGINES:
        with Pair(minilm(), engine) as p:
            first = p.servers[0]
            load = Clients(first.port, {"a": first.embed("a")[0]}, anew=True)
            try:
                for _ in range(KILLS):
                    s, nxt = p.servers
                    done = load.done
                    wait_for(lambda: load.done > done + 20)
                    s.signal(signal.SIGTERM)
                    nxt.wait_log("took over")
                    assert s.ended() == 0, s.log()
                    s.stop()
                    p.servers.remove(s)
                    p.start()
            finally:
                load.end = True
            load.stop()
            assert not load.again, load.again


@test
def without_the_fd_store():
    """It is needed to begin, not to go on."""
    with Pair(minilm()) as p:
        a, b = p.servers
        want = a.embed("hello")
        p.fd_store.proc.kill()
        p.fd_store.proc.wait()
        os.unlink(p.fd_store.path)
        p.kill(a)
        p.bury()
        b.port = a.port
        assert b.embed("hello") == want
        b.stop()
        s = Server(minilm(), listen=p.listen, server=p.fd_store.conf() + "standby = yes\n")
        p.servers = [s]
        assert "cannot stand by" in s.log() and s.embed("hello") == want
        s.stop()
        p.servers = []
        p.fd_store.proc = subprocess.Popen([RLXD, "--fd-store", p.fd_store.path])
        wait_for(lambda: os.path.exists(p.fd_store.path))


@test
def an_fd_store_is_needed():
    r = subprocess.run([RLXD, "--check", "--config", "/dev/stdin"], text=True, capture_output=True,
                       input="[server]\nstandby = yes\n")
    assert r.returncode == 1 and "standby needs an fd store" in r.stderr, r


@test
def what_is_kept_as_the_leader_lock():
    """Whatever it is: a line in the log, and it serves."""
    with FdStore() as k:
        for data, why in ((b"x", "too small"), (b"x" * 4096, "another build"), (None, "")):
            fd = os.open("/dev/null", os.O_RDWR) if data is None else os.memfd_create(
                "hostile", os.MFD_ALLOW_SEALING)
            if data:
                os.write(fd, data)
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            assert k.ask(PUT, "leader-lock", k.ask(GET, "leader-lock")[2], fd)[0] == OK
            os.close(fd)
            with Server(VISION, server=k.conf() + "standby = yes\n") as s:
                bad = [ln for ln in s.lines if "cannot stand by" in ln]
                assert len(bad) == 1 and why in bad[0], s.log()
                assert s.get("/healthz")[0] == 200


@test
def channels_are_passed_on():
    """Their clients find the next one, killed or told to end."""
    where = address()
    relu = "[model relu]\npath = %s/serve/relu.onnx\n" % os.path.abspath(BUILD)
    with Pair(relu + channel(where)) as p:
        load = Load(where, flags=rlx.RECOVER_ALL, pause=0.01)
        for sig in (signal.SIGKILL, signal.SIGTERM) * 2:
            time.sleep(0.3)
            a, b = p.servers
            a.signal(sig)
            b.wait_log("channel open", 60)
            done = load.done
            wait_for(lambda: load.done > done + 10)
            p.servers.remove(a)
            a.ended(60)
            p.start()
        assert load.stop() > 40


main()
