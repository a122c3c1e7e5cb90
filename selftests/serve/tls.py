# SPDX-License-Identifier: MIT
"""TLS: real clients, wrong certificates, slow and broken handshakes, changed keys."""
import contextlib
import http.client
import json
import os
import pwd
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import numpy as np
import openai
import tritonclient.http as triton

import certs
from rlxd import (BUILD, ENGINES, RLXD, Server, Skip, activated, begin_request, check_metrics,
                  lately_slow, main, minilm, patience, read_all, reset, slowness, status_of, test,
                  trickle, wait_for, within)
from tls_server import AUTH, DIR, KEY, SECRET, VISION_CONF, TlsServer, https

VISION = os.path.abspath(BUILD + "/serve/vision.onnx")

certs.ca("stranger")
certs.cert("server-rsa", rsa=True)
certs.cert("elsewhere", host="elsewhere.example")
certs.cert("expired", days=-1)
certs.cert("second")
certs.cert("client")
certs.cert("client-of-stranger", by="stranger")


def each_engine(fn):
    for engine in ENGINES:
        def one(engine=engine):
            fn(engine)
        one.__name__ = "%s_%s" % (fn.__name__, engine)
        test(one)
    return fn


def curl(s, *args, path="/healthz"):
    return subprocess.run(["curl", "-sS", "--max-time", "20", "--cacert", DIR + "/ca.pem",
                           "-H", "Authorization: Bearer " + SECRET, *args, s.url(path)],
                          capture_output=True, text=True)


@each_engine
def curl_over_tls(engine):
    with TlsServer(minilm(), engine=engine) as s:
        for name in ("1.2", "1.3"):
            r = curl(s, "--tlsv" + name, "--tls-max", name, "--json",
                     '{"model": "minilm", "input": "hello"}', "-w", "\n%{http_version}",
                     path="/v1/embeddings")
            assert r.returncode == 0, r
            body, version = r.stdout.rsplit("\n", 1)
            assert version == "1.1" and len(json.loads(body)["data"][0]["embedding"]) == 384
        r = curl(s, "--json", "@-", "-H", "Expect: 100-continue", path="/v1/embeddings")
        assert r.returncode == 0, r


@test
def rsa_and_old_versions():
    with TlsServer(cert="server-rsa") as s:
        assert curl(s).stdout == "ok\n"
        for v in ("1.0", "1.1"):
            r = curl(s, "--tls-max", v, "--tlsv1.0", "--ciphers", "DEFAULT@SECLEVEL=0")
            assert r.returncode == 35, r
        assert s.metric('rlxd_tls_handshakes_total{result="failed"}') >= 2
        assert "unsupported protocol" in s.log(), s.log()


@each_engine
def official_clients(engine):
    with TlsServer(minilm() + VISION_CONF, engine=engine) as s:
        c = openai.OpenAI(base_url=s.url("/v1"), api_key=SECRET,
                          http_client=openai.DefaultHttpxClient(verify=certs.context()))
        many = c.embeddings.create(model="minilm", input=["hello", "x y z", "word " * 40])
        assert len(many.data) == 3 and len(many.data[2].embedding) == 384
        assert many.data[0].embedding == s.embed("hello", headers=AUTH)[0] or np.allclose(
            many.data[0].embedding, s.embed("hello", headers=AUTH)[0], atol=2e-6)
        c.close()
        t = triton.InferenceServerClient("localhost:%d" % s.tls_port, ssl=True, concurrency=4,
                                         ssl_context_factory=certs.context)
        x = np.random.default_rng(1).standard_normal((64, 3, 16, 16), dtype=np.float32)
        i = triton.InferInput("x", x.shape, "FP32")
        i.set_data_from_numpy(x)
        want = t.infer("vision", [i], headers=AUTH).as_numpy("y")
        for f in [t.async_infer("vision", [i], headers=AUTH) for _ in range(12)]:
            assert np.array_equal(f.get_result().as_numpy("y"), want)
        t.close()


@each_engine
def application_protocol(engine):
    with TlsServer(engine=engine) as s:
        c = s.connect(ctx=certs.context(alpn=["h2", "http/1.1"]))
        assert c.selected_alpn_protocol() == "http/1.1"
        c.close()
        c = s.connect()
        assert c.selected_alpn_protocol() is None
        c.close()
        try:
            s.connect(ctx=certs.context(alpn=["h2"]))
            assert False
        except ssl.SSLError as e:
            assert "no application protocol" in str(e).lower(), e


@test
def nothing_without_a_key():
    with TlsServer(minilm(), server="shared_memory = local\n") as s:
        assert s.get("/healthz", {})[0] == 200
        for path in ("/metrics", "/v1/models", "/v2/models/minilm"):
            assert s.get(path, {})[0] == 401, path
            assert s.get(path, {"Authorization": "Bearer " + "x" * 23})[0] == 401, path
            assert s.get(path)[0] == 200, path
        check_metrics(s.get("/metrics")[2])
        # Not even with one: files of this machine are nobody's elsewhere.
        assert s.get("/v2/systemsharedmemory/status")[0] == 403
        # A reload without keys is no way in.
        n = len(s.lines)
        with open(s.conf, "w") as f:
            f.write("[server]\nlisten = 127.0.0.1:0\n" + minilm())
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded", 30, after=n)
        try:
            assert s.get("/v1/models", {})[0] == 401
            assert False, "there is no certificate any more"
        except (ssl.SSLError, ConnectionError):
            pass


def check(conf, **how):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(conf)
        f.flush()
        os.chmod(f.name, 0o644)
        r = subprocess.run([os.path.abspath(RLXD), "--config", f.name, "--check"],
                           capture_output=True, text=True, **how)
        return r.returncode, r.stdout + r.stderr


@test
def configurations_that_are_refused():
    here = certs.options("server")
    os.chmod(DIR + "/server.pem", 0o600)    # it is given as a key below
    for conf, want in (
            ("listen = 0.0.0.0:0\n" + here + KEY, "0.0.0.0:0 is not an address of this machine"),
            ("listen = [::]:0\n" + here + KEY, "write tls:[::]:0"),
            ("listen = tls:0.0.0.0:0\n" + KEY, "needs tls_certificate and tls_key"),
            ("listen = tls:0.0.0.0:0\n" + here, "needs a [key NAME] section"),
            ("listen = tls:unix:/x\n" + here + KEY, "TLS is for addresses of the network"),
            ("listen = tls:x\n" + here + KEY, "'tls:x' is no address"),
            ("tls_key = %s/server.key\n" % DIR, "belong together"),
            ("tls_client_ca = %s/ca.pem\n" % DIR, "belong together"),
            ("tls_certificate = /nonexistent\ntls_key = %s/server.key\n" % DIR,
             "tls_certificate = /nonexistent: No such file"),
            ("tls_certificate = %s/server.pem\ntls_key = /nonexistent\n" % DIR,
             "tls_key = /nonexistent: No such file"),
            (here + "tls_client_ca = /nonexistent\n", "tls_client_ca = /nonexistent: No such"),
            (here + "tls_client_ca = %s/secret\n" % DIR, "no certificates in PEM form"),
            (here.replace("server.key", "second.key"), "is not the key of"),
            (here.replace("server.key", "server-rsa.key"), "is not the key of"),
            (here.replace("server.pem", "server.key"), "not the chain of"),
            (here.replace("server.key", "server.pem"), "not a private key in PEM"),
            (here.replace("server.key", "locked.key"), "needs a passphrase"),
            (here.replace("server.pem", "empty.pem"), "not the chain of")):
        certs.openssl("ec", "-in", "server.key", "-aes128", "-passout", "pass:x", "-out",
                      "locked.key")
        open(DIR + "/empty.pem", "w").close()
        rc, out = check("[server]\n" + conf)
        assert rc == 1 and want in out, (conf, rc, out)
    os.chmod(DIR + "/server.pem", 0o644)
    rc, out = check("[server]\nlisten = tls:0.0.0.0:0 tls:[::]:0\n" + here + KEY)
    assert rc == 0, out


@test
def files_that_may_not_be_read():
    if os.geteuid():
        raise Skip("not root: nobody else to be")
    os.chmod(DIR, 0o755)
    os.chown(DIR + "/secret", pwd.getpwnam("nobody").pw_uid, -1)
    try:
        rc, out = check("[server]\nlisten = tls:127.0.0.1:0\n" + certs.options("server") + KEY,
                        user="nobody", cwd="/")
    except PermissionError:
        raise Skip("nobody else may come here")
    finally:
        os.chown(DIR + "/secret", 0, -1)
    assert rc == 1 and "server.key: Permission denied" in out, out


@test
def readable_keys_are_refused():
    certs.cert("open")
    for mode in (0o644, 0o604, 0o602):
        os.chmod(DIR + "/open.key", mode)
        rc, out = check("[server]\n" + certs.options("open"))
        assert rc == 1 and "every user of this machine" in out and "open.key" in out, out
    os.chmod(DIR + "/open.key", 0o660)
    rc, out = check("[server]\n" + certs.options("open"))
    assert rc == 0 and "a group can read or write a secret" in out, out


@test
def certificates_that_clients_refuse():
    for cert, code in (("expired", "expired"), ("elsewhere", "subject name")):
        with TlsServer(cert=cert) as s:
            r = curl(s)
            assert r.returncode == 60 and code in r.stderr, r
            if cert == "expired":
                assert "the certificate has expired" in s.log(), s.log()
                wait_for(lambda: "TLS handshake failed" in s.log())
    with TlsServer() as s:
        r = subprocess.run(["curl", "-sS", "--cacert", DIR + "/stranger.pem", s.url("/healthz")],
                           capture_output=True, text=True)
        assert r.returncode == 60, r
        wait_for(lambda: "unknown ca" in s.log())


def rlx_load(s, *args, to=None):
    """rlx load of half a second; its exit status, what it measured, what it complained of."""
    r = subprocess.run([BUILD + "/bin/rlx", "load", "--json", "--seconds", "0.5", "--warm-up", "0",
                        "--to", to or https("localhost:%d" % s.tls_port),
                        "--header", "Authorization: Bearer " + SECRET, *args],
                       capture_output=True, text=True, timeout=60)
    return r.returncode, json.loads(r.stdout)["requests"] if r.stdout else None, r.stderr


@each_engine
def load_over_tls(engine):
    """Requests and replies of many records, by a name and by an address."""
    with TlsServer(minilm(), engine=engine, server="max_body = 1M\n") as s:
        ca = "--ca", DIR + "/ca.pem"
        many = json.dumps({"model": "minilm", "input": ["a b c"] * 24})
        for args, to in ((("--path", "/healthz", "--connections", "3"), None),
                         (("--data", many, "--same"),
                          https("127.0.0.1:%d/" % s.tls_port)),
                         (("--data", embed_body(100000).decode(), "--connections", "2"), None)):
            rc, got, why = rlx_load(s, *ca, *args, to=to)
            assert rc == 0 and got["ok"], (args, rc, got, why)
        wait_for(lambda: s.metric("rlxd_connections") <= 1)


@test
def load_looks_at_certificates():
    health = "--path", "/healthz"
    for cert, ca, want in (("server", None, "unable to get local issuer certificate"),
                           ("server", "stranger", "unable to get local issuer certificate"),
                           ("expired", "ca", "certificate has expired"),
                           ("elsewhere", "ca", "hostname mismatch")):
        with TlsServer(cert=cert) as s:
            rc, got, why = rlx_load(s, *health, *(("--ca", "%s/%s.pem" % (DIR, ca)) if ca else ()))
            assert rc == 3 and got is None and want in why and "--insecure" in why, (cert, why)
            assert "localhost:%d" % s.tls_port in why, why
            rc, got, why = rlx_load(s, *health, "--insecure")
            assert rc == 0 and got["ok"], (cert, got, why)
    other = socket.create_server(("127.0.0.1", 0))

    def say_hello():
        for _ in range(2):      # the first one only looks whether somebody is there
            with other.accept()[0] as c, contextlib.suppress(OSError):
                c.sendall(b"220 no TLS here\r\n")
                read_all(c)
    threading.Thread(target=say_hello, daemon=True).start()
    with TlsServer() as s, other:
        ca = "--ca", DIR + "/ca.pem"
        for args, to, status, want in (
                (ca, https("localhost:%d" % other.getsockname()[1]), 3, "wrong version number"),
                (ca, https("localhost:%d/healthz" % s.tls_port), 2, "is not " + https("NAME:PORT")),
                (ca, https("localhost:"), 2, "is not " + https("NAME:PORT")),
                (ca, https("[::1:5"), 2, "is not " + https("NAME:PORT")),
                (ca, "127.0.0.1:%d" % s.port, 2, "are for --to https:"),
                (ca + ("--insecure",), None, 2, "exclude each other"),
                (("--ca", "/nonexistent"), None, 3, "/nonexistent: No such file"),
                (("--ca", DIR + "/secret"), None, 3, "no certificates in PEM form")):
            rc, got, why = rlx_load(s, *health, *args, to=to)
            assert rc == status and got is None and want in why, (args, to, rc, why)


@test
def client_certificates():
    with TlsServer(server="tls_client_ca = %s/ca.pem\n" % DIR) as s:
        def ask(*args):
            return curl(s, *args).returncode
        pair = ("--cert", DIR + "/client.pem", "--key", DIR + "/client.key")
        assert ask(*pair) == 0
        assert ask() != 0
        assert ask("--cert", DIR + "/client-of-stranger.pem", "--key",
                   DIR + "/client-of-stranger.key") != 0
        assert ask(*pair) == 0


def serial(c):
    """Of the certificate that the connection began with, which must still serve."""
    c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    out = b""
    while not out.endswith(b"ok\n"):
        got = c.recv(4096)
        assert got, out
        out += got
    assert status_of(out) == 200
    return c.getpeercert()["serialNumber"]


@each_engine
def certificates_change_under_connections(engine):
    for name in ("server", "second"):
        for end in (".pem", ".key"):
            shutil.copy(DIR + "/" + name + end, DIR + "/live" + end)
        if name == "server":
            s = TlsServer(cert="live", engine=engine)
            with_s = s.__enter__()
            old = s.connect()
            first = serial(old)
    n = len(s.lines)
    s.signal(signal.SIGHUP)
    s.wait_log("event=reloaded", 30, after=n)
    new = s.connect()
    second = serial(new)
    assert second != first == serial(old)
    # Files that do not fit change nothing.
    shutil.copy(DIR + "/server.key", DIR + "/live.key")
    n = len(s.lines)
    s.signal(signal.SIGHUP)
    s.wait_log("reload failed", 30, after=n)
    third = s.connect()
    assert serial(third) == serial(new) == second and serial(old) == first
    for c in (old, new, third):
        c.close()
    with_s.__exit__(None, None, None)


def hello(version=ssl.TLSVersion.TLSv1_3):
    """A client's first bytes."""
    out = ssl.MemoryBIO()
    c = certs.context(minimum=version, maximum=version).wrap_bio(ssl.MemoryBIO(), out,
                                                           server_hostname="localhost")
    try:
        c.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def ends(c, seconds=20):
    """The peer closes, whatever it says before."""
    c.settimeout(seconds * lately_slow())
    read_all(c)
    c.close()


@each_engine
def broken_handshakes(engine):
    rng = random.Random(11)
    good = hello()
    with TlsServer(engine=engine, server="header_timeout = 2s\nmax_connections = 400\n") as s:
        for n in list(range(0, 60)) + list(range(60, len(good), 17)):
            c = s.plain()
            c.sendall(good[:n])
            if n % 2:
                reset(c)
            else:
                c.close()
        for _ in range(200):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            c = s.plain()
            c.sendall(bytes(data))
            c.shutdown(socket.SHUT_WR)
            ends(c)
        for _ in range(100):
            c = s.plain()
            c.sendall(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 3000))))
            c.shutdown(socket.SHUT_WR)
            ends(c)
        assert curl(s).stdout == "ok\n"
        wait_for(lambda: s.metric("rlxd_connections") <= 1)


@each_engine
def slow_handshakes(engine):
    """Those that never finish are closed by header_timeout; others are served."""
    good = hello()
    limit = slowness()
    with TlsServer(engine=engine, server="header_timeout = %dms\nmax_connections = 300\n"
                   % (1000 * limit)) as s:
        slow = [s.plain() for _ in range(150)]
        begin = time.monotonic()
        for i, c in enumerate(slow):
            c.sendall(good[:i % len(good)])
        assert curl(s).stdout == "ok\n"
        assert within(begin, 5)
        trickle(slow, b"\x16", begin + 2.5 * limit)
        # Shaken hands, and then silence.
        c = s.connect()
        c.settimeout(patience(5) + limit)
        assert c.recv(1) == b""
        c.close()


@each_engine
def garbage_in_the_middle(engine):
    """What is no record ends that connection and no other."""
    with TlsServer(engine=engine) as s:
        rng = random.Random(12)
        for i in range(40):
            c = s.connect()
            c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"\r\n" * (i % 2))
            raw = socket.socket(fileno=c.detach())
            raw.settimeout(10)
            try:
                raw.sendall(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 100))))
                raw.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            ends(raw)
        assert curl(s).stdout == "ok\n"


@test
def plain_http_is_told():
    with TlsServer() as s:
        c = s.plain()
        c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        out = read_all(c)
        c.close()
        assert status_of(out) == 400 and out.endswith(b"speaks TLS\n"), out


def embed_body(size):
    body = b'{"model":"minilm","input":"hello","user":"'
    return body + b"x" * (size - len(body) - 2) + b'"}'


@each_engine
def bodies_in_any_pieces(engine):
    with TlsServer(minilm(), engine=engine, server="max_body = 4M\n") as s:
        want = s.embed("hello", headers=AUTH)[0]
        for size, step in ((100, 1), (16384, 16384), (16500, 1000), (40000, 7777),
                           (4 << 20, 4 << 20), (4 << 20, 100000)):
            body = embed_body(size)
            c = s.connect(60)
            data = (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                    b"Content-Length: %d\r\n\r\n" % (SECRET.encode(), len(body))) + body
            for i in range(0, len(data), step):
                c.sendall(data[i:i + step])
            c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            out = read_all(c)
            c.close()
            assert status_of(out) == 200 and out.endswith(b"ok\n"), (size, step, out[:300])
            head = out.index(b"\r\n\r\n") + 4
            got = json.JSONDecoder().raw_decode(out[head:].decode())[0]
            assert got["data"][0]["embedding"] == want
        assert s.get("/v1/embeddings", method="POST", body=embed_body((4 << 20) + 1))[0] == 413
        assert s.metric("rlxd_memory_bytes") == 0


@each_engine
def replies_larger_than_the_socket(engine):
    """Many megabytes to a client that reads slowly, and to one that never does."""
    with TlsServer(engine=engine, server="send_timeout = %dms\n" % (3000 * slowness())) as s:
        x = np.zeros((6000, 3, 16, 16), dtype=np.float32)
        head = json.dumps({"inputs": [{
            "name": "x", "shape": list(x.shape), "datatype": "FP32",
            "parameters": {"binary_data_size": x.nbytes}}]}).encode()
        head += b" " * (-len(head) % 8)
        data = (b"POST /v2/models/vision/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"Authorization: Bearer %s\r\nInference-Header-Content-Length: %d\r\n"
                b"Content-Length: %d\r\n\r\n" % (SECRET.encode(), len(head),
                                                 len(head) + x.nbytes)) + head + x.tobytes()
        never = s.connect()
        never.sendall(data)
        c = s.connect()
        c.sendall(data)
        time.sleep(0.5)
        out = read_all(c)
        c.close()
        assert status_of(out) == 200
        n = int(out.split(b"Content-Length: ", 1)[1].split(b"\r\n", 1)[0])
        assert len(out) - out.index(b"\r\n\r\n") - 4 == n, (len(out), n)
        json.loads(out[out.index(b"\r\n\r\n") + 4:])
        assert curl(s).stdout == "ok\n"
        wait_for(lambda: s.metric("rlxd_connections") <= 1, 60)
        never.close()


@each_engine
def pipelined(engine):
    with TlsServer(engine=engine) as s:
        ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
        out = s.raw((ask + b"\r\n") * 500 + ask + b"Connection: close\r\n\r\n")
        assert out.count(b"HTTP/1.1 200 OK") == 501 and out.endswith(b"ok\n"), len(out)


@each_engine
def more_connections_than_buffers(engine):
    """Each with a request that is not whole, then all with the rest of it."""
    with TlsServer(minilm(), engine=engine, server="header_timeout = 10min\n") as s:
        body = embed_body(600)
        data = (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                b"Content-Length: %d\r\n\r\n" % (SECRET.encode(), len(body))) + body
        many = [s.connect() for _ in range(300)]
        for c in many:
            c.sendall(data[:-300])
        time.sleep(0.3)
        assert curl(s).stdout == "ok\n"
        for c in many:
            c.sendall(data[-300:])
        for c in many:
            assert status_of(c.recv(65536)) == 200
            c.close()
        wait_for(lambda: s.metric("rlxd_connections") <= 1)


@each_engine
def vanishing_clients(engine):
    rng = random.Random(13)
    with TlsServer(minilm(), engine=engine) as s:
        body = embed_body(30000)
        data = (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                b"Content-Length: %d\r\n\r\n" % (SECRET.encode(), len(body))) + body
        for i in range(60):
            c = s.connect()
            c.sendall(data[:rng.randrange(len(data) + 1) if i % 2 else len(data)])
            if i % 3 == 0:
                reset(c)
            else:
                c.close()
        wait_for(lambda: s.metric("rlxd_connections") <= 1, 60)
        wait_for(lambda: s.metric("rlxd_memory_bytes") == 0, 60)


@each_engine
def reloads_under_load(engine):
    """Certificates come and go while requests are made; none fails."""
    bad, end = [], []
    with TlsServer(minilm("max_batch = 8\n"), engine=engine, server="threads = 2\n") as s:
        want = s.embed("some words", headers=AUTH)[0]

        def ask(keep):
            body = json.dumps({"model": "minilm", "input": "some words"})
            c = s.http(60)
            while not end:
                try:
                    c.request("POST", "/v1/embeddings", body, AUTH)
                    got = json.loads(c.getresponse().read())["data"][0]["embedding"]
                    if not np.allclose(got, want, atol=2e-6):
                        bad.append("another vector")
                except (OSError, http.client.HTTPException) as e:
                    bad.append(repr(e))
                if not keep:
                    c.close()
        threads = [threading.Thread(target=ask, args=(i % 2,)) for i in range(4)]
        for t in threads:
            t.start()
        for i in range(6):
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", 30, after=n)
            time.sleep(0.2)
        end.append(True)
        for t in threads:
            t.join()
        assert not bad, bad[:3]


@each_engine
def draining(engine):
    s = TlsServer(minilm(), engine=engine)
    body = json.dumps({"model": "minilm", "input": ["word " * 60] * 20}).encode()
    idle, shaking = s.connect(), s.plain()
    shaking.sendall(hello()[:20])
    busy = s.connect()
    begin_request(busy, b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n"
                  b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                  % (SECRET.encode(), len(body)))
    busy.sendall(body[:-1])
    s.signal(signal.SIGTERM)
    assert idle.recv(1) == b""
    assert shaking.recv(1) == b""
    busy.sendall(body[-1:])     # what was begun is ended, however late
    out = read_all(busy)
    assert status_of(out) == 200 and b"Connection: close" in out, out[:200]
    assert s.ended() == 0, s.log()
    s.stop()


@each_engine
def draining_under_a_handshake(engine):
    """Who shakes hands then and asks nothing is waited for no longer than others."""
    s = TlsServer(engine=engine, server="header_timeout = 10min\ndrain_timeout = 10min\n")
    c = s.plain()
    wait_for(lambda: s.metric("rlxd_connections") == 2)
    s.signal(signal.SIGTERM)
    s.wait_log("event=draining")
    with contextlib.suppress(OSError):      # it took longer than they are waited for
        c = certs.context().wrap_socket(c, server_hostname="localhost")
    assert s.ended() == 0, s.log()
    c.close()
    s.stop()


@each_engine
def copies_are_counted(engine):
    """By OpenSSL each byte moves once in each direction, by the kernel not at all."""
    with TlsServer(engine=engine, server="access_log = none\n") as s:
        x = np.zeros((8, 3, 16, 16), dtype=np.float32)
        head = json.dumps({"inputs": [{
            "name": "x", "shape": list(x.shape), "datatype": "FP32",
            "parameters": {"binary_data_size": x.nbytes}}],
            "parameters": {"binary_data_output": True}}).encode()
        head += b" " * (-len(head) % 8)
        body = head + x.tobytes()
        c = s.connect()
        moved = 0

        def ask(pieces):
            """One request; the length of the body that comes back."""
            nonlocal moved
            for p in pieces:
                c.sendall(p)
            out = b""
            while b"\r\n\r\n" not in out:
                out += c.recv(65536)
            at = out.index(b"\r\n\r\n") + 4
            assert status_of(out) == 200, out[:300]
            n = int(out.split(b"Content-Length: ", 1)[1].split(b"\r\n", 1)[0])
            while len(out) < at + n:
                out += c.recv(65536)
            moved += sum(map(len, pieces)) + len(out)
            return out[at:]

        def copied():
            """What was copied by now, and what was sent and received: up to this request."""
            text = (b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"
                    % SECRET.encode())
            by_now = moved + len(text)
            line = ask([text]).split(b'rlxd_copied_bytes_total{by="http"} ', 1)[1]
            return np.array((int(line.split(b"\n", 1)[0]), by_now))

        def post(more):
            return (b"POST /v2/models/vision/infer HTTP/1.1\r\nHost: x\r\n%s"
                    b"Authorization: Bearer %s\r\nInference-Header-Content-Length: %d\r\n"
                    b"Content-Length: %d\r\n\r\n"
                    % (more, SECRET.encode(), len(head), len(body)))
        before = copied()
        # Heads of all lengths, the body at once with them, later, and in pieces.
        for more in (b"", b"X-A: b\r\n", b"X-A: " + b"b" * 300 + b"\r\n", b"",
                     b"X-A: " + b"b" * 5000 + b"\r\n"):
            h = post(more)
            for pieces in ([h + body], [h, body], [h[:-1], h[-1:] + body[:5], body[5:]]):
                ask(pieces)
        got, all = copied() - before
        c.close()
        if s.metric('rlxd_tls_kernel_total{way="send"}'):
            assert 15 * len(body) <= got <= all - 15 * x.nbytes // 8, (got, all)
        else:
            assert got == all, (got, all)


@test
def the_kernel_does_it_where_it_can():
    try:
        with open("/proc/sys/net/ipv4/tcp_available_ulp") as f:
            able = "tls" in f.read().split()
    except OSError:
        able = False
    if not able:
        raise Skip("this kernel has no TLS (modprobe tls)")
    with TlsServer(minilm()) as s:
        v = ssl.TLSVersion.TLSv1_2
        c = s.connect(ctx=certs.context(minimum=v, maximum=v))
        body = embed_body(300000)
        c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                  b"Connection: close\r\nContent-Length: %d\r\n\r\n"
                  % (SECRET.encode(), len(body)) + body)
        assert status_of(read_all(c)) == 200
        c.close()
        assert s.metric('rlxd_tls_kernel_total{way="receive"}') >= 1
        assert s.metric('rlxd_tls_kernel_total{way="send"}') >= 2


@test
def sockets_that_were_passed():
    """One named tls speaks it; one of the network that is not named so is refused."""
    for name, address, ok in (("tls", "127.0.0.1", True), ("http", "0.0.0.0", False)):
        ln = socket.socket()
        ln.bind((address, 0))
        ln.listen()
        with open(DIR + "/passed.conf", "w") as f:
            f.write("[server]\n" + certs.options("server") + VISION_CONF + KEY)
        s = TlsServer(wait=ok, **activated({name: ln}, DIR + "/passed.conf"))
        if ok:
            with s:
                assert s.tls_port == ln.getsockname()[1]
                assert curl(s).stdout == "ok\n"
        else:
            assert s.ended() == 1
            assert "FileDescriptorName=tls" in s.log(), s.log()
        ln.close()


main()
