# SPDX-License-Identifier: MIT
"""The library and its peers, each made to run one model on given inputs with as little
Python as can be: run() takes no arguments and leaves the outputs where outputs() finds them."""
import ctypes as C
import os

import numpy as np

DTYPE = {"float64": 1, "float32": 2, "float16": 3, "int64": 7, "int32": 8, "int16": 9,
         "int8": 10, "uint64": 11, "uint32": 12, "uint16": 13, "uint8": 14, "bool": 15}
NUMPY = {v: k for k, v in DTYPE.items()}
NATIVE = 1 << 2		# RLX_COMPILE_NATIVE


class CannotRun(Exception):
    """The side has no implementation of a model."""


class Type(C.Structure):
    _fields_ = [("dtype", C.c_uint), ("rank", C.c_uint32), ("dim", C.c_int64 * 8)]


class Named(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", Type), ("data", C.c_void_p)]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("node", C.c_uint), ("line", C.c_uint),
                ("file", C.c_char_p), ("text", C.c_char * 496)]


class Opts(C.Structure):
    _fields_ = [("size", C.c_size_t), ("device", C.c_char_p), ("threads", C.c_uint),
                ("precision", C.c_uint), ("flags", C.c_uint32), ("dump", C.c_void_p),
                ("dump_ctx", C.c_void_p), ("store", C.c_void_p)]


def load_rlx():
    lib = C.CDLL(os.path.join(os.environ.get("BUILD", "build"), "lib", "librlx.so"))
    lib.rlx_runner_session.restype = C.c_void_p
    lib.rlx_runner_output_count.restype = C.c_uint
    lib.rlx_runner_output.restype = C.c_bool
    lib.rlx_session_bound_at.restype = Buf
    return lib


class Buf(C.Structure):
    _fields_ = [("arena", C.c_void_p), ("offset", C.c_uint64), ("bytes", C.c_uint64)]


class Ours:
    """librlx.so by its C functions. @host: a step of it takes the reference evaluator."""
    name = "rlx"
    lib = None

    def __init__(self, path, data, threads):
        Ours.lib = Ours.lib or load_rlx()
        self.err, self.model, self.runner = Error(), C.c_void_p(), C.c_void_p()
        self.data = {n: np.asarray(a, order="C") for n, a in data.items()}
        self.ins = (Named * len(data))(*[self.named(n, a) for n, a in self.data.items()])
        self.host = False
        self.check(self.lib.rlx_model_open(path.encode(), C.byref(self.model),
                                           C.byref(self.err)))
        if self.start(threads, NATIVE):
            self.host = True
            self.lib.rlx_runner_free(self.runner)
            self.check(self.start(threads, 0))
        # What a runner needs several segments for it runs itself.
        s = self.lib.rlx_runner_session(self.runner, self.ins, len(self.ins),
                                        C.byref(self.err))
        self.session = C.c_void_p(s) if s else None
        self.call = self.lib.rlx_session_run

    @staticmethod
    def named(name, a):
        t = Type(DTYPE[str(a.dtype)], a.ndim, (C.c_int64 * 8)(*a.shape))
        return Named(name.encode(), t, a.ctypes.data)

    def start(self, threads, flags):
        opts = Opts(C.sizeof(Opts), None, threads, 0, flags)
        self.err = Error()
        self.check(self.lib.rlx_runner_new(self.model, C.byref(opts), C.byref(self.runner),
                                           C.byref(self.err)))
        return self.lib.rlx_runner_run(self.runner, self.ins, len(self.ins), C.byref(self.err))

    def check(self, status):
        if status:
            raise CannotRun(self.err.text.decode(errors="replace") or "status %d" % status)

    def run(self):
        if self.session:
            self.check(self.call(self.session))
        else:
            self.check(self.lib.rlx_runner_run(self.runner, self.ins, len(self.ins),
                                               C.byref(self.err)))

    def outputs(self):
        """Of a run by the runner, which copies; the same program."""
        self.check(self.lib.rlx_runner_run(self.runner, self.ins, len(self.ins),
                                           C.byref(self.err)))
        out, t = [], Named()
        for i in range(self.lib.rlx_runner_output_count(self.runner)):
            if not self.lib.rlx_runner_output(self.runner, i, C.byref(t)):
                raise CannotRun("output %d is no tensor" % i)
            shape = tuple(t.type.dim[:t.type.rank])
            dt = np.dtype(NUMPY[t.type.dtype])
            n = int(np.prod(shape, dtype=np.int64)) * dt.itemsize
            out.append(np.frombuffer(C.string_at(t.data, n), dt).reshape(shape))
        return out

    def close(self):
        self.lib.rlx_runner_free(self.runner)
        self.lib.rlx_model_put(self.model)


class OnnxRuntime:
    """All optimizations, inputs and outputs bound: nothing is copied per run."""
    name = "ort"

    def __init__(self, path, data, threads):
        import onnxruntime as ort

        ort.set_default_logger_severity(4)
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        try:
            self.s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
            self.bind = self.s.io_binding()
            self.ins = [ort.OrtValue.ortvalue_from_numpy(np.asarray(a, order="C"))
                        for a in data.values()]
            for n, v in zip(data, self.ins):
                self.bind.bind_ortvalue_input(n, v)
            got = self.s.run(None, data)
            self.outs = [ort.OrtValue.ortvalue_from_numpy(a) for a in got]
            for o, v in zip(self.s.get_outputs(), self.outs):
                self.bind.bind_ortvalue_output(o.name, v)
            self.run()
        except Exception as e:
            raise CannotRun(str(e)) from e

    def run(self):
        self.s._sess.run_with_iobinding(self.bind._iobinding, None)

    def outputs(self):
        return [o.numpy() for o in self.outs]

    def close(self):
        del self.s, self.bind


class OpenVino:
    """One request for the least latency. It may not round more than the model does: left to
    itself it takes bf16 where the processor multiplies that faster. Of f64 it has no
    arithmetic on CPUs, and computes in f32 without a word."""
    name = "ov"
    core = None

    def __init__(self, path, data, threads):
        import openvino as ov

        if any(np.asarray(a).dtype == np.float64 for a in data.values()):
            raise CannotRun("f64 is computed in f32")

        OpenVino.core = OpenVino.core or ov.Core()
        try:
            m = self.core.read_model(path)
            self.c = self.core.compile_model(m, "CPU", {
                "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
            self.r = self.c.create_infer_request()
            self.ins = [ov.Tensor(np.asarray(a, order="C"), shared_memory=True)
                        for a in data.values()]
            for i, n in enumerate(data):
                self.r.set_tensor(n, self.ins[i])
            self.run()
        except Exception as e:
            raise CannotRun(str(e)) from e

    def run(self):
        self.r.start_async()
        self.r.wait()

    def outputs(self):
        return [self.r.get_output_tensor(i).data.copy() for i in range(len(self.c.outputs))]

    def close(self):
        del self.r, self.c


PEERS = (OnnxRuntime, OpenVino)
