# SPDX-License-Identifier: MIT
"""What PyTorch's side of a benchmark is made of: operands as programs.c makes them, and a way to
compute something as a CUDA graph of some runs, which can be timed."""
import torch

TYPE = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
        "f64": torch.float64}
MASK = 0xffffffff


def mix(n, seed):
    """As programs.c has it: -0.5 to 0.5."""
    u = (torch.arange(n, device="cuda", dtype=torch.int64) * 2654435761 + seed * 40503) & MASK
    u = u ^ (u >> 16)
    u = (u * 0x85ebca6b) & MASK
    u = u ^ (u >> 13)
    return (u & 0xffff).float() / 65536 - 0.5


def operands_of(d):
    """Tensors by name of a cases.Draw."""
    t = {}
    for name, shape, dtype, seed, scale in d.operands:
        n = 1
        for e in shape:
            n *= e
        t[name] = (mix(n, seed) * scale).to(TYPE[dtype]).reshape(shape)
    return t


class Way:
    def __init__(self, name, run, repeats):
        self.name, self.run = name, run	# whose operands the graph reads
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.out = run()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(repeats):
                self.out = run()
        self.repeats = repeats

    def us(self):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        best = 1e30
        for _ in range(6):
            a.record()
            self.graph.replay()
            b.record()
            b.synchronize()
            best = min(best, a.elapsed_time(b))
        return best * 1e3 / self.repeats

    def sample(self, n):
        """@n numbers of the result, from its first to its last element."""
        self.graph.replay()	# capturing computes nothing
        torch.cuda.synchronize()
        y = self.out.contiguous().reshape(-1).float()
        at = [i * (y.numel() - 1) // (n - 1) if y.numel() > 1 else 0 for i in range(n)]
        return y[torch.tensor(at, device=y.device)].tolist()
