# SPDX-License-Identifier: MIT
"""One op of the library as a session, by its C functions: for ops that no model file has."""
import ctypes as C

import numpy as np

import sides

INPUT, OUTPUT = 0, 2		# enum rlx_io


class Ints(C.Structure):
    _fields_ = [("v", C.POINTER(C.c_int64)), ("n", C.c_uint32)]

    @classmethod
    def of(cls, *v):
        return cls((C.c_int64 * len(v))(*v), len(v)) if v else cls()


def slots(*values):
    """The struct of an op's call: each member begins a slot of 8 bytes. Values of the graph and
    other numbers are ints, or floats; lists are Ints."""
    kinds = [(v, type(v) if isinstance(v, Ints) else C.c_double if isinstance(v, float) else
              C.c_int64) for v in values]
    cls = type("Slots", (C.Structure,),
               {"_fields_": [("m%d" % i, k) for i, (_, k) in enumerate(kinds)]})
    return cls(*[v for v, _ in kinds])


class Value(C.Structure):
    _fields_ = [("id", C.c_uint32)]


class Op:
    """@name of @inputs, arrays that are copied in; @attrs: what follows them in the op's struct."""
    lib = None

    def __init__(self, name, inputs, attrs=(), outputs=1, threads=1):
        self.lib = Op.lib = Op.lib or self.with_types()
        g = C.c_void_p(self.lib.rlx_graph_new(name.encode()))
        ids = [self.leaf(g, i, a) for i, a in enumerate(inputs)]
        ref = C.c_char.in_dll(self.lib, "rlx_op_" + name)
        args = slots(*ids, *attrs)
        y = self.lib.rlx_emit_raw(g, C.byref(ref), C.byref(args), C.sizeof(args), b"graph.py", 0)
        for i in range(outputs):
            self.lib.rlx_output_at(g, b"y%d" % i, self.lib.rlx_out(g, y, i), b"graph.py", 0)
        self.check(self.lib.rlx_graph_finish(g), sides.Error())
        opts = sides.Opts(C.sizeof(sides.Opts), b"cpu", threads, 0, sides.NATIVE)
        self.program, self.session = C.c_void_p(), C.c_void_p()
        err = sides.Error()
        self.check(self.lib.rlx_compile(g, C.byref(opts), C.byref(self.program), C.byref(err)), err)
        self.lib.rlx_graph_put(g)
        self.check(self.lib.rlx_session_new(self.program, None, C.byref(self.session),
                                            C.byref(err)), err)
        for i, a in enumerate(inputs):
            a = np.ascontiguousarray(a)
            self.check(self.lib.rlx_session_set(self.session, INPUT, b"x%d" % i,
                                                self.type_of(a), C.c_void_p(a.ctypes.data)), err)
        self.call = self.lib.rlx_session_run

    @staticmethod
    def with_types():
        lib = sides.load_rlx()
        lib.rlx_graph_new.restype = C.c_void_p
        lib.rlx_emit_raw.restype = lib.rlx_out.restype = lib.rlx_input_at.restype = Value
        lib.rlx_program_io_type.restype = C.POINTER(sides.Type)
        return lib

    @staticmethod
    def type_of(a):
        return sides.Type(sides.DTYPE[str(a.dtype)], a.ndim, (C.c_int64 * 8)(*a.shape))

    def leaf(self, g, i, a):
        return self.lib.rlx_input_at(g, b"x%d" % i, self.type_of(a), b"graph.py", 0).id

    @staticmethod
    def check(status, err):
        if status:
            raise sides.CannotRun(err.text.decode(errors="replace") or "status %d" % status)

    def run(self):
        if self.call(self.session):
            raise sides.CannotRun("a run failed")

    def output(self, i=0):
        t = self.lib.rlx_program_io_type(self.program, OUTPUT, i).contents
        y = np.empty(tuple(t.dim[:t.rank]), sides.NUMPY[t.dtype])
        self.check(self.lib.rlx_session_get_at(self.session, OUTPUT, i, t,
                                               C.c_void_p(y.ctypes.data)), sides.Error())
        return y

    def close(self):
        self.lib.rlx_session_free(self.session)
        self.lib.rlx_program_put(self.program)
