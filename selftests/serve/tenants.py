# SPDX-License-Identifier: MIT
"""Two who share a server, by user or by key, do not see each other: regions of shared
memory, models, channels; and what one takes, the other is not left without."""
import ctypes
import fcntl
import http.client
import json
import mmap
import os
import random
import re
import signal
import socket
import struct
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from mutate import mutate
from rlxd import BUILD, ENGINES, Server, Skip, main, read_all, reset, test, wait_for
import channels

ALICE, MALLORY = 2001, 2002
SECRET = b"ALICE-PRIVATE-TENSOR-4242" + b"\0" * 3
RELU = "[model %s]\npath = " + os.path.abspath(BUILD + "/serve/relu.onnx") + "\n"
SHM = "/v2/systemsharedmemory"


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(path, method, url, body=None, key=None):
    """status and reply, over a unix socket."""
    c = Unix(path)
    try:
        c.request(method, url, None if body is None else json.dumps(body),
                  {"Authorization": "Bearer " + key} if key else {})
        r = c.getresponse()
        return r.status, r.read().decode()
    finally:
        c.close()


def as_user(uid, fn, *args):
    """What fn(*args) returns in a process of user @uid."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            out = {"ok": fn(*args)}
        except BaseException:
            out = {"bad": traceback.format_exc()}
        try:
            os.write(w, json.dumps(out).encode())
        finally:
            os._exit(0)
    os.close(w)
    data = b""
    while True:
        b = os.read(r, 65536)
        if not b:
            break
        data += b
    os.close(r)
    os.waitpid(pid, 0)
    out = json.loads(data)
    assert "ok" in out, out["bad"]
    return out["ok"]


def need_root():
    if os.geteuid():
        raise Skip("only root can be two users")


class Shm:
    """Shared memory of a user, gone at the end."""

    def __init__(self, uid, data=SECRET, size=4096, name="secret"):
        self.name = "rlxd-tenants-%d-%d-%s" % (os.getpid(), uid, name)
        self.path = "/dev/shm/" + self.name
        with open(self.path, "wb") as f:
            f.truncate(size)
            f.write(data)
        os.chmod(self.path, 0o600)
        os.chown(self.path, uid, uid)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.unlink(self.path)

    def read(self, n):
        with open(self.path, "rb") as f:
            return f.read(n)


def serve(d, sections="", server="", engine=None, shared="unix"):
    s = Server((RELU % "relu") + sections, engine=engine, listen="127.0.0.1:0 unix:%s/http" % d,
               server="shared_memory = %s\n%s" % (shared, server))
    os.chmod(d, 0o755)
    os.chmod(d + "/http", 0o666)
    s.unix = d + "/http"
    return s


def register(path, name, shm, key=None, size=64, offset=0):
    return ask(path, "POST", "%s/region/%s/register" % (SHM, name),
               {"key": "/" + shm, "offset": offset, "byte_size": size}, key)


def read_region(path, name, key=None):
    """What a model makes of a region: it is read, as far as the reply tells."""
    return ask(path, "POST", "/v2/models/relu/infer", {"inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 7], "parameters": {
            "shared_memory_region": name, "shared_memory_byte_size": 28}}]}, key)


def write_region(path, name, key=None):
    return ask(path, "POST", "/v2/models/relu/infer", {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}],
        "outputs": [{"name": "y", "parameters": {
            "shared_memory_region": name, "shared_memory_byte_size": 4}}]}, key)


def other_sees_nothing(asks, name, alices):
    """@asks(fn, ...): fn as somebody else, who knows the region's name."""
    st, out = asks(ask, "GET", SHM + "/status")
    assert (st, json.loads(out)) == (200, []), (st, out)
    st, out = asks(ask, "GET", "%s/region/%s/status" % (SHM, name))
    assert st == 404, (st, out)
    none = asks(read_region, "no-such-region")
    got = asks(read_region, name)
    assert got[0] == none[0] == 400, (got, none)
    assert got[1].replace(name, "no-such-region") == none[1], (got, none)
    got = asks(write_region, name)
    assert got[0] == 400 and "no shared memory region" in got[1], got
    for url in ("%s/region/%s/unregister" % (SHM, name), SHM + "/unregister"):
        assert asks(ask, "POST", url, {})[0] == 200
    # It has that name for itself.
    st, out = asks(register, name, alices.name)
    assert st in (200, 403), (st, out)


@test
def regions_of_another_user():
    need_root()
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as d, Shm(ALICE) as shm, serve(d, engine=engine) as s:
            assert as_user(ALICE, register, s.unix, "in", shm.name)[0] == 200
            st, out = as_user(ALICE, read_region, s.unix, "in")
            assert st == 200, out

            def mallory(fn, *args):
                return as_user(MALLORY, fn, s.unix, *args)
            other_sees_nothing(mallory, "in", shm)
            st, out = mallory(register, "mine", shm.name)
            assert st == 403 and "not owned" in out, (st, out)
            with Shm(MALLORY, b"\0" * 64) as own:
                assert mallory(register, "in", own.name)[0] == 200    # the same name
                assert mallory(write_region, "in")[0] == 200
                assert own.read(4) == struct.pack("<f", 1.0)
            # Alice notices nothing of it.
            assert shm.read(len(SECRET)) == SECRET
            st, out = as_user(ALICE, ask, s.unix, "GET", SHM + "/status")
            assert [g["name"] for g in json.loads(out)] == ["in"], out
            assert as_user(ALICE, read_region, s.unix, "in") == \
                as_user(ALICE, read_region, s.unix, "in")
            assert as_user(ALICE, ask, s.unix, "POST", SHM + "/unregister", {})[0] == 200
            assert as_user(ALICE, read_region, s.unix, "in")[0] == 400


def keys(d, *names, models=None):
    out = ""
    for n in names:
        with open("%s/%s" % (d, n), "w") as f:
            f.write("%s-has-this-secret-0123456789\n" % n)
        os.chmod("%s/%s" % (d, n), 0o600)
        out += "[key %s]\nsecret_file = %s/%s\n" % (n, d, n)
        if models and n in models:
            out += "models = %s\n" % models[n]
    return out


def secret(name):
    return name + "-has-this-secret-0123456789"


@test
def regions_of_another_key():
    """Of one user, and over TCP: there a region is told by its key alone."""
    with tempfile.TemporaryDirectory() as d, Shm(os.geteuid()) as shm:
        both = keys(d, "alice", "mallory")
        with serve(d, both, shared="local") as s:
            assert register(s.unix, "in", shm.name, key=secret("alice"))[0] == 200

            def mallory(fn, *args):
                return fn(s.unix, *args, key=secret("mallory"))
            other_sees_nothing(mallory, "in", shm)
            assert read_region(s.unix, "in", secret("alice"))[0] == 200
            assert read_region(s.unix, "in")[0] == 401
            # By the same key over TCP it is another's: who is there, nobody tells.
            st, _, out = s.get(SHM + "/status", {"Authorization": "Bearer " + secret("alice")})
            assert (st, json.loads(out)) == (200, []), (st, out)
            # A key that is taken away leaves nothing behind, also for one of its name.
            for sections in (keys(d, "mallory"), both):
                s.write(RELU % "relu" + sections)
                n = len(s.lines)
                s.signal(signal.SIGHUP)
                s.wait_log("event=reloaded", 60, after=n)
            st, out = ask(s.unix, "GET", SHM + "/status", key=secret("alice"))
            assert (st, json.loads(out)) == (200, []), (st, out)


@test
def shapes_that_change_while_they_are_read():
    """A program is kept for the shape that it was made for, for all who ask."""
    model = "[model shaped]\npath = %s/serve/shaped.onnx\nmax_shapes = 4096\n" % \
        os.path.abspath(BUILD)
    with tempfile.TemporaryDirectory() as d, Shm(os.geteuid()) as shm, \
            open(shm.path, "r+b") as f, mmap.mmap(f.fileno(), 4096) as m, \
            serve(d, model + keys(d, "alice", "mallory"), shared="local") as s:
        def shaped(key, n, **shape):
            return ask(s.unix, "POST", "/v2/models/shaped/infer", {"inputs": [
                {"name": "x", "datatype": "FP32", "shape": [n], "data": [1.0] * n},
                dict(shape, name="shape", datatype="INT64", shape=[2])]}, secret(key))

        def flip():
            while not halt:
                for shape in both:
                    m[:16] = struct.pack("<2q", *shape)
                    time.sleep(random.random() * 1e-3)
        assert register(s.unix, "in", shm.name, key=secret("mallory"))[0] == 200
        where = {"shared_memory_region": "in", "shared_memory_byte_size": 16}
        both, halt = [(3, 4), (4, 3)], []
        t = threading.Thread(target=flip)
        t.start()
        try:
            for i in range(1, 61):
                both[:] = (3, 4 * i), (4, 3 * i)
                shaped("mallory", 12 * i, parameters=where)
                for shape in both:
                    st, out = shaped("alice", 12 * i, data=shape)
                    assert st == 200, out
                    got = json.loads(out)["outputs"][0]["shape"]
                    assert got == list(shape), "%s for %s, at %d" % (got, shape, i)
        finally:
            halt.append(1)
            t.join()


@test
def regions_are_shared_out():
    """By number and by bytes of address space; one's share is not another's concern."""
    need_root()
    limits = "max_regions = 5\nmax_region_bytes = 1M\n"
    with tempfile.TemporaryDirectory() as d, Shm(ALICE) as a, Shm(MALLORY) as m, \
            Shm(MALLORY, size=1 << 45, name="huge") as huge, \
            Shm(MALLORY, size=1 << 19, name="half") as half, serve(d, server=limits) as s:
        for i in range(5):
            assert as_user(MALLORY, register, s.unix, "r%d" % i, m.name)[0] == 200
        st, out = as_user(MALLORY, register, s.unix, "r5", m.name)
        assert st == 409 and "max_regions" in out, (st, out)
        assert as_user(ALICE, register, s.unix, "r5", a.name)[0] == 200
        assert as_user(MALLORY, ask, s.unix, "POST", SHM + "/unregister", {})[0] == 200
        st, out = as_user(MALLORY, register, s.unix, "huge", huge.name)
        assert st == 409 and "max_region_bytes" in out, (st, out)
        for name, want in (("h0", 200), ("h1", 200), ("h2", 409)):
            st, out = as_user(MALLORY, register, s.unix, name, half.name)
            assert st == want, (name, st, out)
        assert as_user(MALLORY, ask, s.unix, "POST", SHM + "/region/h0/unregister", {})[0] == 200
        assert as_user(MALLORY, register, s.unix, "h2", half.name)[0] == 200
        assert as_user(ALICE, read_region, s.unix, "r5")[0] == 200


def everything(s, key):
    """All that a key is told without naming a model it has no right to."""
    h = {"Authorization": "Bearer " + key} if key else {}
    out = b""
    for method, url, body in (
            ("GET", "/metrics", None), ("GET", "/v1/models", None),
            ("POST", "/v2/repository/index", b"{}"), ("GET", "/v2", None),
            ("GET", "/healthz", None), ("GET", "/v2/health/ready", None),
            ("GET", "/nowhere", None), ("GET", SHM + "/status", None),
            ("GET", "/v2/models/no-such-model", None),
            ("POST", "/v1/embeddings", b'{"model":"no-such-model","input":"x"}'),
            ("POST", "/v2/models/no-such-model/infer", b"{}")):
        out += s.get(url, h, method, body)[2]
    return out.decode()


@test
def models_without_rights():
    """Their names stand nowhere, and asking for one is as asking for what is not there."""
    a = channels.address()
    with tempfile.TemporaryDirectory() as d:
        sections = RELU % "alices-model" + channels.channel(a, name="alices-channel") + \
            keys(d, "alice", "mallory", "all",
                 models={"alice": "alices-model", "mallory": "relu"})
        with serve(d, sections, shared="local") as s:
            for key in (secret("mallory"), None):
                out = everything(s, key)
                assert "alice" not in out, [ln for ln in out.splitlines() if "alice" in ln][:5]
                assert "rlxd_requests_total" in out
            assert 'model="relu"' in everything(s, secret("mallory"))
            assert 'model="relu"' not in everything(s, None)
            assert 'model="alices-model"' in everything(s, secret("alice"))
            for key in (secret("all"), ):
                out = everything(s, key)
                assert 'model="relu"' in out and 'model="alices-model"' in out
                assert 'channel="alices-channel"' in out
            h = {"Authorization": "Bearer " + secret("mallory")}
            for method, url, body in (
                    ("GET", "/v1/models/%s", None), ("GET", "/v2/models/%s", None),
                    ("GET", "/v2/models/%s/ready", None), ("GET", "/v2/models/%s/config", None),
                    ("GET", "/v2/models/%s/versions/1", None),
                    ("POST", "/v2/models/%s/infer", "{}"), ("POST", "/v2/models/%s/infer", ""),
                    ("DELETE", "/v2/models/%s", None),
                    ("POST", "/v1/embeddings", '{"model":"%s","input":"x"}'),
                    ("POST", "/v1/embeddings", '{"model":"%s"}')):
                got = []
                for name in ("alices-model", "no-such-model"):
                    st, head, out = s.get(url.replace("%s", name), h, method,
                                          body and body.replace("%s", name))
                    head = sorted((k, v) for k, v in head.items()
                                  if k not in ("Date", "X-Request-Id", "Content-Length"))
                    got.append((st, head, out.decode().replace(name, "NAME")))
                assert got[0] == got[1], got
                assert got[0][0] in (404, 405), got
            # Who runs the server is told of all, by who it is.
            if not os.geteuid():
                assert 'model="alices-model"' in ask(s.unix, "GET", "/metrics")[1]
                out = as_user(MALLORY, ask, s.unix, "GET", "/metrics")[1]
                assert "alice" not in out and "rlxd_requests_total" in out


# What Mallory must never be told: of a region, of numbers, of a model.
MARK = 1234.5625
MARKS = (b"ALICE", b"alices-", struct.pack("<f", MARK), b"1234.5625")


def raw_post(path, body, key, more=b""):
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
            b"Content-Length: %d\r\n%s\r\n" % (path, key.encode(), len(body), more)) + body


def shm_infer(model, region, out=None):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 16],
         "parameters": {"shared_memory_region": region, "shared_memory_byte_size": 64}}
    y = {"name": "y", "parameters": {"shared_memory_region": region, "shared_memory_offset": 64,
                                     "shared_memory_byte_size": 64}}
    return json.dumps({"inputs": [x], "outputs": [y] if out else []}).encode()


def mallorys(key, own):
    """What she may ask, of models that are hers and others, and of regions of Alice's name."""
    infer = b"/v2/models/%s/infer"
    x = {"name": "x", "datatype": "FP32", "shape": [2, 8], "data": [0.5] * 16}
    head = json.dumps({"inputs": [dict(x, data=None, parameters={"binary_data_size": 64})],
                       "parameters": {"binary_data_output": True}}).replace('"data": null, ', "")
    out = [raw_post(infer % m, json.dumps({"inputs": [x]}).encode(), key)
           for m in (b"relu", b"turned", b"shaped")]
    out += [raw_post(infer % b"relu", head.encode() + b"\1" * 64, key,
                     b"Inference-Header-Content-Length: %d\r\n" % len(head))]
    out += [raw_post(infer % b"relu", shm_infer("relu", r, o), key)
            for r in ("in", "own") for o in (False, True)]
    out += [raw_post(b"/v2/models/pick/infer", json.dumps({"inputs": [
        {"name": "x", "datatype": "INT64", "shape": [3, 1], "data": [1, 2, 9]}]}).encode(), key)]
    alices = own.replace("-%d-mallory" % MALLORY, "-0-alice")
    for r, f in (("own", own), ("in", own), ("in", alices)):
        out.append(raw_post(b"%s/region/%s/register" % (SHM.encode(), r.encode()), json.dumps(
            {"key": "/" + f, "offset": 0, "byte_size": 4096}).encode(), key))
    out += [raw_post(b"%s/%s" % (SHM.encode(), p), b"{}", key)
            for p in (b"unregister", b"region/in/unregister", b"region/own/unregister")]
    out += [b"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"
            % (p.encode(), key.encode()) for p in (
                SHM + "/status", SHM + "/region/in/status", "/metrics", "/v1/models",
                "/v2/models/relu", "/v2/models/relu/config", "/v2/models/nothing/ready")]
    return out


def mallory_asks(unix, key, own, n, seed):
    """@n requests that are not quite right; how many were answered, or the first wrong reply."""
    rng = random.Random(seed)
    good, replies = mallorys(key, own), 0
    for _ in range(n):
        data = rng.choice(good)
        if rng.randrange(4):
            head, _, body = data.partition(b"\r\n\r\n")
            if body and rng.randrange(3):
                body = mutate(rng, body, good)
                head = re.sub(rb"(\nContent-Length:) \d+", rb"\1 %d" % len(body), head)
                data = head + b"\r\n\r\n" + body
            else:
                data = mutate(rng, data, good)
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(120)
            c.connect(unix)
            try:
                c.sendall(data)
                c.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            out = read_all(c)
        replies += out.startswith(b"HTTP/1.1 ")
        told = [m for m in MARKS if m in out and m not in data]
        assert not told, (seed, told, data[:1000], out[:1000])
        assert b" 500 " not in out[:20], (seed, data[:1000], out[:1000])
    return replies


def alice_asks(s, shm, key, halt):
    """Right requests, and what is hers, until @halt; each is answered, rightly. How many."""
    n, x = 0, {"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [MARK] * 16}
    y = struct.pack("<16f", *[MARK] * 16)
    while not halt:
        st, out = ask(s.unix, "POST", "/v2/models/alices-model/infer", {"inputs": [x]}, key)
        assert st == 200 and json.loads(out)["outputs"][0]["data"] == [MARK] * 16, (st, out)
        with open(shm.path, "r+b") as f:
            f.seek(64)
            f.write(b"\0" * 64)
        st, out = ask(s.unix, "POST", "/v2/models/alices-model/infer",
                      json.loads(shm_infer("alices-model", "in", True)), key)
        assert st == 200 and shm.read(128) == y * 2, (st, out)
        st, out = ask(s.unix, "GET", SHM + "/status", key=key)
        assert [g["name"] for g in json.loads(out)] == ["in"], (st, out)
        n += 3
    return n


@test
def one_who_sends_rubbish_beside_another():
    """
    By another user with another key; RLX_TEST_SEED draws the same, RLX_EXCHANGES says how many.
    """
    need_root()
    n = int(os.environ.get("RLX_EXCHANGES", "4000")) // len(ENGINES)
    seed = int(os.environ.get("RLX_TEST_SEED") or time.time_ns() % 1000000007)
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as d, \
                Shm(0, struct.pack("<16f", *[MARK] * 16), name="alice") as shm, \
                Shm(MALLORY, b"\1" * 4096, name="mallory") as own, ThreadPoolExecutor(8) as pool:
            names = "turned", "pick", "shaped"
            sections = RELU % "alices-model" + "".join(
                (RELU % m).replace("relu.onnx", m + ".onnx") for m in names) + \
                keys(d, "alice", "mallory", models={"alice": "alices-model",
                                                    "mallory": "relu " + " ".join(names)})
            with serve(d, sections, engine=engine) as s:
                assert register(s.unix, "in", shm.name, secret("alice"), 4096)[0] == 200
                halt = []
                alice = pool.submit(alice_asks, s, shm, secret("alice"), halt)
                mallory = [pool.submit(as_user, MALLORY, mallory_asks, s.unix, secret("mallory"),
                                       own.name, n // 4, seed + k) for k in range(4)]
                try:
                    replies = sum(m.result() for m in mallory)
                finally:
                    halt.append(1)
                print("# %s: %d of %d answered, beside %d of Alice's, seed %d"
                      % (engine, replies, n, alice.result(), seed))
                assert replies > n // 2 and alice.result() > 10
                assert not [ln for ln in s.lines if "level=error" in ln and "reply lost" not in ln]
                wait_for(lambda: s.metric("rlxd_memory_bytes") == 0)


SLOW = "[model slow]\npath = %s\nbatch = yes\nmax_batch = 8\nmax_queue = 16384\n" % (
    os.path.abspath(BUILD + "/serve/slow.onnx"))
ROWS = 'rlxd_model_rows_total{model="slow",result="ok"}'
# As many addresses of one /64, and then one of another.
HERE = ["2001:db8:12:%x:%x::%x" % (1, i, i) for i in range(1, 9)] + ["2001:db8:12:2::1"]


def own_network():
    """A network of this process alone, with these addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.unshare(0x40000000), os.strerror(ctypes.get_errno())    # CLONE_NEWNET
    with socket.socket() as v4, socket.socket(socket.AF_INET6) as v6:
        ifr = struct.pack("16sh14x", b"lo", 1 | 64)             # IFF_UP | IFF_RUNNING
        fcntl.ioctl(v4, 0x8914, ifr)                            # SIOCSIFFLAGS
        for a in HERE:
            fcntl.ioctl(v6, 0x8916, struct.pack(                # SIOCSIFADDR
                "16sIi", socket.inet_pton(socket.AF_INET6, a), 128, socket.if_nametoindex("lo")))


def rows_from(s, address, n):
    """Asks for so many rows, from that address; the socket to read from."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [n, 64],
                                   "data": [1] * (n * 64)}]}).encode()
    to = (address if "." in address else "::1", s.port)
    c = socket.create_connection(to, 600, (address, 0))
    c.sendall(b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return c


def rows_passed(bits, engine, mine="2001:db8:12:2::1"):
    """Rows of a client's eight addresses that were run while another had a hundred."""
    own_network()
    with Server(SLOW, engine=engine, listen="", server="listen_insecure = [::]:0\nthreads = 1\n"
                "access_log = all\n" + ("ipv6_prefix = %d\n" % bits if bits else "")) as s:
        socks = [rows_from(s, a, 1000) for a in HERE[:8]]
        waiting = 'rlxd_model_queue_rows{model="slow"}'
        wait_for(lambda: s.metric(waiting) > 7000, 60)
        before = s.metric(ROWS)
        c = rows_from(s, mine, 100)
        reply = read_all(c)
        passed = s.metric(ROWS) - before - 100
        assert reply.startswith(b"HTTP/1.1 200 "), reply[:200]
        assert s.metric(waiting) > 1000, "the others were through"
        for c in socks:
            reset(c)
        s.wait_log("path=/v2/models/slow/infer status=200")
        assert any("client=%s " % mine in ln for ln in s.lines), s.log()
    return passed


@test
def addresses_of_one_prefix():
    """Who has a /64 has the share of one client by all of it, unless it is to be otherwise."""
    need_root()
    for engine in ENGINES:
        one = as_user(0, rows_passed, 0, engine)
        ipv4 = as_user(0, rows_passed, 0, engine, "127.0.0.1")
        each = as_user(0, rows_passed, 128, engine)
        same = as_user(0, rows_passed, 44, engine)
        print("# %s: beside 100 rows %d of a /64, %d by IPv4, %d of eight clients, %d of the same"
              % (engine, one, ipv4, each, same))
        # As many, what ran before, and what runs until the reply is there.
        assert one < 200 and ipv4 < 200, (one, ipv4)
        assert each > 500 and same > 500, (each, same)


def fill(address, most):
    """Opens channels until one is refused: how many, and why."""
    n, why = [], ""
    for _ in range(most):
        try:
            n.append(channels.connect(address))
        except Exception as e:
            why = str(e)
            break
    return len(n), why, usable(n[0])


def usable(ch):
    import numpy as np
    x, y = ch.empty((1, 8)), ch.empty((1, 8))
    x[...] = np.arange(8) - 4
    ch.infer("relu", [x], [y])
    return y.tolist() == [[0, 0, 0, 0, 0, 1, 2, 3]]


def one_channel(address):
    return usable(channels.connect(address))


def hold_silent(uid, address, n):
    """A process of that user that connects @n times and says nothing until it is ended."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.setgroups([])
        os.setuid(uid)
        held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(n)]
        for c in held:
            try:
                c.connect("\0" + address[1:])
            except OSError:
                pass
        os.write(w, b"x")
        signal.pause()
    os.close(w)
    assert os.read(r, 1) == b"x"
    os.close(r)
    return pid


@test
def channels_are_shared_out():
    """One user's clients, also those that never say a word, leave room for others."""
    need_root()
    a = channels.address()
    with tempfile.TemporaryDirectory() as d:
        c = channels.channel(a, "users = %d, %d\nmax_clients = 12\nmax_user_clients = 8\n"
                             % (ALICE, MALLORY))
        with serve(d, c) as s:
            pid = hold_silent(MALLORY, a, 40)
            try:
                assert as_user(ALICE, one_channel, a)
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            wait_for(lambda: s.metric('rlxd_channel_clients{channel="c"}') == 0, 60)
            n, why, ok = as_user(MALLORY, fill, a, 40)
            assert ok and n == 8 and "as many clients as one may" in why, (n, why, ok)
            assert as_user(ALICE, one_channel, a)


main()
