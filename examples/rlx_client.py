# SPDX-License-Identifier: MIT
"""A client of rlxd over a channel: numpy arrays that both processes see.

    with Channel("/run/rlxd/channel.sock") as ch:
        x, y = ch.empty((1, 3, 16, 16)), ch.empty((1, 10))
        x[...] = image
        ch.infer("vision", [x], [y])      # y is filled; nothing was copied
        print(ch.models()["vision"])

Arrays come out of an arena that is attached once; inputs and outputs are arrays made by
empty(). One thread at a time for each channel. Needs librlx.so (RLX_LIBRARY names
another) and numpy; the calls are those of rlx/serve.h and rlx/rlxd.h.
"""
import collections
import ctypes as C
import os

import numpy as np

NO_DEADLINE = 2**64 - 1
READ, WRITE = 1, 2
RECOVER, RECOVER_ALL = 1, 2
DTYPES = {1: np.float64, 2: np.float32, 3: np.float16, 7: np.int64, 8: np.int32, 9: np.int16,
          10: np.int8, 11: np.uint64, 12: np.uint32, 13: np.uint16, 14: np.uint8, 15: np.bool_,
          16: np.complex64}
_MODEL, _INFER = 1, 2
_INDIRECT = 1
_SLICES, _SLICES_MAX = 6, 64


class Failed(OSError):
    """What a call or a request ended with: errno, and what the library says."""


class _Error(C.Structure):
    _fields_ = [("status", C.c_int), ("node", C.c_uint), ("line", C.c_uint),
                ("file", C.c_char_p), ("text", C.c_char * 496)]


class _ArenaOpts(C.Structure):
    _fields_ = [("size", C.c_uint64), ("name", C.c_char_p), ("provider", C.c_char_p),
                ("flags", C.c_uint32), ("pages", C.c_uint32), ("nodes", C.c_uint64),
                ("reserved", C.c_uint64 * 4)]


class _Buf(C.Structure):
    _fields_ = [("arena", C.c_void_p), ("offset", C.c_uint64), ("bytes", C.c_uint64)]


class _ChannelOpts(C.Structure):
    _fields_ = [("size", C.c_size_t), ("address", C.c_char_p), ("transport", C.c_char_p),
                ("depth", C.c_uint32), ("queue", C.c_uint32), ("flags", C.c_uint32),
                ("pad", C.c_uint32), ("spin_ns", C.c_uint64), ("timeout_ns", C.c_uint64),
                ("recover_ns", C.c_uint64), ("tag", C.c_uint64), ("reserved", C.c_uint64 * 4)]


class Slice(C.Structure):
    _fields_ = [("arena", C.c_uint32), ("access", C.c_uint32), ("offset", C.c_uint64),
                ("length", C.c_uint64)]


class Request(C.Structure):
    _fields_ = [("opcode", C.c_uint32), ("flags", C.c_uint32), ("user_data", C.c_uint64),
                ("deadline_ns", C.c_uint64), ("nr_slices", C.c_uint32),
                ("inline_len", C.c_uint32), ("reserved", C.c_uint64 * 2),
                ("slice", Slice * _SLICES), ("inline_data", C.c_uint8 * 64)]


class Reply(C.Structure):
    _fields_ = [("user_data", C.c_uint64), ("id", C.c_uint64), ("aux", C.c_uint64),
                ("result", C.c_int32), ("flags", C.c_uint32)]


class _Ask(C.Structure):
    _fields_ = [("model", C.c_char * 40), ("size", C.c_uint32 * 6)]


class _Tensor(C.Structure):
    _fields_ = [("name", C.c_char * 64), ("dtype", C.c_uint32), ("rank", C.c_uint32),
                ("optional", C.c_uint32), ("reserved", C.c_uint32), ("dim", C.c_int64 * 8)]


class _Model(C.Structure):
    _fields_ = [("name", C.c_char * 40), ("in_place", C.c_uint32), ("nr_in", C.c_uint32),
                ("nr_out", C.c_uint32), ("nr_length", C.c_uint32), ("rows_max", C.c_uint32),
                ("reserved", C.c_uint32), ("length", C.c_uint32 * 16), ("in_", _Tensor * 16),
                ("out", _Tensor * 16)]


assert C.sizeof(Request) == 256 and C.sizeof(_Ask) == 64

Tensor = collections.namedtuple("Tensor", "name dtype shape optional")
Model = collections.namedtuple("Model", "name in_place inputs outputs lengths rows_max")

_lib = C.CDLL(os.environ.get("RLX_LIBRARY", "librlx.so.1"))
for _name, _args in {
        "rlx_arena_new": [C.POINTER(_ArenaOpts), C.POINTER(C.c_void_p), C.POINTER(_Error)],
        "rlx_arena_put": [C.c_void_p], "rlx_arena_base": [C.c_void_p],
        "rlx_buf_new": [C.c_void_p, C.c_uint64, C.c_uint64, C.POINTER(_Buf), C.POINTER(_Error)],
        "rlx_channel_open": [C.POINTER(_ChannelOpts), C.POINTER(C.c_void_p), C.POINTER(_Error)],
        "rlx_channel_close": [C.c_void_p],
        "rlx_channel_attach": [C.c_void_p, C.c_void_p, C.c_uint32, C.POINTER(C.c_uint32),
                               C.POINTER(_Error)],
        "rlx_channel_submit": [C.c_void_p, C.POINTER(Request), C.c_uint, C.POINTER(C.c_uint64)],
        "rlx_channel_wait": [C.c_void_p, C.POINTER(Reply), C.c_uint, C.c_uint, C.c_uint64],
        "rlx_channel_call": [C.c_void_p, C.POINTER(Request), C.POINTER(Reply), C.c_uint64],
        "rlx_channel_cancel": [C.c_void_p, C.c_uint64], "rlx_channel_fd": [C.c_void_p],
        "rlx_channel_arm": [C.c_void_p], "rlx_channel_error": [C.c_void_p],
        "rlx_deadline_in": [C.c_uint64]}.items():
    getattr(_lib, _name).argtypes = _args
_lib.rlx_arena_base.restype = C.c_void_p
_lib.rlx_channel_error.restype = C.POINTER(_Error)
_lib.rlx_deadline_in.restype = C.c_uint64


def deadline_in(seconds):
    """A deadline so many seconds from now."""
    return _lib.rlx_deadline_in(int(seconds * 1e9))


def _check(status, err=None):
    if status < 0:
        text = err.text.decode() if err is not None and err.text else os.strerror(-status)
        raise Failed(-status, text)
    return status


class Channel:
    """A connection to rlxd and an arena of @memory bytes that both sides see."""

    def __init__(self, address, memory=64 << 20, depth=64, transport=None, flags=0, provider=None):
        err = _Error()
        self._ch, self._arena = C.c_void_p(), C.c_void_p()
        opts = _ChannelOpts(size=C.sizeof(_ChannelOpts), address=os.fsencode(address),
                            transport=transport and transport.encode(), depth=depth, flags=flags)
        arena = _ArenaOpts(size=memory, name=b"client",
                           provider=provider and provider.encode())
        try:
            _check(_lib.rlx_channel_open(opts, self._ch, err), err)
            _check(_lib.rlx_arena_new(arena, self._arena, err), err)
            handle = C.c_uint32()
            _check(_lib.rlx_channel_attach(self._ch, self._arena, READ | WRITE, handle, err), err)
        except Failed:
            self.close()
            raise
        self.handle, self.base, self.memory = handle.value, _lib.rlx_arena_base(self._arena), memory
        self._model = self.empty((C.sizeof(_Model),), np.uint8)
        self._models = {}

    def empty(self, shape, dtype=np.float32):
        """An array in the arena; its memory is there until the channel is closed."""
        dtype, err, buf = np.dtype(dtype), _Error(), _Buf()
        n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        _check(_lib.rlx_buf_new(self._arena, max(n, 1), 64, buf, err), err)
        raw = (C.c_uint8 * max(n, 1)).from_address(self.base + buf.offset)
        raw.channel = self          # an array keeps its channel
        return np.frombuffer(raw, np.uint8, n).view(dtype).reshape(shape)

    def slice(self, array, access):
        """Where an array lies, as a slice of a request."""
        at = array.ctypes.data - self.base
        if at < 0 or at + array.nbytes > self.memory or not array.flags.c_contiguous:
            raise ValueError("an array must be whole, and made by empty() of this channel")
        return Slice(self.handle, access, at, max(array.nbytes, 1))

    def request(self, opcode, inline, slices, user_data=0, deadline_ns=0):
        rq = Request(opcode=opcode, user_data=user_data, deadline_ns=deadline_ns,
                     nr_slices=len(slices), inline_len=len(inline))
        C.memmove(rq.inline_data, inline, len(inline))
        if len(slices) > _SLICES:   # a list of them lies in the arena
            room = self.empty((_SLICES_MAX * C.sizeof(Slice),), np.uint8)
            C.memmove(room.ctypes.data, (Slice * len(slices))(*slices),
                      len(slices) * C.sizeof(Slice))
            rq.flags = _INDIRECT
            slices = [self.slice(room[:len(slices) * C.sizeof(Slice)], READ)]
        for i, s in enumerate(slices):
            rq.slice[i] = s
        return rq

    def prepare(self, model, inputs, outputs, rows=None, user_data=0, deadline_ns=0):
        """A request that runs a model; it may be submitted many times. Of an encoder's
        arrays, which have rows_max rows or one, @rows may be fewer."""
        about = self.model(model)
        sizes = []
        for tensor, array in zip(about.inputs, inputs):
            if array.dtype != tensor.dtype or array.ndim != len(tensor.shape):
                raise ValueError("input %s is %s of rank %d" % (
                    tensor.name, np.dtype(tensor.dtype).name, len(tensor.shape)))
            shape = array.shape if rows is None else (rows,) + array.shape[1:]
            sizes += [n for n, d in zip(shape, tensor.shape) if d < 0]
        ask = _Ask(model=model.encode())
        ask.size[:len(sizes)] = sizes
        return self.request(_INFER, bytes(ask), [self.slice(a, READ) for a in inputs] +
                            [self.slice(a, WRITE) for a in outputs], user_data, deadline_ns)

    def submit(self, request):
        """Hand a request over; its id."""
        rid = C.c_uint64()
        _check(_lib.rlx_channel_submit(self._ch, request, 1, rid), self._error())
        return rid.value

    def wait(self, least=1, most=64, deadline_ns=NO_DEADLINE):
        """Replies, at least so many unless the deadline passes."""
        replies = (Reply * most)()
        n = _check(_lib.rlx_channel_wait(self._ch, replies, least, most, deadline_ns),
                   self._error())
        return list(replies[:n])

    def call(self, request, deadline_ns=NO_DEADLINE):
        reply = Reply()
        _check(_lib.rlx_channel_call(self._ch, request, reply, deadline_ns), self._error())
        return reply

    def infer(self, model, inputs, outputs, rows=None, deadline_ns=NO_DEADLINE):
        """Run a model on arrays of this channel and wait for its outputs."""
        _check(self.call(self.prepare(model, inputs, outputs, rows), deadline_ns).result)

    def cancel(self, request_id):
        return _lib.rlx_channel_cancel(self._ch, request_id)

    def fileno(self):
        """To be polled; see rlx_channel_arm()."""
        return _check(_lib.rlx_channel_fd(self._ch))

    def arm(self):
        return _check(_lib.rlx_channel_arm(self._ch), self._error())

    def _ask(self, name, index):
        ask = _Ask(model=name.encode())
        ask.size[0] = index
        reply = self.call(self.request(_MODEL, bytes(ask), [self.slice(self._model, WRITE)]))
        self._count = reply.aux
        _check(reply.result)
        m = _Model.from_buffer_copy(self._model)

        def tensors(of, n):
            return [Tensor(t.name.decode(), DTYPES.get(t.dtype), tuple(t.dim[:t.rank]),
                           bool(t.optional)) for t in of[:n]]
        return Model(m.name.decode(), bool(m.in_place), tensors(m.in_, m.nr_in),
                     tensors(m.out, m.nr_out), list(m.length[:m.nr_length]), m.rows_max)

    def model(self, name):
        """What a model takes; asked once."""
        if name not in self._models:
            self._models[name] = self._ask(name, 0)
        return self._models[name]

    def models(self):
        """All that there are, by name."""
        found = {}
        self._count = 1
        while len(found) < self._count:
            m = self._ask("", len(found))
            found[m.name] = m
        self._models = found
        return found

    def _error(self):
        return _lib.rlx_channel_error(self._ch).contents

    def close(self):
        if self._ch:
            _lib.rlx_channel_close(self._ch)
        if self._arena:
            _lib.rlx_arena_put(self._arena)
        self._ch, self._arena = C.c_void_p(), C.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()
