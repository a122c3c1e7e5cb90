# SPDX-License-Identifier: MIT
"""Decoders as .gguf files, of drawn weights in each format, are run by rlx: logits are those of
the model written out here in numpy, and llama.cpp gives its probabilities for the same weights.

    decoders.py RLX FOLDER

llama.cpp gets the weights as F32: blocks it multiplies by activations of 8 bits.
"""
import math
import os
import subprocess
import sys

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, KV, KEY, INNER, LAYERS, VOCAB, CONTEXT = 256, 4, 2, 64, 512, 2, 259, 64
BASE, EPS = 10000.0, 1e-5
BOUND = 2e-5
EXPERTS, CHOSEN = 8, 3
MIXED = {"mixtral": "llama", "qwen3moe": "qwen3moe"}    # of experts: what files call them
PLAIN = ["F32", "F16", "BF16"]
# Where scales lie in blocks that gguf cannot make: these are drawn.
DRAWN = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
         "IQ4_NL": (0,), "IQ4_XS": (0,)}
MADE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"]


def shapes(arch):
    yield "token_embd.weight", (VOCAB, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    if arch != "qwen3":     # which has its embedding once more at the end
        yield "output.weight", (VOCAB, WIDTH)
    if arch == "llama":
        yield "rope_freqs.weight", (KEY // 2,)
    for i in range(LAYERS):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", (WIDTH,)
        yield b + "ffn_norm.weight", (WIDTH,)
        for n, rows in (("q", HEADS), ("k", KV), ("v", KV)):
            yield f"{b}attn_{n}.weight", (rows * KEY, WIDTH)
            if arch == "qwen2":
                yield f"{b}attn_{n}.bias", (rows * KEY,)
        if arch in ("qwen3", "qwen3moe"):
            yield b + "attn_q_norm.weight", (KEY,)
            yield b + "attn_k_norm.weight", (KEY,)
        yield b + "attn_output.weight", (WIDTH, HEADS * KEY)
        stack, leaf = ((EXPERTS,), "_exps.weight") if arch in MIXED else ((), ".weight")
        if arch in MIXED:
            yield b + "ffn_gate_inp.weight", (EXPERTS, WIDTH)
        yield b + "ffn_gate" + leaf, stack + (INNER, WIDTH)
        yield b + "ffn_up" + leaf, stack + (INNER, WIDTH)
        yield b + "ffn_down" + leaf, stack + (WIDTH, INNER)


def stored(draw, name, shape, kind):
    """A tensor as the file has it, and as floats."""
    t = gguf.GGMLQuantizationType[kind]
    if len(shape) == 3:
        q, t, x = stored(draw, name, (shape[0] * shape[1], shape[2]), kind)
        return q.reshape(shape[:2] + (-1,)), t, x.reshape(shape)
    if len(shape) == 1:
        by = 0.3 if name.endswith("bias") else 0.1
        x = (by * draw.standard_normal(shape)).astype(np.float32)
        x += 0 if name.endswith("bias") else 1
        return x, gguf.GGMLQuantizationType.F32, x
    size = draw.standard_normal(shape) / math.sqrt(shape[1])
    if kind not in DRAWN:
        q = gguf.quants.quantize(size.astype(np.float32), t)
    else:
        block, n = gguf.GGML_QUANT_SIZES[t]
        q = draw.integers(0, 256, (shape[0], shape[1] // block, n), dtype=np.uint8)
        for at in DRAWN[kind]:
            q[:, :, at:at + 2] = np.array([0.001], np.float16).view(np.uint8)
        x = gguf.quants.dequantize(q.reshape(shape[0], -1), t)
        d = np.float16(0.001 / x.std() / math.sqrt(shape[1]))
        for at in DRAWN[kind]:
            q[:, :, at:at + 2] = np.array([d], np.float16).view(np.uint8)
        q[:, :, [at + 1 for at in DRAWN[kind]]] ^= draw.integers(    # signs: sums are about 0
            0, 2, q.shape[:2] + (1,), dtype=np.uint8) << 7
        q = q.reshape(shape[0], -1)
    x = gguf.quants.dequantize(q, t) if kind not in ("F32", "F16") else q
    return q, t, x.astype(np.float32).reshape(shape)


def write(path, arch, tensors):
    w = gguf.GGUFWriter(path, MIXED.get(arch, arch))
    if arch in MIXED:
        w.add_expert_count(EXPERTS)
        w.add_expert_used_count(CHOSEN)
    if arch == "qwen3moe":
        w.add_expert_feed_forward_length(INNER)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_key_length(KEY)
    w.add_value_length(KEY)
    w.add_rope_dimension_count(KEY)
    w.add_rope_freq_base(BASE)
    w.add_layer_norm_rms_eps(EPS)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)])
    w.add_token_scores([0.0] * VOCAB)
    w.add_token_types([2, 3, 3] + [6] * 256)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(False)
    for name, (q, kind, _) in tensors.items():
        w.add_tensor(name, q, raw_dtype=None if q.dtype in (np.float32, np.float16) else kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def norm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * g


def rotated(x, arch, factors):
    half = KEY // 2
    a = np.arange(len(x))[:, None] * BASE ** (-np.arange(half) / half) / factors
    c, s = np.cos(a)[:, None], np.sin(a)[:, None]
    pairs = MIXED.get(arch, arch) == "llama"
    u, v = (x[..., ::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
    y = np.stack([u * c - v * s, v * c + u * s], -1 if pairs else -2)
    return y.reshape(x.shape)


def gated(h, gate, up, down):
    g = h @ gate.T
    return (g / (1 + np.exp(-g)) * (h @ up.T)) @ down.T


def mixed(h, w, b):
    """Each row by the experts of greatest probability, in proportion to these."""
    y = np.zeros_like(h)
    for row, score in enumerate(h @ w[b + "ffn_gate_inp.weight"].T):
        best = np.argsort(-score)[:CHOSEN]
        share = np.exp(score[best] - score.max())
        for e, part in zip(best, share / share.sum()):
            y[row] += part * gated(h[row], *(w[f"{b}ffn_{n}_exps.weight"][e]
                                             for n in ("gate", "up", "down")))
    return y


def logits(w, arch, ids):
    n, x = len(ids), w["token_embd.weight"][ids]
    factors = w.get("rope_freqs.weight", np.ones(KEY // 2))
    for i in range(LAYERS):
        b, heads = f"blk.{i}.", {}
        h = norm(x, w[b + "attn_norm.weight"])
        for p in "qkv":
            y = h @ w[f"{b}attn_{p}.weight"].T + w.get(f"{b}attn_{p}.bias", 0)
            y = y.reshape(n, -1, KEY)
            if f"{b}attn_{p}_norm.weight" in w:
                y = norm(y, w[f"{b}attn_{p}_norm.weight"])
            y = rotated(y, arch, factors) if p != "v" else y
            heads[p] = y.repeat(HEADS // y.shape[1], 1).transpose(1, 0, 2)
        s = heads["q"] @ heads["k"].transpose(0, 2, 1) / math.sqrt(KEY)
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        h = (s / s.sum(-1, keepdims=True) @ heads["v"]).transpose(1, 0, 2).reshape(n, -1)
        x = x + h @ w[b + "attn_output.weight"].T
        h = norm(x, w[b + "ffn_norm.weight"])
        x = x + (mixed(h, w, b) if arch in MIXED else
                 gated(h, *(w[f"{b}ffn_{n}.weight"] for n in ("gate", "up", "down"))))
    x = norm(x, w["output_norm.weight"])
    return x @ w.get("output.weight", w["token_embd.weight"]).T


def run(rlx, folder, path, ids):
    np.save(os.path.join(folder, "ids.npy"), np.array([ids], np.int64))
    subprocess.run([rlx, "run", path, "--native", "--input", f"input_ids={folder}/ids.npy",
                    "--output", f"logits={folder}/logits.npy"], check=True,
                   stdout=subprocess.DEVNULL)
    return np.load(os.path.join(folder, "logits.npy"))[0].astype(np.float64)


def llama_cpp(path, text, want):
    """The greatest difference of its logarithms of probabilities of the next token."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = CONTEXT
    params.warmup = False
    params.cpuparams.n_threads = 1
    # Else its cache and attention round to f16: probabilities differ by a thousand times as much.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(params)
    got = server.handle_completions({"prompt": text, "n_predict": 1, "n_probs": VOCAB,
                                     "temperature": 0.0, "cache_prompt": False})
    want = want - want.max() - math.log(np.exp(want - want.max()).sum())
    top = got["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert len(top) > 250 and top[0]["id"] == int(want.argmax()), (len(top), top[0])
    return max(abs(p["logprob"] - want[p["id"]]) for p in top)


def moved(w, arch, ids, want):
    """How far roundings move the logits, as a part of the largest: those of f32, and of weights."""
    ways = [{n: x.astype(np.float32) for n, x in w.items()}]
    for seed in range(4):
        draw = np.random.default_rng(seed)
        ways.append({n: x * (1 + 2.0 ** -22 * draw.uniform(-1, 1, x.shape)) for n, x in w.items()})
    return max(np.abs(logits(v, arch, ids) - want).max() for v in ways) / np.abs(want).max()


def drawn(arch, kind, draw):
    """
    A model, a text, its ids and logits. Blocks of drawn bits make some models in which f32 loses
    ten times as much as in others, whoever computes it: those are drawn anew.
    """
    for at in range(500):
        if at % 25 == 0:
            tensors = {n: stored(draw, n, s, kind) for n, s in shapes(arch)}
            w = {n: x.astype(np.float64) for n, (_, _, x) in tensors.items()}
        text = bytes(draw.integers(33, 126, int(draw.integers(3, 40)), dtype=np.uint8)).decode()
        ids = [1] + [3 + c for c in text.encode()]
        want = logits(w, arch, ids)
        shown = 32 <= want[-1].argmax() - 3 < 127   # else llama.cpp keeps the next byte to itself
        if shown and moved(w, arch, ids, want) < BOUND / 10:
            return tensors, text, ids, want
    raise AssertionError(f"{arch} {kind}: no model that roundings move little")


def one(rlx, folder, arch, kind, draw):
    path, plain = (os.path.join(folder, f) for f in ("m.gguf", "plain.gguf"))
    tensors, text, ids, want = drawn(arch, kind, draw)
    write(path, arch, tensors)
    off = np.abs(run(rlx, folder, path, ids) - want).max() / np.abs(want).max()
    print(f"# {arch} {kind}: {len(ids)} tokens, off by {off:.2g} of the largest")
    assert off < BOUND, (arch, kind, off)
    if kind in ("F32", "Q8_0", "Q4_K"):
        write(plain, arch, {n: (x, gguf.GGMLQuantizationType.F32, x)
                            for n, (_, _, x) in tensors.items()})
        far = llama_cpp(plain, text, want[-1])
        print(f"# llama.cpp by {far:.2g}")
        assert far < 1e-4, (arch, kind, far)


def main():
    rlx, folder = sys.argv[1:]
    seed = int(os.environ.get("RLX_TEST_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"# RLX_TEST_SEED={seed}")
    draw = np.random.default_rng(seed)
    for kind in PLAIN + MADE + list(DRAWN):
        one(rlx, folder, "llama", kind, draw)
    for arch in ["qwen2", "qwen3"] + list(MIXED):
        for kind in ("F32", "Q4_K"):
            one(rlx, folder, arch, kind, draw)


main()
