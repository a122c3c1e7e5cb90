# SPDX-License-Identifier: MIT
"""Writes ResNet-50 (stride on the 3x3 of a block) with random weights.

  resnet50.py OUT

Weights are random, but each batch norm holds the variance its input really has,
so that activations stay of order one through all fifty layers.
"""

import math
import sys

from onnxw import FLOAT, Graph, Weights

STAGES = [(64, 3), (128, 4), (256, 6), (512, 3)]


class Resnet:
    """Values are (name, channels, mean square)."""

    def __init__(self, seed):
        self.g = Graph("resnet50", 13)
        self.w = Weights(seed)
        self.n = 0

    def he(self, fan_in):
        """The power of two that comes nearest to He's scale."""
        return round(math.log2(math.sqrt(2 / fan_in / self.w.mean_square(0))))

    def conv(self, x, c, k, stride, gain=1.0):
        """Convolution and batch norm; the result has mean square gain^2."""
        g, name, (x, c_in, power) = self.g, "conv%d" % self.n, x
        self.n += 1
        fan_in = c_in * k * k
        log2 = self.he(fan_in)
        w = g.init(name + ".weight", FLOAT, (c, c_in, k, k),
                   self.w.bits(c * fan_in, log2))
        y = g.node("Conv", [x, w], kernel_shape=[k, k],
                   strides=[stride, stride], pads=[k // 2] * 4,
                   dilations=[1, 1], group=1)
        var = fan_in * self.w.mean_square(log2) * power
        parts = {"scale": (0.8 * gain, 1.2 * gain), "bias": (-0.1, 0.1),
                 "mean": (-0.1, 0.1), "var": (0.8 * var, 1.2 * var)}
        names = [g.init("%s.bn.%s" % (name, p), FLOAT, (c,),
                        self.w.uniform(c, lo, hi))
                 for p, (lo, hi) in parts.items()]
        y = g.node("BatchNormalization", [y] + names, epsilon=1e-5)
        return y, c, gain * gain

    def relu(self, x):
        return self.g.node("Relu", [x[0]]), x[1], x[2] / 2

    def block(self, x, c, stride):
        y = self.relu(self.conv(x, c, 1, 1))
        y = self.relu(self.conv(y, c, 3, stride))
        y = self.conv(y, 4 * c, 1, 1, 0.5)
        if x[1] != 4 * c:
            x = self.conv(x, 4 * c, 1, stride)
        sum_ = self.g.node("Add", [y[0], x[0]])
        # The sum's mean is positive once x has passed a ReLU, so that less
        # than half of it is cut off. With 0.85 every ReLU of a normal image was
        # seen to have a mean square between 0.2 and 2.2.
        return self.g.node("Relu", [sum_]), 4 * c, 0.85 * (y[2] + x[2])

    def build(self):
        g = self.g
        x = g.input("input", FLOAT, ["batch", 3, 224, 224]), 3, 1.0
        x = self.relu(self.conv(x, 64, 7, 2))
        x = g.node("MaxPool", [x[0]], kernel_shape=[3, 3], strides=[2, 2],
                   pads=[1] * 4), 64, 2 * x[2]
        for stage, (c, blocks) in enumerate(STAGES):
            for i in range(blocks):
                x = self.block(x, c, 2 if stage and not i else 1)
        y = g.node("GlobalAveragePool", [x[0]])
        y = g.node("Flatten", [y], axis=1)
        w = g.init("fc.weight", FLOAT, (1000, x[1]),
                   self.w.bits(1000 * x[1], self.he(x[1])))
        b = g.init("fc.bias", FLOAT, (1000,), self.w.uniform(1000, -0.1, 0.1))
        g.node("Gemm", [y, w, b], ["logits"], transB=1)
        g.output("logits", FLOAT, ["batch", 1000])
        return g


def main(argv):
    if len(argv) != 2:
        sys.exit(__doc__)
    Resnet(2).build().save(argv[1])


if __name__ == "__main__":
    main(sys.argv)
