# SPDX-License-Identifier: MIT
"""
From SIGKILL to the first right reply of another process with kept weights.

Who asks connects at the moment of the kill, and again if the server that dies took the
connection. The other process is begun at that moment too, as by a supervisor that waits
for nothing, or stands by already. Under load, others ask all the time, by the clock.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fd_store_rig import FdStore, first_reply, free_port
from rlxd import BUILD, RLXD, minilm, wait_for

KILLS = int(os.environ.get("RLX_BENCH_KILLS", "30"))
RATE = "200"


class Servers:
    """One that serves and, if they stand by, another one."""

    def __init__(self, store, standby):
        self.port, self.standby = free_port(), standby
        self.dir = store.dir.name
        with open(self.dir + "/conf", "w") as f:
            f.write("[server]\nlisten = 127.0.0.1:%d\naccess_log = none\nstandby = %s\n%s%s"
                    % (self.port, "yes" if standby else "no", store.conf(), minilm()))
        self.log = open(self.dir + "/log", "a+")
        self.procs = []
        self.start()
        self.await_log("event=ready", 1)
        self.want = first_reply(self.port, lambda: None)[1]

    def start(self):
        self.procs.append(subprocess.Popen([RLXD, "--config", self.dir + "/conf"],
                                           stderr=self.log))

    def await_log(self, text, n):
        def there():
            self.log.seek(0)
            return self.log.read().count(text) >= n
        wait_for(there, 60)

    def ready(self, n):
        """Before kill number @n."""
        if self.standby:
            self.start()
            self.await_log('"standing by"', n + 1)
        time.sleep(0.2)

    def kill(self):
        self.procs[0].kill()
        if not self.standby:
            self.start()

    def time(self, n):
        self.ready(n)
        ms, body = first_reply(self.port, self.kill)
        assert body == self.want, body
        self.procs.pop(0).wait()
        return ms

    def stop(self):
        for p in self.procs:
            p.kill()
            p.wait()


def measure(standby, load):
    with FdStore() as k:
        s = Servers(k, standby)
        others = None
        try:
            if load:
                body = json.dumps({"model": "minilm", "input": "hello world"})
                others = subprocess.Popen(
                    [BUILD + "/bin/rlx", "load", "--to", "127.0.0.1:%d" % s.port, "--data", body,
                     "--connections", "4", "--rate", RATE, "--seconds", "600"],
                    stdout=subprocess.DEVNULL)
            return sorted(s.time(n) for n in range(KILLS))
        finally:
            if others:
                others.kill()
                others.wait()
            s.stop()


def main():
    print("from kill -9 to the first reply of another process, ms, of %d:" % KILLS)
    for standby in (False, True):
        for load in (False, True):
            t = measure(standby, load)
            print("  %-12s %-20s least %.1f  median %.1f  p95 %.1f  most %.1f" % (
                "stands by" if standby else "begun then",
                "%s others/s" % RATE if load else "nobody else", t[0], t[len(t) // 2],
                t[int(len(t) * 0.95)], t[-1]))
            if load:
                print("  goal: at most 20 ms: %s; median at most 5 ms: %s" % (
                    "met" if t[-1] <= 20 else "MISSED",
                    "met" if t[len(t) // 2] <= 5 else "MISSED"))


main()
