# SPDX-License-Identifier: MIT
"""Requests that are not quite what they were."""

# What breaks parsers, put in anywhere.
TOKENS = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n\r\n", b"%00", b"%2e%2e/", b"\xff\xfe",
    b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"null",
    b"true", b"[" * 200, b'{"a":' * 80, b"1e999", b"-1", b"-0", b"0x10", b"1e-999", b"NaN",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"4294967296",
    b"0.1", b"1" * 400, b"Content-Length: 0\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n", b"Connection: close\r\n",
    b"Expect: 100-continue\r\n", b"Inference-Header-Content-Length: 9999\r\n",
    b"Inference-Header-Content-Length: 0\r\n", b"Upgrade: h2c\r\n", b"X: " + b"y" * 3000,
    b"ffffffffffffffff\r\n", b"0\r\n\r\n", b"/../", b"HTTP/1.1", b"shared_memory_region",
    b"shared_memory_offset", b"binary_data_size", b"BYTES", b"INT64", b"FP16", b'"shape":[-1]',
    b'"shape":[4294967296,4294967296]', b"dimensions", b"classification", b"versions/2",
]


def mutate(rng, data, others):
    """Some bytes of it are others, more or fewer; or it goes on as one of @others does."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        i = rng.randrange(len(data) + 1)
        k = min(len(data), i + rng.choice((1, 1, 2, 8, 40, 300)))
        what = rng.randrange(7)
        if what == 0 and i < len(data):
            data = data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1:]
        elif what == 1:
            data = data[:i] + rng.choice(TOKENS) + data[i:]
        elif what == 2:
            data = data[:i] + data[k:]
        elif what == 3:
            data = data[:k] + data[i:]
        elif what == 4:
            data = data[:i] + rng.randbytes(rng.randrange(1, 60)) + data[i:]
        elif what == 5:
            data = data[:i] + rng.choice(TOKENS) + data[k:]
        else:
            other = rng.choice(others)
            data = data[:i] + other[rng.randrange(len(other)):]
        if not data:
            data = b"\0"
    return data
