# SPDX-License-Identifier: MIT
"""Weights and sockets that outlive the server: the fd store, the manager's store, kills."""
import fcntl
import json
import mmap
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from fd_store_rig import (DROP, FULL, GET, KEEP, LIST, MAGIC, MSG, NONE, OK, OTHER, PUT, TEXTS,
                          VERSION, Clients, FdStore, adopted, free_port, weights_of,
                          write_halves)
from rlxd import (BUILD, ENGINES, MINILM, RLXD, SANITIZED, Manager, Server, Skip, activated, main,
                  minilm, test, wait_for)

KILLS = 10


@test
def killed_under_load():
    """No reply is lost or wrong, nobody is refused, and weights are adopted each time."""
    for engine in ENGINES:
        with FdStore() as k:
            port = free_port()

            def start(wait):
                return Server(minilm(), engine=engine, wait=wait, server=k.conf(),
                              listen="127.0.0.1:%d" % port)
            s = start(True)
            assert adopted(s) == 0
            load = Clients(port, {t: s.embed(t)[0] for t in TEXTS})
            took = []
            try:
                for _ in range(KILLS):
                    time.sleep(0.3)
                    begin, done = time.monotonic(), load.done
                    s.proc.kill()
                    old, s = s, start(False)
                    wait_for(lambda: load.done > done + 4)
                    old.kill()
                    s.wait_log("event=ready", 60)
                    s.port = port
                    took.append(time.monotonic() - begin)
                    assert adopted(s) == 1, s.log()
            finally:
                load.end = True
                s.kill()
            load.stop()
            assert load.done > KILLS and load.again
            assert sorted(k.names()) == ["listen-127.0.0.1:%d" % port, "weights-minilm"]
            print("# %s: %d replies, %d asked again" % (engine, load.done, load.again))


@test
def another_instruction_set_is_another_arena():
    with FdStore() as k:
        with Server(minilm(), server=k.conf()) as s:
            want = s.embed("hello")[0]
        first = k.ask(GET, "weights-minilm")[2]
        for isa, same in (("base", False), ("base", True), ("", False)):
            with Server(minilm(), server=k.conf(), env={"RLX_ISA": isa}) as s:
                got = s.embed("hello")[0]
                assert max(abs(a - b) for a, b in zip(got, want)) < 1e-5
                assert adopted(s) == same, s.log()
                assert same or "is for 'cpu" in s.log(), s.log()
            now = k.ask(GET, "weights-minilm")[2]
            assert (now == first) == same
            first = now
        assert k.names().count("weights-minilm") == 1


@test
def weights_of_16_bits_are_kept():
    """What is in no file, as these made f32, is kept beside what is packed of it: there is room."""
    with FdStore() as k, tempfile.TemporaryDirectory() as d:
        write_halves(d, 6)
        model = "[model halves]\npath = %s\nbuckets = 16\ndevice = cpu\n" % d
        for i in range(2):
            with Server(model, server=k.conf()) as s:
                assert adopted(s, "halves") == i, s.log()


@test
def other_files_are_other_weights():
    with FdStore() as k, tempfile.TemporaryDirectory() as d:
        shutil.copytree(MINILM, d + "/m")
        conf = "[model minilm]\npath = %s/m\nbuckets = 16\n" % d
        with Server(conf, server=k.conf()) as s:
            # Replaced while it serves: what is kept follows.
            shutil.copy(d + "/m/model.safetensors", d + "/new")
            os.replace(d + "/new", d + "/m/model.safetensors")
            before = k.ask(GET, "weights-minilm")[2]
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", 60)
            assert "of other files" in s.log(), s.log()
            assert k.ask(GET, "weights-minilm")[2] != before
        with Server(conf, server=k.conf()) as s:
            assert adopted(s) == 1, s.log()
            s.embed("hello")
        # Other options ask for other layouts, or for none.
        with Server(conf + "precision = bf16\n", server=k.conf()) as s:
            s.embed("hello")
        # A model that the configuration no longer names is not kept.
        other = "[model other]\npath = %s/m\nbuckets = 16\n" % d
        with Server(other, server=k.conf()) as s:
            assert [n for n in k.names() if "weights" in n] == ["weights-other"]
            s.write(conf)
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", 60)
            assert [n for n in k.names() if "weights" in n] == ["weights-minilm"]


def memfd_of(data, seals):
    fd = os.memfd_create("hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@test
def what_is_kept_may_be_anything():
    """Garbage under the name of weights: a line in the log, and packed anew."""
    everything = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    with FdStore() as k:
        with Server(minilm(), server=k.conf()) as s:
            want = s.embed("hello")
        good = k.ask(GET, "weights-minilm")[3]
        with mmap.mmap(good, 0, prot=mmap.PROT_READ) as m:
            head = m[:1 << 20]
        r, w = os.pipe()
        cases = [(memfd_of(b"x" * 100000, everything), "no sealed store"),
                 (memfd_of(b"x", everything), "no room for a header"),
                 (memfd_of(head, everything), "cut short"),
                 (memfd_of(head[:64] + b"\xff" * 40 + head[104:], everything), "another build"),
                 (memfd_of(head, 0), "not sealed"), (r, "not"),
                 (os.open("/dev/null", os.O_RDONLY), "not")]
        for fd, why in cases:
            seen = k.ask(GET, "weights-minilm")[2]
            assert k.ask(PUT, "weights-minilm", seen, fd)[0] == OK
            with Server(minilm(), server=k.conf()) as s:
                assert s.embed("hello") == want
                assert adopted(s) == 0
                bad = [ln for ln in s.lines if "weights not adopted" in ln]
                assert len(bad) == 1 and why in bad[0], (why, s.log())
            os.close(fd)
            with Server(minilm(), server=k.conf()) as s:
                assert adopted(s) == 1
        os.close(w)


@test
def two_servers_share_one_copy():
    """Started at once, with nothing kept: in the end both map the same arena."""
    with FdStore() as k:
        two = [Server(minilm(), server=k.conf(), wait=False) for _ in range(2)]
        try:
            for s in two:
                s.wait_log("event=ready", 120)
            a, b = (weights_of(s.proc.pid) for s in two)
            assert len(a) == 1 and a == b, (a, b, two[0].log(), two[1].log())
            assert two[0].embed("hello") == two[1].embed("hello")
        finally:
            for s in two:
                s.kill()


def memory(pid):
    """
    Bytes of a process, what it shares counted by its part: of the model, of all, and
    those pinned. Not the system's libraries, whose part depends on what else runs here.
    """
    model = total = pinned = 0
    mine = system = False
    with open("/proc/%d/smaps" % pid) as f:
        for ln in f:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", ln):
                mine = "memfd:rlx-rlxd-weights" in ln or "model.safetensors" in ln
                system = re.search(r" /(usr/)?lib/", ln) is not None
            elif ln.startswith("Pss:") and not system:
                n = int(ln.split()[1]) * 1024
                total += n
                model += n * mine
            elif ln.startswith("Locked:"):
                pinned += int(ln.split()[1]) * 1024
    return model, total, pinned


def memory_of(procs):
    return [sum(v) / 1e6 for v in zip(*(memory(p.pid) for p in procs))]


@test
def weights_are_in_memory_once():
    """
    Eight client processes, half of them on channels, and two servers: at most 1.1 times
    the memory of one. Each thread has room of its own to compute in, and how many there
    are is this machine's; here it is two. Both have run a batch, which takes more than a
    row, when one is measured and when all are.
    """
    with FdStore() as k:
        procs, clients = [], []

        def server():
            # By its own address: a kept socket of the same name would be both servers'.
            port = free_port()
            s = Server(minilm("threads = 2\n") + "[channel c]\naddress = @rlxd-test-%d\n"
                       "transport = shm\n" % port, server=k.conf(), listen="127.0.0.1:%d" % port)
            procs.append(s)
            for t in TEXTS + [TEXTS[:2]]:
                s.embed(t)
            body = json.dumps({"model": "minilm", "input": "hello world"})
            clients.extend(subprocess.Popen(
                [BUILD + "/bin/rlx", "load", "--seconds", "600", "--rate", "5", *how],
                stdout=subprocess.DEVNULL) for how in 2 * [
                    ["--to", "127.0.0.1:%d" % port, "--data", body],
                    ["--to", "channel:@rlxd-test-%d" % port, "--model", "minilm"]])
            rows = 'rlxd_model_rows_total{model="minilm",result="ok"}'
            wait_for(lambda: s.metric(rows) > len(TEXTS) + 42, 60)
        try:
            server()
            one = memory_of([procs[0].proc])
            assert one[0] > 80, one
            server()
            many = memory_of([s.proc for s in procs] + clients)
            assert all(c.poll() is None for c in clients)
            print("# MB of one server / of two and eight clients: weights %.1f / %.1f, all %.1f / "
                  "%.1f, pinned of it %.1f / %.1f" % tuple(
                      v for pair in zip(one, many) for v in pair))
            assert many[0] <= 1.01 * one[0], (one, many)
            assert SANITIZED or many[1] <= 1.1 * one[1], (one, many)
        finally:
            for c in clients:
                c.kill()
                c.wait()
            for s in procs:
                s.kill()


@test
def the_manager_keeps_weights():
    """By sd_notify's protocol: stored at one start, passed at the next."""
    m = Manager()
    ln = socket.socket()
    ln.bind(("127.0.0.1", 0))
    ln.listen(16)
    with Server(minilm(), env={"NOTIFY_SOCKET": m.path}) as s:
        want = s.embed("hello")
        fd = m.next_fd("FDSTORE=1")
        m.next("READY=1")
    s = None
    gone = memfd_of(b"x", 0)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(minilm())
        f.flush()
        # Weights of a model that is not there any more stand between the two.
        how = activated({"http": ln, "weights-gone": gone, "weights-minilm": fd}, f.name)
        how["env"]["NOTIFY_SOCKET"] = m.path
        with Server(**how) as s:
            assert s.port == ln.getsockname()[1]
            assert adopted(s) == 1, s.log()
            assert s.embed("hello") == want
            assert "FDNAME=weights-gone" in m.next("FDSTOREREMOVE=1")
    os.close(fd)
    os.close(gone)


@test
def sockets_are_kept():
    """Between two servers nobody is refused: who connects waits for the next one."""
    with FdStore() as k, tempfile.TemporaryDirectory() as d:
        path = d + "/http"
        port = free_port()
        where = "127.0.0.1:%d unix:%s" % (port, path)
        conf = "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")
        s = Server(conf, server=k.conf(), listen=where)
        s.stop()
        early = [socket.create_connection(("127.0.0.1", port), timeout=30),
                 socket.socket(socket.AF_UNIX)]
        early[1].settimeout(30)
        early[1].connect(path)
        for c in early:
            c.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with Server(conf, server=k.conf(), listen=where):
            for c in early:
                assert c.recv(65536).startswith(b"HTTP/1.1 200"), c
                c.close()


@test
def a_connection_that_another_was_told_of():
    """As by a server that was killed before it took it; the next one does."""
    for engine in ENGINES:
        ln = socket.create_server(("127.0.0.1", 0))
        other = select.epoll()
        other.register(ln, select.EPOLLIN | select.EPOLLET | select.EPOLLEXCLUSIVE)
        told = []
        threading.Thread(target=lambda: [told.append(other.poll()) for _ in range(3)],
                         daemon=True).start()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
            f.write("[server]\nengine = %s\n[model vision]\npath = %s\n" % (
                engine, os.path.abspath(BUILD + "/serve/vision.onnx")))
            f.flush()
            with Server(**activated({"http": ln}, f.name)) as s:
                # With io_uring both are told, but where it happens to stand before the other.
                for i in range(60):
                    assert b" 200 OK" in s.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                                               b"Connection: close\r\n\r\n")
                    time.sleep(0.3)
                    if i >= 2 and (told or engine != "io_uring"):
                        break
        assert told or engine != "io_uring"
        ln.close()


@test
def an_fd_store_that_is_gone_is_no_harm():
    k = FdStore()
    with k:
        s = Server(minilm(), server=k.conf())
    try:
        want = s.embed("hello")
        n = len(s.lines)
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded", 60, after=n)
        assert s.embed("hello") == want
        s.stop()
    finally:
        s.kill()
    with Server(minilm(), server="fd_store = %s\n" % k.path) as s:
        assert s.embed("hello") == want
        assert "no fd store" in s.log()


@test
def fd_stores_peers():
    """Garbage, floods and strangers at the fd store's socket."""
    with FdStore() as k:
        fd = memfd_of(b"x" * 4096, 0)
        assert os.stat(k.path).st_mode & 0o777 == 0o600
        assert k.ask(PUT, "a", 0, fd)[0] == OK
        for data in (b"", b"x", b"x" * 191, b"x" * 192, b"x" * 4096,
                     MSG.pack(MAGIC, VERSION, 1, 0, 0, GET, *[0] * 9, b"a"),
                     MSG.pack(MAGIC, VERSION, KEEP, 0, 0, GET, *[0] * 9, b"a" * 128)):
            c = k.connect()
            socket.send_fds(c, [data], [fd] * 5) if data else c.send(data)
            assert c.recv(4096) == b""
            c.close()
        assert k.ask(77, "a")[0] == NONE
        assert k.ask(PUT, "a")[0] == NONE           # without a descriptor
        assert k.ask(GET, "b")[0] == NONE
        op, _, version, got = k.ask(PUT, "a", 99, fd)
        assert op == OTHER and got >= 0
        os.close(got)
        assert k.ask(PUT, "a", version, fd)[2] == version + 1
        # Full, and more who connect than it takes.
        for i in range(255):
            assert k.ask(PUT, "n%d" % i, 0, fd)[0] == OK
        assert k.ask(PUT, "more", 0, fd)[0] == FULL
        idle = [k.connect() for _ in range(60)]
        assert k.ask(GET, "n254")[0] == OK
        for c in idle:
            c.close()
        wait_for(lambda: len(os.listdir("/proc/%d/fd" % k.proc.pid)) < 256 + 16)
        assert k.ask(DROP, "a")[0] == OK and k.ask(GET, "a")[0] == NONE
        # A second one does not take its place.
        two = subprocess.run([RLXD, "--fd-store", k.path], capture_output=True, text=True)
        assert two.returncode == 1 and "another service" in two.stderr, two
        assert k.ask(GET, "n1")[0] == OK
        os.close(fd)


@test
def strangers_are_not_answered():
    if os.geteuid():
        raise Skip("only root can become somebody else")
    with FdStore() as k:
        os.chmod(k.dir.name, 0o755)
        os.chmod(k.path, 0o666)
        r, w = os.pipe()
        pid = os.fork()
        if not pid:
            os.setuid(65534)
            c = k.connect()
            try:
                c.send(MSG.pack(MAGIC, VERSION, KEEP, 0, 0, LIST, *[0] * 9, b""))
                os.write(w, b"answer" if c.recv(4096) else b"end")
            except OSError:
                os.write(w, b"end")
            os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(r, 100) == b"end"
        # Nor does a server take anything from one.
        os.chmod(k.dir.name, 0o777)
        pid = os.fork()
        if not pid:
            os.setuid(65534)
            c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            c.bind(k.dir.name + "/fake")
            c.listen(16)
            os.write(w, b"there")
            signal.pause()
        try:
            assert os.read(r, 100) == b"there"
            with Server(minilm(), server="fd_store = %s/fake\n" % k.dir.name) as s:
                assert "another user" in s.log(), s.log()
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(r)
        os.close(w)


def cut(path):
    """In place, to the end of the first page."""
    os.truncate(path, 4096)


@test
def a_model_file_cut_in_place():
    """Whoever cuts the file of a model that is served ends nothing."""
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(MINILM, d + "/m")
        conf = "[model minilm]\npath = %s/m\nbuckets = 16\n" % d
        with Server(conf) as s:
            want = s.embed("hello")
            cut(d + "/m/model.safetensors")
            assert s.embed("hello") == want
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("reload failed", 60, after=n)
            assert s.embed("hello") == want
            # Whole again: it is loaded as if nothing had been.
            shutil.copy(MINILM + "/model.safetensors", d + "/new")
            os.replace(d + "/new", d + "/m/model.safetensors")
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", 60, after=n)
            assert s.embed("hello") == want


@test
def an_onnx_file_cut_in_place():
    """Of shapes that come with requests: the model fails, the others are served."""
    src = BUILD + "/models/minilm.onnx"
    if not os.path.exists(src):
        raise Skip("minilm.onnx is not made")
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(src, d + "/a.onnx")
        vision = "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")
        with Server("[model a]\npath = %s/a.onnx\n" % d + vision) as s:
            st, _, meta = s.get("/v2/models/a")
            ins = [t["name"] for t in json.loads(meta)["inputs"]]

            def infer(n):
                return s.post("/v2/models/a/infer", {"inputs": [
                    {"name": t, "datatype": "INT64", "shape": [1, n], "data": [1] * n}
                    for t in ins]})
            assert infer(4)[0] == 200, infer(4)
            cut(d + "/a.onnx")
            st, r = infer(7)            # compiled from what is left
            assert st >= 500 and "cut short" in json.dumps(r), (st, r)
            assert infer(4)[0] >= 500
            assert s.post("/v2/models/vision/infer", {"inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 3, 16, 16],
                 "data": [0.5] * 768}]})[0] == 200
            shutil.copy(src, d + "/new")
            os.replace(d + "/new", d + "/a.onnx")
            n = len(s.lines)
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", 60, after=n)
            assert infer(7)[0] == 200


@test
def a_model_beside_the_program():
    """Loaded and loaded again, in and above the program's own folder, by path and by link."""
    fixed = os.path.abspath(BUILD + "/serve/fixed.onnx")
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(d + "/bin")
        shutil.copy(RLXD, d + "/bin/rlxd")
        for path in ("bin/fixed.onnx", "fixed.onnx"):
            shutil.copy(fixed, "%s/%s" % (d, path))
        os.symlink("fixed.onnx", d + "/bin/link.onnx")
        conf = d + "/conf"
        with open(conf, "w") as f:
            f.write("[server]\nlisten = 127.0.0.1:0\n" + "".join(
                "[model m%d]\npath = %s/%s\n" % (i, d, path) for i, path in
                enumerate(("bin/fixed.onnx", "fixed.onnx", "bin/link.onnx"))))
        x = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3, 16, 16],
                         "data": [0.5] * 1536}]}
        with Server(args=[d + "/bin/rlxd", "--config", conf]) as s:
            want = [s.post("/v2/models/m%d/infer" % i, x)[1]["outputs"] for i in range(3)]
            for _ in range(2):
                for path in ("bin/fixed.onnx", "fixed.onnx"):
                    os.utime("%s/%s" % (d, path))
                n = len(s.lines)
                s.signal(signal.SIGHUP)
                s.wait_log("event=reloaded", 60, after=n)
                assert sum("model loaded" in line for line in s.lines[n:]) == 3, s.lines[n:]
                for i in range(3):
                    st, r = s.post("/v2/models/m%d/infer" % i, x)
                    assert st == 200 and r["outputs"] == want[i], (st, r)


def many_files(d, n):
    """A model that adds up @n weights, each in a file of its own of three pages."""
    import numpy as np
    import onnx
    from onnx import TensorProto, external_data_helper, helper, numpy_helper
    ws, nodes = [], []
    for i in range(n):
        w = numpy_helper.from_array(np.full((3 * 1024,), i + 1, np.float32), "w%d" % i)
        external_data_helper.set_external_data(w, "w%d.bin" % i)
        with open("%s/w%d.bin" % (d, i), "wb") as f:
            f.write(w.raw_data)
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        ws.append(w)
        nodes.append(helper.make_node("Add", ["s%d" % i if i else "x", "w%d" % i],
                                      ["s%d" % (i + 1)]))
    g = helper.make_graph(nodes, "many", [helper.make_tensor_value_info(
        "x", TensorProto.FLOAT, ["n", 3 * 1024])], [helper.make_tensor_value_info(
            "s%d" % n, TensorProto.FLOAT, ["n", 3 * 1024])], ws)
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              d + "/many.onnx")


@test
def any_of_many_files_cut_in_place():
    """External data: whichever of the files is cut, wrong results are no results."""
    n = 24
    for victim in (0, n // 2, n - 1):
        with tempfile.TemporaryDirectory() as d:
            many_files(d, n)
            with Server("[model many]\npath = %s/many.onnx\n" % d) as s:
                def infer(rows):
                    return s.post("/v2/models/many/infer", {"inputs": [
                        {"name": "x", "datatype": "FP32", "shape": [rows, 3072],
                         "data": [0] * 3072 * rows}]})
                st, r = infer(1)
                assert st == 200 and r["outputs"][0]["data"][-1] == n * (n + 1) / 2, (st, r)
                cut("%s/w%d.bin" % (d, victim))
                st, r = infer(2)
                assert st >= 500 and "cut short" in json.dumps(r), (victim, st, str(r)[:200])


main()
