#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare rlx/tokenizer.h with the reference tokenizers, id by id.

    tokenizer_parity.py [--lib build/lib/librlx.so] [--seed N] [FILE ...]

FILEs are tokenizer.json files of real models; without any only tokenizers
trained here are compared. Needs the PyPI package tokenizers; ends with
"N passed, N failed, N skipped".
"""
import argparse
import ctypes as C
import glob
import json
import os
import random
import sys
import tempfile
import unicodedata


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("node", C.c_uint), ("line", C.c_uint),
                ("file", C.c_char_p), ("text", C.c_char * 496)]


class Options(C.Structure):
    _fields_ = [("pair", C.c_char_p), ("pair_len", C.c_size_t),
                ("max_tokens", C.c_uint32), ("pad_to", C.c_uint32),
                ("pad_multiple", C.c_uint32), ("no_special", C.c_bool),
                ("truncate_left", C.c_bool), ("pad_left", C.c_bool)]


class Span(C.Structure):
    _fields_ = [("begin", C.c_uint32), ("end", C.c_uint32)]


class Encoding(C.Structure):
    _fields_ = [("ids", C.POINTER(C.c_int64)),
                ("type_ids", C.POINTER(C.c_int64)),
                ("mask", C.POINTER(C.c_int64)), ("spans", C.POINTER(Span)),
                ("capacity", C.c_uint32), ("n", C.c_uint32),
                ("cut", C.c_uint32)]


class Decoding(C.Structure):
    _fields_ = [("ids", C.POINTER(C.c_int64)), ("n", C.c_size_t),
                ("skip_special", C.c_bool), ("text", C.c_char_p),
                ("capacity", C.c_size_t), ("len", C.c_size_t)]


class Ours:
    def __init__(self, lib, data):
        self.lib, self.t, self.s = lib, C.c_void_p(), C.c_void_p()
        err = Error()
        if lib.rlx_tokenizer_new_mem(data, C.c_size_t(len(data)), None,
                                     C.byref(self.t), C.byref(err)) or \
           lib.rlx_tokenizer_scratch_new(self.t, C.byref(self.s),
                                         C.byref(err)):
            raise RuntimeError(err.text.decode())
        self.size = 0

    def __del__(self):
        self.lib.rlx_tokenizer_scratch_free(self.s)
        self.lib.rlx_tokenizer_free(self.t)

    def room(self, n):
        self.size = n
        self.arrays = [(C.c_int64 * n)() for _ in range(3)] + [(Span * n)()]

    def encode(self, text, pair=None, **opts):
        b = text.encode()
        o = Options(**opts)
        if pair is not None:
            o.pair = pair.encode()
            o.pair_len = len(pair.encode())
        need = 4 * (len(b) + (o.pair_len if pair is not None else 0)) + 64 + \
            o.pad_to + o.pad_multiple
        if self.size < need:
            self.room(need)
        a = self.arrays
        e = Encoding(*[C.cast(x, t) for x, t in
                       zip(a, [C.POINTER(C.c_int64)] * 3 + [C.POINTER(Span)])],
                     self.size)
        err = Error()
        if self.lib.rlx_tokenizer_encode(self.s, b, C.c_size_t(len(b)),
                                         C.byref(o), C.byref(e), C.byref(err)):
            raise RuntimeError(err.text.decode())
        n = e.n
        return (a[0][:n], a[1][:n], a[2][:n],
                [(x.begin, x.end) for x in a[3][:n]])

    def decode(self, ids, skip):
        cap = 64 + 64 * len(ids) * 4
        buf = C.create_string_buffer(cap)
        arr = (C.c_int64 * max(1, len(ids)))(*ids)
        d = Decoding(arr, len(ids), skip, C.cast(buf, C.c_char_p), cap)
        err = Error()
        if self.lib.rlx_tokenizer_decode(self.s, C.byref(d), C.byref(err)):
            raise RuntimeError(err.text.decode())
        return buf.raw[:d.len].decode()


def byte_offsets(text, offsets):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [(at[a], at[b]) for a, b in offsets]


POOLS = [
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ 0123456789 .,;:!?'\"-()[]{}#$%&*",
    "  \t\n\r\x0b\x0c\u00a0\u2003\u3000\u200b\u200d\ufeff\x00\x01\x7f\x85",
    "éèêëàâäçñöüßÆØÅÉÀÇÑÖÜİıŁłŠšŽž" + "e\u0301a\u0308n\u0303\u0323\u0307",
    "Привет мир ΑΒΓ αβγς שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดี",
    "你好世界日本語テキスト한국어각가힣豈更㐀𠀀ｱﾊﾟ",
    "😀👍🏽👨‍👩‍👧‍👦🇩🇪✈️❤️‍🔥ﬁﬃ①Ⅷ½²㎏℃™…–—‘’“”«»",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE I'm don't we'll ſ 'ſ",
]


def words():
    return ("the of and license software copyright notice permission is hereby"
            " granted free charge to any person obtaining a copy this").split()


def fuzz(rng):
    kind = rng.random()
    n = rng.randrange(1, 40)
    if kind < .35:
        pool = rng.choice(POOLS)
        return "".join(rng.choice(pool) for _ in range(n))
    if kind < .6:
        return "".join(rng.choice(rng.choice(POOLS)) for _ in range(n))
    if kind < .75:
        out = ""
        while len(out) < n:
            c = rng.randrange(0x110000) if rng.random() < .3 else \
                rng.randrange(0x3000)
            if not 0xd800 <= c < 0xe000 and \
               unicodedata.category(chr(c)) != "Cn":
                out += chr(c)
        return out
    out = []
    for _ in range(n):
        w = rng.choice(words()) if rng.random() < .8 else \
            rng.choice(["[MASK]", "[SEP]", "<s>", "</s>", "<|end|>", "1234567",
                        "x86_64", "//a.b/c?d=e", "  ", "\n\n", "\t"])
        out.append(w.title() if rng.random() < .2 else w)
    return rng.choice([" ", " ", "  ", "\n", ""]).join(out)


def texts(rng, n):
    out = ["", " ", "a", "\n", "Hello, world!", "'s", "a" * 101, "é" * 100,
           "a " * 300, "x" * 2000, " \n" * 50]
    for path in sorted(glob.glob("/usr/share/common-licenses/*")):
        if os.path.isfile(path):
            text = open(path, errors="replace").read()
            out += [p for p in text.split("\n\n") if p][:60]
    out += [fuzz(rng) for _ in range(n)]
    return out


def trained(T, dirname):
    """Small tokenizers of every kind we read, trained on the licences."""
    from tokenizers import (Tokenizer, Regex, AddedToken, models as M,
                            trainers as R, normalizers as N,
                            pre_tokenizers as P, decoders as D,
                            processors as X)
    files = [f for f in glob.glob("/usr/share/common-licenses/*")
             if os.path.isfile(f)]
    extra = os.path.join(dirname, "extra.txt")
    with open(extra, "w") as f:
        rng = random.Random(1)
        for _ in range(3000):
            f.write(fuzz(rng).replace("\x00", "") + "\n")
    files.append(extra)
    llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
              r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    o200k = ("|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+",
        r"\s+(?!\S)", r"\s+"]))

    def bpe(name, pre, post=None, norm=None, dec=None, model=None, added=(),
            **train):
        t = Tokenizer(model or M.BPE())
        if norm:
            t.normalizer = norm
        if pre:
            t.pre_tokenizer = pre
        t.train(files, R.BpeTrainer(vocab_size=1500, show_progress=False,
                                    special_tokens=["<s>", "</s>", "<unk>"],
                                    **train))
        if post:
            t.post_processor = post
        t.decoder = dec or D.ByteLevel()
        t.add_tokens(list(added))
        return name, t

    alphabet = dict(initial_alphabet=P.ByteLevel.alphabet())
    some = [AddedToken("<|end|>", special=True, lstrip=True, rstrip=True),
            AddedToken("copy", single_word=True, normalized=False),
            AddedToken("Permission is", normalized=True),
            AddedToken("free", rstrip=True)]
    yield bpe("gpt2", P.ByteLevel(add_prefix_space=False),
              X.ByteLevel(trim_offsets=True), added=some, **alphabet)
    yield bpe("roberta", P.ByteLevel(add_prefix_space=True),
              X.RobertaProcessing(("</s>", 1), ("<s>", 0)), **alphabet)
    yield bpe("llama3", P.Sequence([
        P.Split(Regex(llama3), "isolated"),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]),
        X.Sequence([X.ByteLevel(trim_offsets=False), X.TemplateProcessing(
            "<s> $A", "<s> $A </s> $B:1 </s>:1", [("<s>", 0), ("</s>", 1)])]),
        model=M.BPE(ignore_merges=True), **alphabet)
    yield bpe("qwen2", P.Sequence([
        P.Split(Regex(llama3.replace("{1,3}", "")), "isolated"),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]),
        norm=N.NFC(), added=some, **alphabet)
    yield bpe("gpt4o", P.Sequence([
        P.Split(Regex(o200k), "removed", invert=True),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]), **alphabet)
    yield bpe("deepseek", P.Sequence([
        P.Split(Regex("[\r\n]"), "isolated"),
        P.Split(Regex(r"\s?\p{L}+"), "isolated"),
        P.Split(Regex(r"\s?\p{P}+"), "isolated"),
        P.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"),
        P.Digits(True),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]), **alphabet)
    yield bpe("clip", P.Sequence([
        P.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|"
                      r"[^\s\p{L}\p{N}]+"), "removed", invert=True),
        P.ByteLevel(add_prefix_space=False, use_regex=False)]),
        norm=N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "),
                         N.Lowercase()]),
        model=M.BPE(end_of_word_suffix="</w>", unk_token="<unk>"),
        end_of_word_suffix="</w>", dec=D.BPEDecoder(), **alphabet)
    yield bpe("llama2", None, norm=N.Sequence([
        N.Prepend("▁"), N.Replace(" ", "▁")]),
        model=M.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        added=["<0x%02X>" % i for i in range(0)],
        dec=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(),
                        D.Strip(" ", 1, 0)]))
    yield bpe("metaspace", P.Metaspace(prepend_scheme="first"),
              model=M.BPE(unk_token="<unk>"), dec=D.Metaspace(), added=some)
    yield bpe("whitespace", P.Whitespace(), norm=N.NFKC(),
              model=M.BPE(unk_token="<unk>", fuse_unk=False),
              dec=D.Sequence([D.Fuse()]))
    yield bpe("prefix", P.Sequence([P.WhitespaceSplit(), P.Punctuation(),
                                    P.Digits(False)]),
              norm=N.NFKD(), model=M.BPE(unk_token="<unk>",
                                         continuing_subword_prefix="##"),
              continuing_subword_prefix="##", dec=D.WordPiece())
    for how in ("removed", "isolated", "merged_with_previous",
                "merged_with_next", "contiguous"):
        yield bpe("split-" + how, P.Sequence([
            P.Split(" ", how), P.Punctuation(how),
            P.Split(Regex(r"[aeiou]+"), how, invert=True),
            P.Split(Regex(r"\n"), how)]),
            norm=N.Sequence([N.Strip(), N.StripAccents()]),
            model=M.BPE(unk_token="<unk>"))

    def wp(name, norm, pre, **kw):
        t = Tokenizer(M.WordPiece(unk_token="[UNK]", **kw))
        t.normalizer, t.pre_tokenizer = norm, pre
        t.train(files, R.WordPieceTrainer(
            vocab_size=2000, show_progress=False,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
        t.post_processor = X.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        t.decoder = D.WordPiece()
        return name, t

    yield wp("bert-uncased", N.BertNormalizer(), P.BertPreTokenizer())
    yield wp("bert-cased", N.BertNormalizer(lowercase=False),
             P.BertPreTokenizer())
    yield wp("bert-accents", N.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True,
        lowercase=False), P.BertPreTokenizer(), max_input_chars_per_word=12)
    yield wp("chars", N.NFD(), P.Sequence([P.CharDelimiterSplit(" "),
                                           P.FixedLength(7)]))
    t = Tokenizer(M.WordLevel(unk_token="[UNK]"))
    t.pre_tokenizer = P.Whitespace()
    t.train(files, R.WordLevelTrainer(vocab_size=900, show_progress=False,
                                      special_tokens=["[UNK]"]))
    yield "wordlevel", t
    for fb in (False, True):
        t = Tokenizer(M.Unigram())
        t.normalizer = N.NFKC()
        t.pre_tokenizer = P.Metaspace()
        t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace()])
        special = ["<unk>", "<s>", "</s>"]
        if fb:
            special += ["<0x%02X>" % i for i in range(256)]
        t.train(files[:6], R.UnigramTrainer(vocab_size=1500, show_progress=False,
                                        unk_token="<unk>",
                                        special_tokens=special))
        if fb:
            j = json.loads(t.to_str())
            j["model"]["byte_fallback"] = True
            j["added_tokens"] = j["added_tokens"][:3]
            t = T.from_str(json.dumps(j))
        yield "unigram" + ("-bytes" if fb else ""), t


def show(v):
    v = repr(v)
    return v if len(v) < 300 else v[:300] + "..."


def differ(want, got):
    """Lists from where they differ on."""
    if isinstance(want, list) and isinstance(got, list):
        i = 0
        while i < min(len(want), len(got)) and want[i] == got[i]:
            i += 1
        return "[%d:] %s" % (i, want[i:i + 8]), "[%d:] %s" % (i, got[i:i + 8])
    return show(want), show(got)


class Run:
    def __init__(self):
        self.passed = self.failed = self.shown = 0

    def check(self, name, what, text, want, got):
        if want == got:
            self.passed += 1
            return
        self.failed += 1
        self.shown += 1
        if self.shown <= 20:
            print("not ok %s %s\n  text %s\n  want %s\n  got  %s" % (
                (name, what, show(text)) + differ(want, got)))


def compare(run, name, ref, lib, rng, corpus):
    ref.no_truncation()
    ref.no_padding()
    ours = Ours(lib, ref.to_str().encode())
    before = run.failed
    for i, text in enumerate(corpus):
        e = ref.encode(text)
        ids, types, mask, spans = ours.encode(text)
        run.check(name, "ids", text, e.ids, ids)
        run.check(name, "types", text, e.type_ids, types)
        run.check(name, "spans", text, byte_offsets(text, e.offsets), spans)
        for skip in (False, True):
            run.check(name, "decode", ids, ref.decode(e.ids, skip),
                      ours.decode(e.ids, skip))
        if i % 5:
            continue
        pair = rng.choice(corpus)
        e = ref.encode(text, pair)
        got = ours.encode(text, pair)
        run.check(name, "pair", (text, pair), (e.ids, e.type_ids), got[:2])
        e = ref.encode(text, add_special_tokens=False)
        run.check(name, "plain", text, e.ids,
                  ours.encode(text, no_special=True)[0])
        n, side = rng.randrange(4, 40), rng.random() < .5
        ref.enable_truncation(n, direction="left" if side else "right")
        e = ref.encode(text, pair)
        run.check(name, "cut to %d" % n, (text, pair), (e.ids, e.type_ids),
                  ours.encode(text, pair, max_tokens=n,
                              truncate_left=side)[:2])
        ref.no_truncation()
    print("%s %s: %d texts" % ("ok" if run.failed == before else "not ok",
                               name, len(corpus)), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", default="build/lib/librlx.so")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--texts", type=int, default=1500)
    p.add_argument("--only")
    p.add_argument("files", nargs="*")
    args = p.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("SKIP: no package tokenizers\n0 passed, 0 failed, 1 skipped")
        return 0
    lib = C.CDLL(os.path.abspath(args.lib))
    lib.rlx_tokenizer_free.restype = None
    lib.rlx_tokenizer_free.argtypes = [C.c_void_p]
    lib.rlx_tokenizer_scratch_free.restype = None
    lib.rlx_tokenizer_scratch_free.argtypes = [C.c_void_p]
    print("seed %d" % args.seed)
    rng = random.Random(args.seed)
    corpus = texts(rng, args.texts)
    run = Run()
    for path in args.files:
        compare(run, path, Tokenizer.from_file(path), lib, rng, corpus)
    with tempfile.TemporaryDirectory() as dirname:
        for name, ref in trained(Tokenizer, dirname):
            if not args.only or args.only == name:
                run.shown = 0
                compare(run, name, ref, lib, rng, corpus)
    print("%d passed, %d failed, 0 skipped" % (run.passed, run.failed))
    return run.failed != 0


sys.exit(main())
