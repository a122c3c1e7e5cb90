# SPDX-License-Identifier: MIT
"""PyTorch's side of the sweep, a process of its own: a line of JSON asks, a line answers.

	{"do": "about"}				what it is
	{"do": "open", "family", "seed", "index", "most", "repeats", "compile"}
	{"do": "time"}				us of one run, of the fastest way
	{"do": "sample", "n"}			numbers of the result
	{"do": "close"}

Each way (as it is, channels last, compiled) is a CUDA graph of some runs."""
import contextlib
import gc
import json
import os
import sys

import torch
import torch.nn.functional as F

import cases
from ways import Way, operands_of


class Peer:
    def __init__(self):
        torch.backends.cuda.matmul.allow_tf32 = False	# f32 is f32 on both sides
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.ways, self.notes = [], []

    def about(self, q):
        return {"name": "PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name(0))}

    def open(self, q):
        self.close(q)
        d = cases.draw(q["family"], q["seed"], q["index"], q["most"])
        t = operands_of(d)
        ways = [("eager", lambda: d.peer(t, F))]
        if q["family"] == "conv" or "w0" in t:
            u = {k: v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v
                 for k, v in t.items()}
            ways.append(("channels last", lambda: d.peer(u, F)))
        if q["compile"] and d.compiled:
            last = ways[-1][0]
            v = u if last == "channels last" else t
            ways.append(("compiled", torch.compile(lambda: d.peer(v, F), dynamic=False)))
        self.notes = []
        for name, run in ways:
            try:
                with torch.inference_mode():
                    self.ways.append(Way(name, run, q["repeats"]))
            except Exception as e:	# one way that cannot is no way that the others cannot
                self.notes.append("%s: %s" % (name, str(e).split("\n")[0][:100]))
        if not self.ways:
            raise RuntimeError("; ".join(self.notes))
        return {"ways": len(self.ways), "notes": self.notes}

    def time(self, q):
        us = {w.name: w.us() for w in self.ways}
        best = min(us, key=us.get)
        return {"us": us[best], "way": best}

    def sample(self, q):
        return {"values": self.ways[0].sample(q["n"])}

    def close(self, q):
        self.ways = []
        gc.collect()
        with contextlib.suppress(Exception):
            torch._dynamo.reset()
        torch.cuda.empty_cache()
        return {}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)			# what torch and its compilers print is no reply
    peer = Peer()
    for line in sys.stdin:
        q = json.loads(line)
        try:
            r = getattr(peer, q["do"])(q)
        except Exception as e:
            r = {"error": str(e).split("\n")[0][:200] or type(e).__name__}
        out.write(json.dumps(r) + "\n")
        out.flush()
        if "CUDA error" in r.get("error", ""):	# the context is of no more use
            os._exit(3)


main()
