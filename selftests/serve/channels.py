# SPDX-License-Identifier: MIT
"""What the tests of channels share: addresses, sections, clients, load that is checked."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples"))
os.environ.setdefault("RLX_LIBRARY",
                      os.path.abspath(os.environ.get("BUILD", "build")) + "/lib/librlx.so.1")

import numpy as np

import rlx_client as rlx

TRANSPORT = os.environ.get("RLXD_TRANSPORT", "shm")
rng = np.random.default_rng(8)
lock = threading.Lock()
made = 0


def address():
    global made
    with lock:
        made += 1
    return "@rlxd-test-%d-%d" % (os.getpid(), made)


def channel(a, extra="", name="c"):
    return "[channel %s]\naddress = %s\ntransport = %s\n%s\n" % (name, a, TRANSPORT, extra)


def connect(a, **kw):
    kw.setdefault("memory", 8 << 20)
    return rlx.Channel(a, transport=TRANSPORT, **kw)


class Load(threading.Thread):
    """Requests without end, each checked, until stop(); @pause seconds in between."""

    def __init__(self, a, depth=8, flags=0, pause=0):
        super().__init__(daemon=True)
        self.pause = pause
        self.ch = connect(a, depth=depth, flags=flags)
        self.ask = []
        for i in range(depth):
            x, y = self.ch.empty((4, 32)), self.ch.empty((4, 32))
            x[...] = rng.standard_normal((4, 32))
            self.ask.append((self.ch.prepare("relu", [x], [y], user_data=i), x, y))
        self.done, self.error, self.results, self.halt = 0, None, {}, False
        self.start()

    def send(self, i):
        rq, x, y = self.ask[i]
        y[...] = np.nan
        self.ch.submit(rq)

    def run(self):
        try:
            for i in range(len(self.ask)):
                self.send(i)
            busy = len(self.ask)
            while busy:
                for r in self.ch.wait(1, 64):
                    _, x, y = self.ask[r.user_data]
                    self.results[r.result] = self.results.get(r.result, 0) + 1
                    if not r.result:
                        assert np.array_equal(y, np.maximum(x, 0)), "wrong result"
                    self.done += 1
                    if self.halt:
                        busy -= 1
                    else:
                        self.send(r.user_data)
                if self.pause:
                    time.sleep(self.pause)
        except BaseException as e:
            self.error = e

    def stop(self):
        self.halt = True
        self.join(60)
        assert not self.is_alive(), "requests that nobody answers"
        self.ch.close()
        if self.error:
            raise self.error
        assert set(self.results) == {0}, self.results
        return self.done
