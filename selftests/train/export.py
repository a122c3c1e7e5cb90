# SPDX-License-Identifier: MIT
"""Opens what rlx train wrote of a decoder with gguf's reader, llama.cpp and ONNX Runtime.

    export.py FOLDER

Tensors are those of the checkpoint (to what their format rounds); the probabilities that
llama.cpp gives for the next byte, and the logits of ONNX Runtime, are those of the model
written out here in numpy.
"""
import json
import math
import os
import struct
import sys

import gguf
import numpy as np
import onnx
import onnxruntime
import xllamacpp

# Of the weights: the largest error of an element, as a part of the largest of its block. Of the
# logarithms of probabilities: llama.cpp keeps keys and values in f16, and multiplies blocks of
# 8 bits by activations of 8 bits.
ROUND = {"F32": 0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 0.5 / 127 + 2**-11}
NEAR = {"F32": 0.003, "F16": 0.003, "BF16": 0.02, "Q8_0": 0.04}
NAMES = {"token_embd.weight": "tok", "position_embd.weight": "pos", "output_norm": "ln",
         "output.weight": "head", "attn_norm": "ln1", "attn_qkv": "qkv", "attn_output": "proj",
         "ffn_norm": "ln2", "ffn_up": "fc", "ffn_down": "out"}


def checkpoint(folder):
    at = os.path.join(folder, "checkpoints")
    step = max(d for d in os.listdir(at) if d.startswith("step-"))
    with open(os.path.join(at, step, "model.safetensors"), "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
            for k, t in head.items() if k != "__metadata__"}


def ours(name):
    """Their name of a tensor as ours."""
    block = ""
    if name.startswith("blk."):
        block, name = f"blocks.{name.split('.')[1]}.", name.split(".", 2)[2]
    if name in NAMES:
        return NAMES[name]
    part, leaf = name.split(".")
    return f"{block}{NAMES[part]}.{leaf}"


def tensors(path, state):
    """The file's, as floats and in our orientation, held against the checkpoint's."""
    w, worst, stored = {}, 0, None
    for t in gguf.GGUFReader(path).tensors:
        x = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        x = x.reshape([int(n) for n in reversed(t.shape)])
        name = ours(t.name)
        want = state[name]
        turned = name == "head" or (name.startswith("blocks.") and want.ndim == 2)
        if turned:
            want = want.T
        assert x.shape == want.shape, (name, x.shape, want.shape)
        rows = want.reshape(-1, 32) if want.ndim == 2 else want.reshape(-1, 1)
        off = np.abs(x - want).reshape(rows.shape)
        part = (off / np.maximum(np.abs(rows).max(1, keepdims=True), 1e-30)).max()
        assert part <= ROUND[t.tensor_type.name], (name, t.tensor_type.name, part)
        worst = max(worst, part)
        stored = t.tensor_type.name if name == "head" else stored
        w[name] = x.T if turned else x
    assert w.keys() == state.keys() - {k for k in state if k.startswith("ema.")}, "tensors"
    return w, worst, stored


def norm(w, name, x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[
        name + ".bias"]


def logits(w, ids, heads):
    x = (w["tok"][ids] + w["pos"][:len(ids)]).astype(np.float64)
    n, dim = x.shape
    for b in range(sum(k.endswith("qkv.weight") for k in w)):
        p = f"blocks.{b}."
        q, k, v = np.split(norm(w, p + "ln1", x) @ w[p + "qkv.weight"] + w[p + "qkv.bias"], 3, -1)
        q, k, v = (a.reshape(n, heads, -1).transpose(1, 0, 2) for a in (q, k, v))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(dim // heads)
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        h = (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, dim)
        x = x + h @ w[p + "proj.weight"] + w[p + "proj.bias"]
        h = norm(w, p + "ln2", x) @ w[p + "fc.weight"] + w[p + "fc.bias"]
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + h @ w[p + "out.weight"] + w[p + "out.bias"]
    return (norm(w, "ln", x) @ w["head"])[-1]


def onnx_model(folder, state, heads, texts):
    path = os.path.join(folder, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    context = session.get_inputs()[0].shape[1]
    for text in texts:
        ids = list(text.encode())
        x = np.full((1, context), 10, np.int32)
        x[0, :len(ids)] = ids
        got = session.run(["logits"], {"tokens": x})[0][0, len(ids) - 1]
        want = logits(state, ids, heads)
        off = np.abs(got - want).max() / np.abs(want).max()
        print(f"{text!r}: ONNX Runtime, off by {off:.3g} of the largest")
        assert off < 1e-5, off


def main():
    folder = sys.argv[1]
    texts = ("This License applies to ", "the copyright\nholder", "(c) \u00a9 2026")
    path = os.path.join(folder, "model.gguf")
    fields = gguf.GGUFReader(path).fields
    heads = fields["gpt2.attention.head_count"].contents()
    tokens = fields["tokenizer.ggml.tokens"].contents()
    state = checkpoint(folder)
    onnx_model(folder, state, heads, texts)
    w, worst, stored = tensors(path, state)
    print(f"{len(w)} tensors, matrices {stored}, off by {worst:.3g} of their blocks' largest")
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = fields["gpt2.context_length"].contents()
    params.warmup = False
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    for text in texts:
        ids = list(text.encode())
        got = server.handle_completions({"prompt": text, "n_predict": 1, "n_probs": 256,
                                         "temperature": 0.0, "cache_prompt": False})
        y = logits(w, ids, heads)
        want = y - y.max() - math.log(np.exp(y - y.max()).sum())
        top = got["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        off = max(abs(p["logprob"] - want[p["id"]]) for p in top)
        print(f"{text!r}: {len(top)} probabilities, off by {off:.3g}; next "
              f"{tokens[int(want.argmax())]!r}")
        assert got["usage"]["prompt_tokens"] == len(ids), got["usage"]
        assert len(top) == 256 and top[0]["id"] == int(want.argmax())
        assert off < NEAR[stored], off


main()
