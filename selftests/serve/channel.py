# SPDX-License-Identifier: MIT
"""rlxd over channels: right results with nothing copied, and peers of all kinds."""
import ctypes
import errno
import json
import multiprocessing
import os
import random
import select
import signal
import subprocess
import tempfile
import threading
import time

import numpy as np

from channels import TRANSPORT, Load, address, channel, connect, rlx
from rlxd import BUILD, DEVICE, Server, Skip, main, minilm, patience, test, wait_for

SERVE = os.path.abspath(BUILD) + "/serve/"
MODELS = "".join("[model %s]\npath = %s%s.onnx\n" % (m, SERVE, m)
                 for m in ("vision", "fixed", "relu"))
rng = np.random.default_rng(7)


def ends(code, call, *args):
    """The errno that a call fails with."""
    try:
        call(*args)
    except rlx.Failed as e:
        assert e.errno == code, (errno.errorcode.get(e.errno), str(e))
        return
    assert not code, "it did not fail"


def relu(ch, n=3, m=5):
    """One request that is checked, with outputs that were something else before."""
    x, y = ch.empty((n, m)), ch.empty((n, m))
    x[...] = rng.standard_normal((n, m))
    y[...] = np.nan
    ch.infer("relu", [x], [y])
    assert np.array_equal(y, np.maximum(x, 0)), (x, y)


def vectors(ch, rows):
    """Room for what the encoder makes of rows."""
    return ch.empty((rows, ch.model("minilm").outputs[0].shape[1]))


def slow(ch):
    """A request that takes a while, its tokens, its vectors."""
    rows = 1 if TRANSPORT == "kmod" else 8      # which an emulated processor computes
    ids, out = ch.empty((rows, 128), np.int64), vectors(ch, rows)
    ids[...] = 1000
    return ch.prepare("minilm", [ids], [out]), ids, out


@test
def results_are_right():
    import onnxruntime      # which other processes of these tests go without
    session = onnxruntime.InferenceSession(SERVE + "vision.onnx")
    a = address()
    with Server(MODELS + channel(a)) as s, connect(a) as ch:
        assert sorted(ch.models()) == ["fixed", "relu", "vision"]
        about = ch.model("vision")
        assert about.inputs == [rlx.Tensor("x", np.float32, (-1, 3, 16, 16), False)], about
        assert [o.name for o in about.outputs] == ["y", "n"] and about.in_place
        for n in (1, 2, 7, 1):
            x, y, k = ch.empty((n, 3, 16, 16)), ch.empty((n, 10)), ch.empty((n,), np.int64)
            x[...] = rng.standard_normal(x.shape)
            y[...], k[...] = np.nan, -1
            ch.infer("vision", [x], [y, k])
            want = session.run(None, {"x": x})
            assert np.allclose(y, want[0], rtol=1e-4, atol=1e-5), abs(y - want[0]).max()
            assert np.array_equal(k, want[1])
        for n, m in ((1, 1), (3, 5), (64, 1000)):
            relu(ch, n, m)
        assert s.metric('rlxd_requests_total{route="channel",code="200"}') == 10


@test
def encoder_in_place():
    a = address()
    with Server(minilm() + channel(a)) as s, connect(a) as ch:
        about = ch.model("minilm")
        assert about.lengths == [16, 64, 128] and about.rows_max == 8, about
        for seq, n in ((16, 1), (64, 3), (128, 8), (16, 2)):
            room = 1 if n == 1 else 8
            ids, mask = ch.empty((room, seq), np.int64), ch.empty((room, seq), np.int64)
            out = vectors(ch, room)
            # Behind the rows of the request masks are not looked at.
            ids[...], mask[...], out[...] = 0, 7, np.nan
            mask[:n] = 0
            for i in range(n):
                k = int(rng.integers(1, seq + 1))
                ids[i, :k] = rng.integers(1000, 20000, k)
                mask[i, :k] = 1
            ch.infer("minilm", [ids, mask], [out], rows=n)
            st, r = s.post("/v2/models/minilm/infer", {"inputs": [
                {"name": name, "datatype": "INT64", "shape": [n, seq], "data": v[:n].tolist()}
                for name, v in (("input_ids", ids), ("attention_mask", mask))]})
            want = np.array(r["outputs"][0]["data"]).reshape(n, -1)
            assert np.allclose(out[:n], want, atol=1e-5), abs(out[:n] - want).max()
        full = ch.empty((1, 16), np.int64)
        full[...] = 2000
        ch.infer("minilm", [full], [out[:1]])
        assert abs(np.linalg.norm(out[0]) - 1) < 1e-5
        ids = ch.empty((1, 17), np.int64)
        ids[...] = 5
        ends(errno.EDOM, ch.infer, "minilm", [ids], [out[:1]])
        full[0, 3] = 1 << 40
        ends(errno.ERANGE, ch.infer, "minilm", [full], [out[:1]])
        mask = ch.empty((1, 16), np.int64)
        full[...], mask[...] = 1, 1
        mask[0, 3] = 0
        ends(errno.EINVAL, ch.infer, "minilm", [full, mask], [out[:1]])


def copied(s):
    return [s.metric('rlxd_copied_bytes_total{by="%s"}' % by) for by in ("http", "library")]


@test
def nothing_is_copied():
    a = address()
    with Server(MODELS + minilm() + channel(a)) as s, connect(a) as ch:
        before = copied(s)
        for i in range(20):
            relu(ch, 8, 100)
        x, y, k = ch.empty((4, 3, 16, 16)), ch.empty((4, 10)), ch.empty((4,), np.int64)
        x[...] = 0
        ch.infer("vision", [x], [y, k])
        ids, mask = ch.empty((8, 16), np.int64), ch.empty((8, 16), np.int64)
        out = vectors(ch, 8)
        ids[...], mask[...] = 5, 1
        ch.infer("minilm", [ids, mask], [out], rows=2)
        assert copied(s) == before, (before, copied(s))
        # The same over HTTP counts: the counters do work.
        st, r = s.post("/v2/models/relu/infer", {"inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})
        assert st == 200 and copied(s) != before


@test
def bad_requests_are_told():
    a = address()
    with Server(MODELS + channel(a)) as s, connect(a) as ch:
        x, y = ch.empty((4, 8)), ch.empty((4, 8))
        small, whole = ch.empty((1, 8)), ch.empty((64,), np.uint8)

        def ask(inline, slices, opcode=2):
            return rlx._check(ch.call(ch.request(opcode, inline, slices)).result)

        def inline(model=b"relu", *size):
            v = rlx._Ask(model=model)
            v.size[:len(size)] = size
            return bytes(v)

        sx, sy = ch.slice(x, rlx.READ), ch.slice(y, rlx.WRITE)
        good = inline(b"relu", 4, 8)
        odd = rlx.Slice(sx.arena, rlx.READ, sx.offset + 4, sx.length)
        for code, args in (
                (0, (good, [sx, sy])),
                (errno.EINVAL, (b"", [sx, sy])), (errno.EINVAL, (good[:63], [sx, sy])),
                (errno.EINVAL, (inline(b""), [sx, sy])), (errno.ENOENT, (inline(b"no"), [sx, sy])),
                (errno.ENOENT, (b"x" * 64, [sx, sy])),
                (errno.ENOENT, (b"\xff\n\x1b'" * 16, [sx, sy])),
                (errno.ENOENT, (inline(b"rel"), [sx, sy])),
                (errno.EINVAL, (good, [])), (errno.EINVAL, (good, [sx])),
                (errno.EINVAL, (good, [sx, sy, sy])), (errno.EINVAL, (good, [sx, sy], 3)),
                (errno.EINVAL, (good, [sx, sy], 0)),
                (errno.EINVAL, (inline(b"relu", 4, 8, 1), [sx, sy])),
                (errno.ERANGE, (inline(b"relu", 5, 8), [sx, sy])),
                (errno.ERANGE, (inline(b"relu", 1 << 31, 8), [sx, sy])),
                (errno.EDOM, (inline(b"relu", 0xffffffff, 0xffffffff), [sx, sy])),
                (errno.ERANGE, (good, [sx, ch.slice(small, rlx.WRITE)])),
                (errno.ERANGE, (good, [odd, sy])),
                (errno.EACCES, (good, [ch.slice(x, rlx.WRITE), sy])),
                (errno.EACCES, (good, [sx, ch.slice(y, rlx.READ)])),
                (errno.EACCES, (good, [sx, ch.slice(x, rlx.WRITE)])),
                (errno.EINVAL, (inline(b"relu"), [ch.slice(whole, rlx.WRITE)] * 2, 1)),
                (errno.EACCES, (inline(b"relu"), [ch.slice(whole, rlx.READ)], 1)),
                (errno.ENOENT, (inline(b"", 3), [ch.slice(whole, rlx.WRITE)], 1)),
                (0, (inline(b"relu"), [ch.slice(whole, rlx.WRITE)], 1)),
                (0, (good, [sx, sy]))):
            ends(code, ask, *args)
        assert bytes(whole[:5]) == b"relu\0"
        # A batch that is fixed in the file.
        x, y, n = ch.empty((2, 3, 16, 16)), ch.empty((2, 10)), ch.empty((2,), np.int64)
        x[...] = 1
        ch.infer("fixed", [x], [y, n])
        assert n[0] == n[1] == y[0].argmax()
        relu(ch)
        s.wait_log("error=\"there is no model '???'")


@test
def results_lie_apart():
    """Of requests that are divided into rows as of those that are one run."""
    a = address()
    rows = "[model rows]\npath = %svision.onnx\nbatch = yes\nmax_batch = 1\n" % SERVE
    with Server(MODELS + rows + channel(a)) as s, connect(a) as ch:
        x, y, k = ch.empty((4, 3, 16, 16)), ch.empty((4, 10)), ch.empty((4,), np.int64)
        x[...] = 1
        over_x = np.frombuffer(x, np.float32, 40).reshape(4, 10)
        over_y = np.frombuffer(y, np.int64, 4)
        # Once a row has told that it is a short one, as many as these are one run.
        ends(errno.EACCES, ch.infer, "rows", [x], [over_x, k])
        for model in ("vision", "rows"):
            ends(errno.EINVAL, ch.infer, model, [x], [y, over_y])
            ends(0, ch.infer, model, [x], [y, k])


@test
def many_slices_lie_in_the_arena():
    a = address()
    with Server(MODELS + channel(a)) as s, connect(a) as ch:
        x, y = ch.empty((4, 8)), ch.empty((4, 8))
        x[...], y[...] = -1, np.nan
        rq = ch.prepare("relu", [x], [y])
        room = ch.empty((2 * 24,), np.uint8)
        ctypes.memmove(room.ctypes.data, rq.slice, 48)
        rq.flags, rq.slice[0] = 1, ch.slice(room, rlx.READ)
        assert ch.call(rq).result == 0 and not y.any()


@test
def cancel_and_deadline():
    a = address()
    with Server(minilm("threads = 1\nreplicas = 1\n") + channel(a)) as s, connect(a) as ch:
        rq = slow(ch)[0]
        rq.user_data = 1
        begin = time.monotonic()
        ch.submit(rq)
        one = time.monotonic() - begin
        ch.wait(1)
        wait_for(lambda: s.metric('rlxd_model_queue_rows{model="minilm"}') == 0)
        ch.submit(rq)
        for i in range(2, 12):
            rq.user_data = i
            rq.deadline_ns = rlx.deadline_in(0.001) if i % 2 else 0
            rid = ch.submit(rq)
            if not i % 2:
                ch.cancel(rid)
        results = {r.user_data: r.result for r in ch.wait(11, 11)}
        assert results[1] == 0, (results, one)
        assert all(results[i] == (-errno.ETIME if i % 2 else -errno.ECANCELED)
                   for i in range(4, 12)), results


# Clients of their own processes, forked of one that has imported these and has no threads.
others = multiprocessing.get_context("forkserver")
others.set_forkserver_preload(["channels", "rlxd"])


def vanishing(a, said):
    ch = connect(a, depth=64)
    rq = slow(ch)[0]
    for i in range(64):
        ch.submit(rq)
    said.set()
    signal.pause()


@test
def clients_that_die():
    a = address()
    with Server(MODELS + minilm() + channel(a)) as s:
        load = Load(a)
        for i in range(4):
            said = others.Event()
            p = others.Process(target=vanishing, args=(a, said))
            p.start()
            assert said.wait(60)
            time.sleep(0.05 * i)
            p.kill()
            p.join()
        wait_for(lambda: s.metric('rlxd_channel_clients{channel="c"}') == 1)
        wait_for(lambda: s.metric('rlxd_channel_arenas{channel="c"}') == 1)
        wait_for(lambda: s.metric('rlxd_model_queue_rows{model="minilm"}') == 0)
        assert load.stop() > 100
        wait_for(lambda: s.metric('rlxd_channel_clients{channel="c"}') == 0)
        assert s.metric('rlxd_channel_arena_bytes{channel="c"}') == 0
        # A GPU has done most of what was asked before a client is killed 50 ms later.
        cancelled = s.metric('rlxd_model_rows_total{model="minilm",result="cancelled"}')
        assert cancelled > (0 if DEVICE else 100), cancelled


def noisy(a, seed):
    noise = np.random.default_rng(seed)
    ch = connect(a, depth=64)
    rq, spans = slow(ch)[0], []
    with open("/proc/self/maps") as f:
        for line in f:
            if "rlx" in line and " rw-s " in line:
                lo, hi = (int(v, 16) for v in line.split()[0].split("-"))
                words = min(hi - lo, 65536) // 8
                spans.append(np.frombuffer((ctypes.c_uint64 * words).from_address(lo), np.uint64))
    even = [1 / len(spans)] * len(spans)
    # 0, 1, all bits, anything, a byte
    keep = np.array([0, 0, 0, 2**64 - 1, 255], np.uint64)
    put = np.array([0, 1, 2**64 - 1, 0, 0], np.uint64)
    for i in range(400):
        try:
            ch.submit(rq)
            counts = noise.multinomial(noise.choice((1, 50, 4000)), even)
            for span, n in zip(spans, counts):
                kind = noise.integers(5, size=n)
                word = noise.integers(0, 1 << 64, n, np.uint64) & keep[kind] | put[kind]
                span[noise.integers(len(span), size=n)] = word
            ch.wait(0, 64, rlx.deadline_in(0.001))
        except rlx.Failed as e:
            if e.errno != errno.EAGAIN:
                break


@test
def garbage_in_every_shared_word():
    """A client that writes noise into all memory it shares, as it asks."""
    a = address()
    with Server(MODELS + minilm() + channel(a)) as s:
        load = Load(a)
        for seed in range(6):
            p = others.Process(target=noisy, args=(a, seed))
            p.start()
            p.join(patience(60))
            assert p.exitcode == 0, p.exitcode
        assert load.stop() > 100
        wait_for(lambda: s.metric('rlxd_channel_clients{channel="c"}') == 0)
        with connect(a) as ch:
            relu(ch)


@test
def inputs_that_change_while_they_are_used():
    a = address()
    with Server(minilm() + channel(a)) as s, connect(a) as ch:
        (rq, ids, out), halt = slow(ch), []

        def flip():
            while not halt:
                ids[...] = random.choice((5, -1, 1 << 62, 30000, -(1 << 62)))
        t = threading.Thread(target=flip)
        t.start()
        results = {ch.call(rq).result for i in range(40)}
        halt.append(1)
        t.join()
        assert results <= {0, -errno.ERANGE}, results
        ids[...] = 7
        assert ch.call(rq).result == 0 and np.isfinite(out).all()


@test
def rows_longer_than_any_program():
    """Of a request that is run in rows, since it takes long, as of one that is one run."""
    a = address()
    with Server(minilm("max_batch = 32\nthreads = 1\n") + channel(a)) as s, \
            connect(a, memory=64 << 20) as ch:
        out = vectors(ch, 32)
        for n in (1, 32):       # the first tells how long a row takes
            ids = ch.empty((n, 128), np.int64)
            ids[...] = 1000
            ch.infer("minilm", [ids], [out[:n]])
        assert np.allclose(out, out[0], atol=1e-5)
        for seq in (129, 20000):
            ids, mask = ch.empty((32, seq), np.int64), ch.empty((32, seq), np.int64)
            ids[...], mask[...], out[...] = 1000, 1, 7
            ends(errno.EDOM, ch.infer, "minilm", [ids], [out])
            ends(errno.EDOM, ch.infer, "minilm", [ids, mask], [out])
            mask[:, 5:] = 0
            ends(errno.EDOM, ch.infer, "minilm", [ids, mask], [out])
            assert (out == 7).all()


@test
def quota_and_models_of_a_channel():
    a, b = address(), address()
    text = minilm("replicas = 1\n") + MODELS + channel(a, "models = relu minilm\nmax_rows = 2")
    text += channel(b, "models = vision", "other")
    with Server(text) as s, connect(a) as ch, connect(b) as other:
        assert sorted(ch.models()) == ["minilm", "relu"]
        assert sorted(other.models()) == ["vision"]
        ends(errno.ENOENT, relu, other)
        relu(ch)
        rq = slow(ch)[0]
        for i in range(6):
            ch.submit(rq)
        results = [r.result for r in ch.wait(6, 6)]
        assert set(results) == {0, -errno.EBUSY} and results.count(0) >= 2, results
        # A reload changes both, for clients that are there already.
        s.write(text.replace("models = vision", "models = relu").replace("max_rows = 2", ""))
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded")
        relu(other)
        ends(errno.ENOENT, other._ask, "vision", 0)
        for i in range(6):
            ch.submit(rq)
        assert [r.result for r in ch.wait(6, 6)] == [0] * 6
        at = len(s.lines)
        s.write(text.replace("[channel c]\n", "[channel c]\nmode = 0666\n"))
        s.signal(signal.SIGHUP)
        s.wait_log("event=reloaded", after=at)
        assert "need a restart" in s.log(), s.log()


@test
def reload_under_load():
    a = address()
    with Server(MODELS + channel(a)) as s:
        loads = [Load(a) for i in range(3)]
        for i in range(5):
            at, done = len(s.lines), loads[0].done
            s.write(MODELS.replace("[model relu]\n", "[model relu]\nmax_batch = %d\n" % (i + 1)) +
                    channel(a))
            s.signal(signal.SIGHUP)
            s.wait_log("event=reloaded", after=at)
            wait_for(lambda: loads[0].done > done + 20)
        for load in loads:
            load.stop()


@test
def drain_answers_what_was_asked():
    a = address()
    s = Server(minilm() + channel(a))
    with s, connect(a) as ch:
        rq = slow(ch)[0]
        for i in range(10):
            ch.submit(rq)
        s.signal(signal.SIGTERM)
        assert [r.result for r in ch.wait(10, 10)] == [0] * 10
        assert s.ended() == 0
        # The channel learns of the end by a request that nobody took, or before.
        try:
            r = ch.call(rq)
            assert r.result == -errno.EOWNERDEAD and r.flags == 1, (r.result, r.flags)
        except rlx.Failed as e:
            assert e.errno == errno.EPIPE
        ends(errno.EPIPE, ch.call, rq)


@test
def told_to_end_while_loading():
    s = Server(minilm("replicas = 8\n") + channel(address()), wait=False)
    s.wait_log("event=listening")
    s.signal(signal.SIGTERM)
    assert s.ended() == 0, s.log()


@test
def killed_under_load():
    """Another server takes over; what nobody had begun is asked again by itself."""
    a = address()
    s = Server(MODELS + channel(a))
    loads = [Load(a, flags=rlx.RECOVER_ALL) for i in range(2)]
    for i in range(3):
        wait_for(lambda: all(ld.done > 50 for ld in loads))
        s.kill()
        s = Server(MODELS + channel(a))
        seen = [ld.done for ld in loads]
        wait_for(lambda: all(ld.done > n + 50 for ld, n in zip(loads, seen)))
    with s:
        for load in loads:
            load.stop()


def nobody(path, groups, answer):
    """Connects as another user: how many models there are, or an error."""
    if TRANSPORT == "kmod":     # whose arenas are the module's, too
        groups = groups + [os.stat("/dev/rlx").st_gid]
    os.setgroups(groups)
    os.setgid(65534)
    os.setuid(65534)
    try:
        with connect(path, memory=65536) as ch:
            answer.send(len(ch.models()))
    except rlx.Failed as e:
        answer.send(-e.errno)


@test
def who_may_connect():
    if os.getuid():
        raise Skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        paths = {n: "%s/%s.sock" % (d, n) for n in ("root", "user", "group", "other")}
        text = MODELS + channel(paths["root"], name="root")
        text += channel(paths["user"], "users = 1 65534", name="user")
        text += channel(paths["group"], "groups = 4242", name="group")
        text += channel(paths["other"], "users = 4243\nmode = 0666", name="other")
        with Server(text):
            for path, group, want in (("root", [], -errno.EACCES), ("user", [], 3),
                                      ("group", [], -errno.EACCES), ("group", [4242], 3),
                                      ("other", [4242], -errno.EACCES)):
                ours, theirs = others.Pipe()
                p = others.Process(target=nobody, args=(paths[path], group, theirs))
                p.start()
                assert ours.poll(60)
                assert (got := ours.recv()) == want, (path, group, got)
                p.join()


@test
def waiting_in_a_poll_loop():
    a = address()
    with Server(MODELS + channel(a, "spin = never")), connect(a) as ch:
        x, y = ch.empty((4, 8)), ch.empty((4, 8))
        x[...] = -2
        rq = ch.prepare("relu", [x], [y])
        poll, fd = select.poll(), ch.fileno()
        poll.register(fd, select.POLLIN)
        for i in range(100):
            ch.submit(rq)
            while not (got := ch.wait(0, 8, 0)):
                if not ch.arm():
                    assert poll.poll(10000), "nothing rang"
            assert got[0].result == 0


@test
def a_channel_that_cannot_be_opened():
    with tempfile.TemporaryDirectory() as d:
        for extra, addr, why in (("", "/nonexistent/dir/x.sock", "No such file"),
                                 ("users = no-such-user-here", d + "/a", "there is no user"),
                                 ("groups = no-such-group", d + "/a", "there is no group")):
            s = Server(MODELS + channel(addr, extra), wait=False)
            assert s.ended() == 1
            assert "cannot start" in s.log() and why in s.log(), s.log()


def refused(call, *args, **kw):
    """It fails before anything is handed over."""
    try:
        call(*args, **kw)
    except ValueError:
        return
    assert False, "it did not fail"


@test
def the_client_refuses_what_does_not_fit():
    a = address()
    with Server(MODELS + minilm() + channel(a)) as s, connect(a) as ch:
        x, y = ch.empty((4, 8)), ch.empty((4, 8))
        after = ch.empty((4096,), np.uint8)
        after[...] = 0xaa
        refused(ch.request, 2, b"x" * 65, [])
        refused(ch.request, 2, b"", [ch.slice(x, rlx.READ)] * 65)
        for inputs, outputs in (([x] * 100, [y]), ([x, x], [y]), ([], [y]), ([x], []),
                                ([x], [y, y]), ([x], [ch.empty((4, 8), np.float64)]),
                                ([x], [ch.empty((4, 8), np.int32)]), ([x], [ch.empty((32,))]),
                                ([ch.empty((4, 8), np.float16)], [y])):
            refused(ch.infer, "relu", inputs, outputs)
        assert (after == 0xaa).all()
        image, k = ch.empty((2, 3, 16, 16)), ch.empty((2,), np.int64)
        for odd in ((2, 3, 16, 17), (2, 4, 16, 16), (2, 3, 256)):
            refused(ch.infer, "vision", [ch.empty(odd)], [ch.empty((2, 10)), k])
        refused(ch.infer, "vision", [image], [ch.empty((2, 11)), k])
        ids, out = ch.empty((8, 16), np.int64), vectors(ch, 8)
        ids[...] = 5
        for rows in (0, 9, -1, 1 << 33):
            refused(ch.infer, "minilm", [ids], [out], rows=rows)
        ch.infer("minilm", [ids], [out], rows=8)
        about = rlx.Model("m", True, [rlx.Tensor("x", None, (-1,), False)], [], [], 0)
        ch._models["m"] = about
        refused(ch.prepare, "m", [ch.empty((3,), np.float64)], [])
        assert rlx.DTYPES[4] == np.uint16
        relu(ch)
        assert not s.metric('rlxd_requests_total{route="channel",code="400"}')


@test
def the_client_keeps_and_gives_back():
    a = address()
    with Server(MODELS + channel(a)):
        with connect(a, memory=65536) as ch:
            x, y = ch.empty((2, 4)), ch.empty((2, 4))
            x[...] = -1
            s = [ch.slice(x, rlx.READ), ch.slice(y, rlx.WRITE)]
            for i in range(200):        # a list of slices each time, of which none stays
                assert ch.call(ch.request(2, bytes(64), s * 4)).result == -errno.EINVAL
            ch.infer("relu", [x], [y])
        assert not y.any() and (x == -1).all()      # behind the end of their channel
        refused(ch.infer, "relu", [x], [y])
        refused(ch.models)
        refused(ch.empty, (1,))
        del x, y, s
        open_files = len(os.listdir("/proc/self/fd"))
        for i in range(5):
            ends(errno.ENOMEM, lambda: connect(a, memory=4096))
            connect(a)                  # nobody closes it
        assert len(os.listdir("/proc/self/fd")) == open_files


@test
def the_client_goes_on_behind_a_deadline():
    assert rlx.deadline_in(-1) <= rlx.deadline_in(0) < rlx.deadline_in(5) < rlx.NO_DEADLINE
    assert rlx.deadline_in(float("inf")) == rlx.NO_DEADLINE
    a = address()
    with Server(minilm() + channel(a)), connect(a) as ch:
        rq, ids, out = slow(ch)
        ends(errno.ETIME, ch.call, rq, rlx.deadline_in(-1))
        out[...] = np.nan
        assert ch.call(rq).result == 0 and np.isfinite(out).all()
        ids = ch.submit(rq)
        ends(errno.EBUSY, ch.call, rq)
        assert ch.wait()[0].id == ids and ch.call(rq).result == 0


@test
def the_client_starts_over_if_models_change():
    a = address()
    with Server(MODELS + channel(a)) as s, connect(a) as ch:
        ask, asked = ch._ask, []

        def changing(name, at):
            asked.append(at)
            return ask(name, at - (len(asked) == 2))    # one came in front of the first
        ch._ask = changing
        assert sorted(ch.models()) == ["fixed", "relu", "vision"] and asked == [0, 1, 0, 1, 2]


@test
def rlx_load_drives_a_channel():
    a = address()
    with Server(MODELS + channel(a)):
        load = [BUILD + "/bin/rlx", "load", "--to", "channel:" + a, "--model", "vision", "--size",
                "1", "--seconds", "1", "--warm-up", "0.1", "--connections", "4", "--json"]
        extra = []
        for _ in range(2):
            r = subprocess.run(load + extra, capture_output=True, text=True)
            assert r.returncode == 0, r.stdout + r.stderr
            told = json.loads(r.stdout)["requests"]
            assert told["ok"], told
            # An emulated processor serves a hundredth of what the host does: half of what
            # it just served is a rate that it keeps up with.
            extra = ["--rate", str(told["per_second"] / 2)]

        # More than any processor serves: those begun are answered, and the others told.
        r = subprocess.run(load + ["--rate", "1e7"], capture_output=True, text=True)
        told = json.loads(r.stdout)["requests"]
        assert r.returncode and told["never_begun"] and not told["broken"], told
        r = subprocess.run([BUILD + "/bin/rlx", "load", "--to", "channel:" + a, "--model", "no"],
                           capture_output=True, text=True)
        assert r.returncode and "there is no model" in r.stderr, r.stderr


@test
def rlx_load_ends_with_its_server():
    for extra in ([], ["--rate", "50"]):
        a = address()
        s = Server(MODELS + channel(a))
        try:
            p = subprocess.Popen([BUILD + "/bin/rlx", "load", "--to", "channel:" + a, "--model",
                                  "vision", "--size", "1", "--seconds", "600", "--json"] + extra,
                                 stdout=subprocess.PIPE, text=True)
            wait_for(lambda: s.metric('rlxd_requests_total{route="channel",code="200"}') > 20)
            s.kill()
            told = json.loads(p.communicate(timeout=60)[0])["requests"]
            assert p.returncode and told["broken"], told
        finally:
            s.kill()


if __name__ == "__main__":
    main()
