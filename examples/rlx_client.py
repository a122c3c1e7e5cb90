# SPDX-License-Identifier: MIT
"""A client of rlxd over a channel: numpy arrays that both processes see.

    with Channel("/run/rlxd/channel.sock") as ch:
        x, y = ch.empty((1, 3, 16, 16)), ch.empty((1, 10))
        x[...] = image
        ch.infer("vision", [x], [y])      # y is filled; nothing was copied
        print(ch.models()["vision"])

Arrays come out of an arena that is attached once; inputs and outputs are arrays made by
empty(), whose memory is there as long as one of them is. Of dtypes that numpy lacks bf16
is uint16, and fp8 uint8. One thread at a time for each channel. Needs librlx.so
(RLX_LIBRARY names another) and numpy; the calls are those of rlx/serve.h and rlx/rlxd.h.
"""
import collections
import ctypes as C
import errno
import os

import numpy as np

NO_DEADLINE = 2**64 - 1
READ, WRITE = 1, 2
RECOVER, RECOVER_ALL = 1, 2
DTYPES = {1: np.float64, 2: np.float32, 3: np.float16, 4: np.uint16, 5: np.uint8,
          6: np.uint8, 7: np.int64, 8: np.int32, 9: np.int16, 10: np.int8,
          11: np.uint64, 12: np.uint32, 13: np.uint16, 14: np.uint8, 15: np.bool_,
          16: np.complex64}
_MODEL, _INFER = 1, 2
_INDIRECT = 1
_SLICES, _SLICES_MAX, _INLINE, _SIZES = 6, 64, 64, 6


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
                ("slice", Slice * _SLICES), ("inline_data", C.c_uint8 * _INLINE)]


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
        "rlx_buf_free": [_Buf, C.POINTER(_Error)],
        "rlx_channel_open": [C.POINTER(_ChannelOpts), C.POINTER(C.c_void_p), C.POINTER(_Error)],
        "rlx_channel_close": [C.c_void_p],
        "rlx_channel_attach": [C.c_void_p, C.c_void_p, C.c_uint32, C.POINTER(C.c_uint32),
                               C.POINTER(_Error)],
        "rlx_channel_submit": [C.c_void_p, C.POINTER(Request), C.c_uint, C.POINTER(C.c_uint64)],
        "rlx_channel_wait": [C.c_void_p, C.POINTER(Reply), C.c_uint, C.c_uint, C.c_uint64],
        "rlx_channel_cancel": [C.c_void_p, C.c_uint64], "rlx_channel_fd": [C.c_void_p],
        "rlx_channel_arm": [C.c_void_p], "rlx_channel_error": [C.c_void_p],
        "rlx_deadline_in": [C.c_uint64]}.items():
    getattr(_lib, _name).argtypes = _args
_lib.rlx_arena_base.restype = C.c_void_p
_lib.rlx_channel_error.restype = C.POINTER(_Error)
_lib.rlx_deadline_in.restype = C.c_uint64


def deadline_in(seconds):
    """A deadline so many seconds from now; one that has passed if they are below 0."""
    if seconds > 2e9:
        return NO_DEADLINE
    return _lib.rlx_deadline_in(max(0, int(seconds * 1e9)))


def _check(status, err=None):
    if status < 0:
        text = err.text.decode(errors="replace") if err is not None else ""
        raise Failed(-status, text or os.strerror(-status))
    return status


class _Arena:
    """Memory that both sides see, until the last array of it is gone."""

    def __init__(self, memory, provider):
        err, self.at = _Error(), C.c_void_p()
        opts = _ArenaOpts(size=memory, name=b"client", provider=provider and provider.encode())
        _check(_lib.rlx_arena_new(opts, self.at, err), err)
        self.base, self.memory = _lib.rlx_arena_base(self.at), memory

    def new(self, n):
        """Where @n bytes are that nobody else has."""
        err, buf = _Error(), _Buf()
        _check(_lib.rlx_buf_new(self.at, n, 64, buf, err), err)
        return buf

    def bytes(self, buf, n):
        raw = (C.c_uint8 * max(n, 1)).from_address(self.base + buf.offset)
        raw.arena = self            # an array keeps its arena
        return np.frombuffer(raw, np.uint8, n)

    def __del__(self, put=_lib.rlx_arena_put):
        if self.at:
            put(self.at)


class _SliceList:
    """Slices of a request that has no room for them, in the arena as long as it needs them."""

    def __init__(self, arena, slices):
        n = len(slices) * C.sizeof(Slice)
        self.arena, self.buf = arena, arena.new(n)
        self.bytes = arena.bytes(self.buf, n)
        C.memmove(self.bytes.ctypes.data, (Slice * len(slices))(*slices), n)

    def __del__(self, free=_lib.rlx_buf_free):
        if hasattr(self, "buf"):
            free(self.buf, None)


def _check_fit(kind, tensor, array, rows):
    """ValueError unless an array, @rows of it, is what a model takes or gives."""
    name = "%s %s" % (kind, tensor.name)
    if tensor.dtype is None:
        raise ValueError("%s is of a dtype that this client does not know" % name)
    if array.dtype != tensor.dtype or array.ndim != len(tensor.shape):
        raise ValueError("%s is %s of rank %d, not %s of rank %d" % (
            name, np.dtype(tensor.dtype).name, len(tensor.shape), array.dtype.name, array.ndim))
    if rows is not None and not (array.ndim and 1 <= rows <= array.shape[0]):
        raise ValueError("%s of shape %s has no %s rows" % (name, array.shape, rows))
    for axis, (n, want) in enumerate(zip(_used(array, rows), tensor.shape)):
        if want >= 0 and n != want:
            raise ValueError("%s has %d, not %d, along axis %d" % (name, want, n, axis))


def _used(array, rows):
    return array.shape if rows is None else (rows,) + array.shape[1:]


class Channel:
    """A connection to rlxd and an arena of @memory bytes that both sides see."""

    def __init__(self, address, memory=64 << 20, depth=64, transport=None, flags=0, provider=None):
        err, handle = _Error(), C.c_uint32()
        self._ch, self._arena = C.c_void_p(), None
        self._flying, self._late, self._models = {}, None, {}
        opts = _ChannelOpts(size=C.sizeof(_ChannelOpts), address=os.fsencode(address),
                            transport=transport and transport.encode(), depth=depth, flags=flags)
        try:
            _check(_lib.rlx_channel_open(opts, self._ch, err), err)
            self._arena = _Arena(memory, provider)
            _check(_lib.rlx_channel_attach(self._ch, self._arena.at, READ | WRITE, handle, err),
                   err)
            self.handle, self.base, self.memory = handle.value, self._arena.base, memory
            self._model = self.empty((C.sizeof(_Model),), np.uint8)
        except BaseException:
            self.close()
            raise

    def empty(self, shape, dtype=np.float32):
        """An array in the arena, which keeps it when the channel is closed."""
        self._handle()
        dtype = np.dtype(dtype)
        n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._arena.bytes(self._arena.new(max(n, 1)), n).view(dtype).reshape(shape)

    def slice(self, array, access):
        """Where an array lies, as a slice of a request."""
        at = array.ctypes.data - self.base
        if at < 0 or at + array.nbytes > self.memory or not array.flags.c_contiguous:
            raise ValueError("an array must be whole, and made by empty() of this channel")
        return Slice(self.handle, access, at, max(array.nbytes, 1))

    def request(self, opcode, inline, slices, user_data=0, deadline_ns=0):
        """A request, for those who know more opcodes than prepare() does."""
        self._handle()
        if len(inline) > _INLINE or len(slices) > _SLICES_MAX:
            raise ValueError("%d bytes and %d slices, and a request has %d and %d" % (
                len(inline), len(slices), _INLINE, _SLICES_MAX))
        rq = Request(opcode=opcode, user_data=user_data, deadline_ns=deadline_ns,
                     nr_slices=len(slices), inline_len=len(inline))
        C.memmove(rq.inline_data, bytes(inline), len(inline))
        if len(slices) > _SLICES:
            rq.list = _SliceList(self._arena, slices)
            rq.flags = _INDIRECT
            slices = [self.slice(rq.list.bytes, READ)]
        for i, s in enumerate(slices):
            rq.slice[i] = s
        return rq

    def prepare(self, model, inputs, outputs, rows=None, user_data=0, deadline_ns=0):
        """A request that runs a model; it may be submitted many times. Of an encoder's
        arrays, which have rows_max rows or one, @rows may be fewer."""
        about = self.model(model)
        least = len(about.inputs)
        while least and about.inputs[least - 1].optional:
            least -= 1
        if not least <= len(inputs) <= len(about.inputs) or len(outputs) != len(about.outputs):
            raise ValueError("%s has inputs %s and outputs %s" % (
                model, [t.name for t in about.inputs], [t.name for t in about.outputs]))
        sizes = []
        for tensor, array in zip(about.inputs, inputs):
            _check_fit("input", tensor, array, rows)
            sizes += [n for n, d in zip(_used(array, rows), tensor.shape) if d < 0]
        for tensor, array in zip(about.outputs, outputs):
            _check_fit("output", tensor, array, rows)
        if len(sizes) > _SIZES:
            raise ValueError("%s has %d free sizes, a request %d" % (model, len(sizes), _SIZES))
        ask = _Ask(model=model.encode())
        ask.size[:len(sizes)] = sizes
        return self.request(_INFER, bytes(ask), [self.slice(a, READ) for a in inputs] +
                            [self.slice(a, WRITE) for a in outputs], user_data, deadline_ns)

    def submit(self, request):
        """Hand a request over; its id."""
        rid = C.c_uint64()
        _check(_lib.rlx_channel_submit(self._handle(), request, 1, rid), self._error())
        self._flying[rid.value] = request
        return rid.value

    def wait(self, least=1, most=64, deadline_ns=NO_DEADLINE):
        """Replies, at least so many unless the deadline passes."""
        replies = (Reply * most)()
        n = _check(_lib.rlx_channel_wait(self._handle(), replies, least, most, deadline_ns),
                   self._error())
        for reply in replies[:n]:
            self._flying.pop(reply.id, None)
        return list(replies[:n])

    def call(self, request, deadline_ns=NO_DEADLINE):
        """Hand a request over and wait for its reply; no other may be under way. If the
        deadline passes it is taken back, which may not come in time: until it has ended
        its outputs may be written to. The next call waits for that first."""
        if self._late in self._flying and len(self._flying) == 1:
            if not self.wait(1, 1, deadline_ns):
                raise Failed(errno.ETIME, "an earlier request has not ended")
        if self._flying:
            raise Failed(errno.EBUSY, "requests are under way that wait() has not given")
        rid = self.submit(request)
        replies = self.wait(1, 1, deadline_ns)
        if not replies:
            self._late = rid
            self.cancel(rid)
            raise Failed(errno.ETIME, os.strerror(errno.ETIME))
        return replies[0]

    def infer(self, model, inputs, outputs, rows=None, deadline_ns=NO_DEADLINE):
        """Run a model on arrays of this channel and wait for its outputs."""
        _check(self.call(self.prepare(model, inputs, outputs, rows), deadline_ns).result)

    def cancel(self, request_id):
        return _lib.rlx_channel_cancel(self._handle(), request_id)

    def fileno(self):
        """To be polled; see rlx_channel_arm()."""
        return _check(_lib.rlx_channel_fd(self._handle()))

    def arm(self):
        return _check(_lib.rlx_channel_arm(self._handle()), self._error())

    def _ask(self, name, index):
        self._handle()
        ask = _Ask(model=name.encode())
        ask.size[0] = index
        reply = self.call(self.request(_MODEL, bytes(ask), [self.slice(self._model, WRITE)]))
        self._count = reply.aux
        _check(reply.result)
        m = _Model.from_buffer_copy(self._model)

        def tensors(of, n):
            return [Tensor(t.name.decode(errors="replace"), DTYPES.get(t.dtype),
                           tuple(t.dim[:t.rank]), bool(t.optional)) for t in of[:n]]
        return Model(m.name.decode(errors="replace"), bool(m.in_place), tensors(m.in_, m.nr_in),
                     tensors(m.out, m.nr_out), list(m.length[:m.nr_length]), m.rows_max)

    def model(self, name):
        """What a model takes; asked once."""
        if name not in self._models:
            self._models[name] = self._ask(name, 0)
        return self._models[name]

    def models(self):
        """All that there are, by name."""
        found, at, self._count = {}, 0, 1
        while at < self._count:
            m, at = self._ask("", at), at + 1
            if m.name in found:     # the server loaded others meanwhile
                found, at = {}, 0
                continue
            found[m.name] = m
        self._models = found
        return found

    def _handle(self):
        if not self._ch:
            raise ValueError("the channel is closed")
        return self._ch

    def _error(self):
        return _lib.rlx_channel_error(self._ch).contents

    def close(self):
        """Arrays that there are stay, as memory of this process."""
        if self._ch:
            _lib.rlx_channel_close(self._ch)
        self._ch, self._arena, self._model = C.c_void_p(), None, None
        self._flying.clear()

    def __del__(self):
        if hasattr(self, "_flying") and _lib:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()
