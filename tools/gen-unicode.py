#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write libuser/io/tokenizer/unicode.def, the packed Unicode tables of utf8.c.

    pip install unicodedata2==16.0.0; tools/gen-unicode.py >libuser/io/tokenizer/unicode.def

Needs perl too, for the age of code points. The reference tokenizers mix
versions: categories and case are of Unicode 16, normal forms of 11, and what
BERT strips or splits at of 8. The tables follow them, or ids would differ.

Every table is a string of numbers, five bits a character, little end first, the
32's bit set while more follow; signed ones are zigzag coded.
"""
import subprocess
import sys
import unicodedata
import unicodedata2 as ud

ALPHABET = ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
            "0123456789+-")
GC = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So "
      "Zs Zl Zp Cc Cf Co Cs").split()
ALT_UPPER, ALT_LOWER = 30, 31       # runs that alternate Lu and Ll
TOP = 0x110000


def present_in(version):
    """Code points assigned in @version or before."""
    code = ("no warnings; for my $c (0..0x10ffff) { next if $c >= 0xd800 && "
            "$c < 0xe000; print chr($c) =~ /\\p{Present_In: %s}/ ? 1 : 0 }"
            % version)
    bits = subprocess.run(["perl", "-e", code], check=True,
                          stdout=subprocess.PIPE).stdout
    bits = bits[:0xd800] + b"1" * 0x800 + bits[0xd800:]
    return [b == ord("1") for b in bits]


def num(v):
    out = ""
    while v >= 32:
        out += ALPHABET[32 + v % 32]
        v //= 32
    return out + ALPHABET[v]


def zig(v):
    return num(2 * v if v >= 0 else -2 * v - 1)


def categories():
    cat = [GC.index(ud.category(chr(c))) for c in range(TOP)]
    out, i = "", 0
    while i < TOP:
        k = i + 1
        if cat[i] in (1, 2):
            while k < TOP and cat[k] in (1, 2) and cat[k] != cat[k - 1]:
                k += 1
        if k - i > 2:
            # the last letter may begin a plain run
            if k < TOP and cat[k] == cat[k - 1]:
                k -= 1
            cls = ALT_UPPER if cat[i] == 1 else ALT_LOWER
        else:
            k, cls = i + 1, cat[i]
            while k < TOP and cat[k] == cls:
                k += 1
        out += num(cls) + num(k - i)
        i = k
    return out, cat


def classes(old):
    """Runs of equal combining class: gap, length, class."""
    out, i, last = "", 0, 0
    while i < TOP:
        ccc = ud.combining(chr(i)) if old[i] else 0
        if not ccc:
            i += 1
            continue
        k = i
        while k < TOP and old[k] and ud.combining(chr(k)) == ccc:
            k += 1
        out += num(i - last) + num(k - i) + num(ccc)
        i = last = k
    return out


def lower_of(c):
    low = chr(c).lower()
    if low == chr(c) and unicodedata.category(low) == "Cn" and \
        ud.category(low) == "Lu":
        try:        # younger than this Python's own tables
            low = ud.lookup(ud.name(low).replace("CAPITAL", "SMALL"))
        except KeyError:
            pass
    return ord(low[0]) if len(low) == 1 else c      # U+0130 is code


def lowercase():
    """Runs of equal distance: gap, length, step 1 or 2, distance."""
    pairs = [(c, lower_of(c) - c) for c in range(TOP)
             if not 0xd800 <= c < 0xe000]
    pairs = [p for p in pairs if p[1]]
    out, i, last = "", 0, 0
    while i < len(pairs):
        c, d = pairs[i]
        step = 1
        if i + 1 < len(pairs) and pairs[i + 1] == (c + 2, d):
            step = 2
        k = i + 1
        while k < len(pairs) and pairs[k] == (c + (k - i) * step, d):
            k += 1
        out += num(c - last) + num(k - i) + num(step - 1) + zig(d)
        last = c + (k - i - 1) * step
        i = k
    return out


def decompositions(old):
    """Runs: gap, 2 * (length - 1) + compat, count, [which counts up], elements.

    A count of 3 in a canonical one is a pair that never composes."""
    rows = []
    for c in range(TOP):
        text = ud.decomposition(chr(c)) if old[c] else ""
        if not text:
            continue
        compat = text.startswith("<")
        seq = [int(x, 16) for x in text.split() if not x.startswith("<")]
        n = len(seq)
        if not compat and n == 2 and \
           ud.normalize("NFC", "".join(map(chr, seq))) != chr(c):
            n = 3
        rows.append((c, compat, n, seq))
    out, i, last, prev = "", 0, 0, 0
    values = 0
    while i < len(rows):
        c, compat, n, seq = rows[i]
        best, which = 1, 0
        for w in range(len(seq)):
            k = 1
            while i + k < len(rows):
                want = list(seq)
                want[w] += k
                if rows[i + k] != (c + k, compat, n, want):
                    break
                k += 1
            if k > best:
                best, which = k, w
        out += num(c - last) + num(2 * (best - 1) + compat) + num(n)
        if best > 1:
            out += num(which)
        for j, v in enumerate(seq):
            if j == 1 and not compat:       # a mark: near to nothing else
                out += num(v)
            else:
                out += zig(v - prev)
                prev = v
        values += best * len(seq)
        last = c + best - 1
        i += best
    return out, len(rows), values


def young(gc):
    return GC[gc][0] in "PM" or GC[gc] == "Cf"


def old_view(cat, old):
    """Runs of P, M and Cf younger than Unicode 8: gap, length."""
    out, i, last = "", 0, 0
    while i < TOP:
        k = i
        while k < TOP and young(cat[k]) and not old[k]:
            k += 1
        if k > i:
            out += num(i - last) + num(k - i)
            last = k
        i = k + 1
    return out


def blocks(marks, size=128):
    """Blocks of @size that are not all of one value."""
    n = 0
    for b in range(0, TOP, size):
        n += len(set(marks[b:b + size])) > 1
    return n


def emit(name, text):
    print("static const char uc_%s[] =" % name)
    for i in range(0, len(text), 70):
        print('\t"%s"%s' % (text[i:i + 70], ";" if i + 70 >= len(text) else ""))


def main():
    if ud.unidata_version != "16.0.0":
        sys.exit("gen-unicode: needs unicodedata2 16.0.0, this is " +
                 ud.unidata_version)
    old8, old11 = present_in("8.0"), present_in("11.0")
    gc, cat = categories()
    dec, rows, values = decompositions(old11)
    marks = [(cat[c], old11[c] and ud.combining(chr(c)),
              old11[c] and ud.decomposition(chr(c))[:1],
              not 0xd800 <= c < 0xe000 and lower_of(c) != c,
              young(cat[c]) and not old8[c]) for c in range(TOP)]
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Packed Unicode tables, written by tools/gen-unicode.py;",
          "do not edit. */")
    print("enum { UC_MIXED_BLOCKS = %d, UC_DECOMPS = %d, UC_VALUES = %d };"
          % (blocks(marks), rows, values))
    emit("category", gc)
    emit("class", classes(old11))
    emit("lowercase", lowercase())
    emit("decomp", dec)
    emit("young", old_view(cat, old8))


main()
