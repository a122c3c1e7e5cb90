# SPDX-License-Identifier: MIT
"""Makes a small encoder of a folder's: the first head of its first layer, as wide as that."""
import json
import re
import shutil
import struct
import sys

import numpy as np

src, to = sys.argv[1:]
shutil.copytree(src, to)
with open(src + "/config.json") as f:
    config = json.load(f)
with open(src + "/model.safetensors", "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
heads = config["num_attention_heads"]
sizes = {k: config[k] // heads for k in ("hidden_size", "intermediate_size")}
size = {config[k]: n for k, n in sizes.items()}
out, parts, at = {}, [], 0
for name, t in head.items():
    if name == "__metadata__" or re.search(r"\.layer\.[1-9]", name):
        continue
    whole = np.frombuffer(data[slice(*t["data_offsets"])], {"F32": "<f4", "I64": "<i8"}[t["dtype"]])
    shape = [size.get(n, n) for n in t["shape"]]
    part = whole.reshape(t["shape"])[tuple(slice(n) for n in shape)].tobytes()
    out[name] = dict(t, shape=shape, data_offsets=[at, at + len(part)])
    parts.append(part)
    at += len(part)
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
with open(to + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
config.update(sizes, num_hidden_layers=1, num_attention_heads=1)
with open(to + "/config.json", "w") as f:
    json.dump(config, f)
