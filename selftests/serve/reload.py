# SPDX-License-Identifier: MIT
"""What a reload sees, and what it leaves as it is."""
import json
import os
import shutil
import signal
import tempfile
import threading

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rlxd import BUILD, RLXD, Manager, Server, main, test


def reload(s, event="reloaded"):
    """SIGHUP and its end: the lines of the log that it took."""
    n = len(s.lines)
    s.signal(signal.SIGHUP)
    s.wait_log(event, 60, after=n)
    return s.lines[n:]


def replace(path, data):
    """As a deployment does it: a new file under the old name."""
    with open(path + ".new", "wb") as f:
        f.write(data)
    os.replace(path + ".new", path)


def with_external_data(path, value):
    """y = x + w, with w in a file of its own: its path and its bytes."""
    w = np.full(4, value, np.float32)
    g = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
                          [numpy_helper.from_array(w, "w")])
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(m, path, save_as_external_data=True, location="w.data", size_threshold=0)
    return os.path.dirname(path) + "/w.data", w


def infer(s):
    st, r = s.post("/v2/models/m/infer", {"inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0.0] * 4}]})
    assert st == 200, r
    return r["outputs"][0]["data"]


@test
def external_data_that_changes():
    """A model is as old as the oldest of its files: also of those that it names itself."""
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(d + "/m")
        data, w = with_external_data(d + "/m/m.onnx", 1)
        with Server("[model m]\npath = %s/m/m.onnx\n" % d) as s:
            assert infer(s) == [1.0] * 4
            assert not any("model loaded" in ln for ln in reload(s))
            replace(data, (w + 1).tobytes())
            reload(s)
            assert infer(s) == [2.0] * 4
            # By a link, of which neither the old end nor the new one changes.
            os.rename(data, d + "/m/a")
            with open(d + "/m/b", "wb") as f:
                f.write((w + 2).tobytes())
            os.symlink("a", data)
            reload(s)
            assert infer(s) == [2.0] * 4
            os.symlink("b", d + "/m/link")
            os.replace(d + "/m/link", data)
            reload(s)
            assert infer(s) == [3.0] * 4
            # What is gone is told, and what is served stays.
            os.unlink(data)
            reload(s, "reload failed")
            assert infer(s) == [3.0] * 4


@test
def files_of_a_folder_that_change():
    """Every one that loading reads, and one that it would read had it been there."""
    with tempfile.TemporaryDirectory() as d:
        m = d + "/m"
        shutil.copytree(BUILD + "/models/minilm", m)
        os.rename(m + "/tokenizer.json", d + "/tokenizer.json")
        with Server("[model minilm]\npath = %s\nbuckets = 16\n" % m) as s:
            seen = [s.embed("hello")]

            def changes(what):
                lines = reload(s)
                assert sum("model loaded" in ln for ln in lines) == 1, (what, lines)
                seen.append(s.embed("hello"))
                assert seen[-1] not in seen[:-1], what
            with open(m + "/vocab.txt", "rb") as f:
                vocab = f.read()
            replace(m + "/vocab.txt", vocab.replace(b"\nhello\n", b"\nhellq\n"))
            changes("vocab.txt")
            with open(m + "/config.json") as f:
                config = json.load(f)
            replace(m + "/config.json", json.dumps(dict(config, layer_norm_eps=0.5)).encode())
            changes("config.json")
            os.rename(d + "/tokenizer.json", m + "/tokenizer.json")
            changes("tokenizer.json")
            # Of what is as it was nothing is loaded.
            assert not any("model loaded" in ln for ln in reload(s))


VISION = "[model %%s]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")


def feed(fifo, text):
    """Writes for whoever reads it next, and waits until it has begun to."""
    with open(fifo, "w") as f:
        f.write(text)


@test
def reloads_that_are_asked_for_meanwhile():
    """However many come while it reads and loads: what is there afterwards is loaded."""
    with tempfile.TemporaryDirectory() as d:
        conf, fifo = d + "/conf", d + "/fifo"
        os.mkfifo(fifo)
        os.link(fifo, conf)
        head = "[server]\nlisten = 127.0.0.1:0\n"
        first = threading.Thread(target=feed, args=(fifo, head + VISION % "a"))
        first.start()
        m = Manager()
        with Server(args=[RLXD, "--config", conf], wait=False,
                    env={"NOTIFY_SOCKET": m.path}) as s:
            first.join()
            # It waits for the file a second time, to load it: for the start, then for a reload.
            for old, new, event in (("a", "b", "event=ready"), ("b", "c", "event=reloaded")):
                s.wait_log("event=listening")
                n = len(s.lines)
                for _ in range(3):
                    s.signal(signal.SIGHUP)
                    s.wait_log("under way", after=n)
                replace(conf, (head + VISION % new).encode())
                feed(fifo, head + VISION % old)
                s.wait_log(event, 60, after=n)
                s.wait_log("event=reloaded", 60, after=n + 1 + [
                    event in ln for ln in s.lines[n:]].index(True))
                m.next("READY=1")
                m.next("RELOADING=1")
                m.next("READY=1")
                assert s.get("/v2/models/" + new)[0] == 200
                assert s.get("/v2/models/" + old)[0] == 404
                assert s.metric('rlxd_reloads_total{result="ok"}') == (1 if new == "b" else 3)
                if new == "b":
                    os.unlink(conf)
                    os.link(fifo, conf)
                    s.signal(signal.SIGHUP)
                    m.next("RELOADING=1")


def changes_told(lines):
    """The options of which a reload told that they need a restart."""
    return {ln.rsplit("option=", 1)[1] for ln in lines if "needs a restart" in ln}


@test
def options_of_the_server():
    """Logging follows, of the rest each option is told that only a start changes."""
    with tempfile.TemporaryDirectory() as d, \
            Server(VISION % "v", server="fd_store = %s/none\n" % d) as s:
        def server(text, listen="127.0.0.1:0", store="none"):
            """What a reload says, with that in [server]."""
            with open(s.conf, "w") as f:
                f.write("%s\n%s\n%s" % (s.head.replace("127.0.0.1:0", listen).replace(
                    d + "/none", d + "/" + store), text, VISION % "v"))
            return changes_told(reload(s))

        def is_logged(path):
            n = len(s.lines)
            s.get(path)
            s.get("/nowhere/" + path[1:])
            return any("path=" + path in ln for ln in s.lines[n:])
        assert not is_logged("/v2")
        live = "access_log = all\nlog_level = debug\nhosts = a\ncors_origins = *\n"
        assert server(live) == set()
        s.get("/v2")
        s.wait_log("path=/v2 ")
        assert server("access_log = none") == set()
        n = len(s.lines)
        s.get("/v2")
        s.get("/nowhere")
        assert server("log = json") == set()
        assert not any("path=/" in ln for ln in s.lines[n:]), s.lines[n:]
        for _ in range(2):      # as long as it differs from what was there at the start
            assert server("", listen="127.0.0.1:0 unix:%s/s" % d) == {"listen"}
            assert server("", store="other") == {"fd_store"}
            assert server("max_body = 1M\nstandby = yes\nlisten_insecure = 0.0.0.0:0\n") == \
                {"max_body", "standby", "listen_insecure"}
        assert server("") == set()


main()
