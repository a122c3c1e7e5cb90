# SPDX-License-Identifier: MIT
"""rlxd --fd-store and the words of its socket, and clients that outlive servers."""
import http.client
import json
import math
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time

from rlxd import RLXD, patience, read_all, wait_for

MSG = struct.Struct("<IHHIiIIIIIIIIQQ128s")     # struct rlx_wire_msg
MAGIC, VERSION, KEEP = 0x73786c72, 1, 7
GET, PUT, DROP, LIST, OK, NONE, OTHER, FULL = range(8)


class FdStore:
    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="rlxd-fd-store-")
        self.path = self.dir.name + "/store"
        self.proc = subprocess.Popen([RLXD, "--fd-store", self.path], stderr=subprocess.PIPE,
                                     text=True)
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()
        wait_for(lambda: any("event=keeping" in ln for ln in self.lines))

    def _read(self):
        for line in self.proc.stderr:
            self.lines.append(line.rstrip("\n"))

    def conf(self):
        return "fd_store = %s\n" % self.path

    def connect(self):
        c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        c.settimeout(60)
        c.connect(self.path)
        return c

    def ask(self, op, name="", version=0, fd=-1):
        """What it answers: op, name, version, descriptor."""
        c = self.connect()
        text = MSG.pack(MAGIC, VERSION, KEEP, 0, 0, op, 0, 0, 0, 0, 0, 0, 0, version, 0,
                        name.encode())
        if fd >= 0:
            socket.send_fds(c, [text], [fd])
        else:
            c.send(text)
        data, fds, _, _ = socket.recv_fds(c, 4096, 4)
        c.close()
        m = MSG.unpack(data)
        return m[5], m[15].split(b"\0")[0].decode(), m[13], fds[0] if fds else -1

    def names(self):
        out = []
        while True:
            op, name, _, _ = self.ask(LIST, version=len(out))
            if op != OK:
                return out
            out.append(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.terminate()
        assert self.proc.wait(patience(20)) == 0
        assert not os.path.exists(self.path)
        self.dir.cleanup()


TEXTS = ["a", "hello world", "word " * 50]


# Of the high byte of a float of 16 bits: its sign, and an exponent that leaves sums small.
SMALL = bytes(b & 0x83 | 0x24 for b in range(256))


def write_halves(to, layers, h=768):
    """An encoder of drawn weights of 16 bits that no file has as f32: 14 MB a layer."""
    entries, parts, at = {}, [], 0
    shapes = {"embeddings.%s.weight" % n: [64, h] for n in (
        "word_embeddings", "position_embeddings", "token_type_embeddings")}
    shapes.update({"embeddings.LayerNorm." + n: [h] for n in ("weight", "bias")})
    for i in range(layers):
        for name, shape in (("attention.self.query", [h, h]), ("attention.self.key", [h, h]),
                            ("attention.self.value", [h, h]), ("attention.output.dense", [h, h]),
                            ("attention.output.LayerNorm", [h]), ("intermediate.dense", [4 * h, h]),
                            ("output.dense", [h, 4 * h]), ("output.LayerNorm", [h])):
            name = "encoder.layer.%d.%s." % (i, name)
            shapes.update({name + "weight": shape, name + "bias": shape[:1]})
    for name, shape in shapes.items():
        data = bytearray(os.urandom(2 * math.prod(shape)))
        data[1::2] = data[1::2].translate(SMALL)
        entries[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    head = json.dumps(entries).encode()
    with open(to + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(parts))
    with open(to + "/config.json", "w") as f:
        json.dump({"model_type": "bert", "hidden_size": h, "num_hidden_layers": layers,
                   "num_attention_heads": 12, "intermediate_size": 4 * h, "vocab_size": 64,
                   "max_position_embeddings": 64, "type_vocab_size": 64, "hidden_act": "gelu",
                   "layer_norm_eps": 1e-12}, f)
    with open(to + "/vocab.txt", "w") as f:
        f.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
        f.writelines("w%d\n" % i for i in range(59))


held = []


def free_port():
    """One that nobody else is given; a server, which reuses addresses, may listen there."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    held.append(s)
    return s.getsockname()[1]


def adopted(s, model="minilm"):
    return s.metric('rlxd_weights_adopted{model="%s"}' % model)


def weights_of(pid):
    """Inodes of the arenas with weights that a process maps."""
    with open("/proc/%d/maps" % pid) as f:
        return {int(ln.split()[4]) for ln in f if "memfd:rlx-rlxd-weights" in ln}


class Clients:
    """
    Ask all the time, over any number of servers. A reply that came is right; one that
    was lost with its server is asked for again, and nobody is ever turned away. They
    stay connected, or connect @anew for each request.
    """

    def __init__(self, port, want, n=4, anew=False):
        self.port, self.want, self.anew = port, want, anew
        self.end, self.done, self.again, self.bad = False, 0, 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(n)]
        for t in self.threads:
            t.start()

    def _ask(self, c, text):
        body = json.dumps({"model": "minilm", "input": text}).encode()
        c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                  % len(body) + body)
        out = b""
        while b"\r\n\r\n" not in out:
            b = c.recv(65536)
            if not b:
                raise ConnectionResetError("nothing came")
            out += b
        head, out = out.split(b"\r\n\r\n", 1)
        n = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        while len(out) < n:
            b = c.recv(65536)
            if not b:
                raise ConnectionResetError("half a reply")
            out += b
        return int(head[9:12]), out

    def _run(self, seed):
        texts, c, k = list(self.want), None, seed
        while not self.end:
            text = texts[k % len(texts)]
            k += 1
            while not self.end:
                try:
                    if c is None:
                        c = socket.create_connection(("127.0.0.1", self.port), timeout=20)
                    st, body = self._ask(c, text)
                except ConnectionRefusedError:
                    self.bad.append("refused")
                    return
                except OSError:
                    if c:
                        c.close()
                    c = None
                    with self.lock:
                        self.again += 1
                    continue
                if st != 503:
                    break
                with self.lock:     # a machine so busy that loading took over a second
                    self.again += 1
                time.sleep(0.05)
            else:
                break
            if st != 200:
                self.bad.append("%d %s" % (st, body[:200]))
                continue
            got = json.loads(body)["data"][0]["embedding"]
            if max(abs(a - b) for a, b in zip(got, self.want[text])) > 2e-6:
                self.bad.append("a wrong vector")
            with self.lock:
                self.done += 1
            if self.anew:
                c.close()
                c = None
        if c:
            c.close()

    def stop(self):
        self.end = True
        for t in self.threads:
            t.join()
        assert not self.bad, self.bad[:3]


def is_ready(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        c.request("GET", "/healthz")
        return c.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        c.close()


def first_reply(port, start):
    """Milliseconds from now, when @start begins a server, to a right reply."""
    body = json.dumps({"model": "minilm", "input": "hello world"}).encode()
    begin = time.monotonic()
    start()
    out = b""
    # The one that dies may still have taken the connection; a slow start tells 503.
    while not out.startswith(b"HTTP/1.1 200"):
        assert not out or out.startswith(b"HTTP/1.1 503"), out[:200]
        c = socket.create_connection(("127.0.0.1", port), timeout=60)
        try:
            c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            out = read_all(c)
        except OSError:
            pass
        c.close()
    return (time.monotonic() - begin) * 1e3, out.split(b"\r\n\r\n", 1)[1]
