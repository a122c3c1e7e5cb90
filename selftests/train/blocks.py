# SPDX-License-Identifier: MIT
"""Blocks of any bytes, in each of GGUF's formats that are read, are to the bit what gguf's own
reader makes of them.

    blocks.py LIBRARY FOLDER
"""
import ctypes
import os
import sys

import gguf
import numpy as np

FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4"]
ROWS, BLOCKS = 37, 5


def main():
    library, path = ctypes.CDLL(sys.argv[1]), os.path.join(sys.argv[2], "blocks.gguf")
    library.rlx_gguf_find.restype = ctypes.c_void_p
    seed = int.from_bytes(os.urandom(4), "little")
    draw = np.random.default_rng(seed)
    writer, stored = gguf.GGUFWriter(path, "llama"), {}
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        stored[name] = draw.integers(0, 256, (ROWS, BLOCKS * size), dtype=np.uint8)
        writer.add_tensor(name, stored[name], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file, left = ctypes.c_void_p(), []
    assert library.rlx_gguf_open(path.encode(), ctypes.byref(file), None) == 0, path
    for name, raw in stored.items():
        with np.errstate(all="ignore"):
            want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name])
        want = want.astype(np.float32)
        got = np.empty_like(want)
        tensor = ctypes.c_void_p(library.rlx_gguf_find(file, name.encode()))
        st = library.rlx_gguf_read(tensor, got.ctypes.data_as(ctypes.c_void_p), None)
        nan = np.isnan(want)
        if st or not (np.isnan(got) == nan).all() or (
                got.view(np.uint32) != want.view(np.uint32))[~nan].any():
            left.append(name)
    library.rlx_gguf_close(file)
    print(f"# seed {seed}: {len(stored)} formats, {want.size} elements of the last")
    assert not left, f"seed {seed}: {left}"


main()
