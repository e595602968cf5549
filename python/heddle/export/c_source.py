# SPDX-License-Identifier: Apache-2.0
"""A file of C under construction: arrays of numbers, functions of layers, and the statements that call them."""

from __future__ import annotations

import re
import textwrap

import numpy as np

from ..errors import InputError

# Functions of which a file has those that it calls. Images are [channels][height][width].
FUNCTIONS = {
    "copy": """
        static void copy(int n, const float *x, float *y)
        {
            for (int i = 0; i < n; i++)
                y[i] = x[i];
        }""",
    "dense": """
        static void dense(int in, int out, const float *weight, const float *bias, const float *x, float *y)
        {
            for (int o = 0; o < out; o++) {
                float sum = bias[o];
                for (int i = 0; i < in; i++)
                    sum += weight[o * in + i] * x[i];
                y[o] = sum;
            }
        }""",
    "conv": """
        static void conv(const int in[3], const int out[3], int kernel, int stride, int padding, const float *weight,
                         const float *bias, const float *x, float *y)
        {
            for (int o = 0; o < out[0]; o++)
                for (int i = 0; i < out[1]; i++)
                    for (int j = 0; j < out[2]; j++) {
                        float sum = bias[o];
                        for (int c = 0; c < in[0]; c++)
                            for (int k = 0; k < kernel; k++)
                                for (int l = 0; l < kernel; l++) {
                                    const int v = i * stride + k - padding, h = j * stride + l - padding;
                                    if (v >= 0 && v < in[1] && h >= 0 && h < in[2])
                                        sum += weight[((o * in[0] + c) * kernel + k) * kernel + l] *
                                               x[(c * in[1] + v) * in[2] + h];
                                }
                        y[(o * out[1] + i) * out[2] + j] = sum;
                    }
        }""",
    "max_pool": """
        static void max_pool(const int in[3], const int out[3], int kernel, int stride, int padding, const float *x,
                             float *y)
        {
            for (int c = 0; c < out[0]; c++)
                for (int i = 0; i < out[1]; i++)
                    for (int j = 0; j < out[2]; j++) {
                        float most = -INFINITY;
                        for (int k = 0; k < kernel; k++)
                            for (int l = 0; l < kernel; l++) {
                                const int v = i * stride + k - padding, h = j * stride + l - padding;
                                if (v >= 0 && v < in[1] && h >= 0 && h < in[2])
                                    most = fmaxf(most, x[(c * in[1] + v) * in[2] + h]);
                            }
                        y[(c * out[1] + i) * out[2] + j] = most;
                    }
        }""",
    "relu": """
        static void relu(int n, float *x)
        {
            for (int i = 0; i < n; i++)
                x[i] = x[i] < 0 ? 0 : x[i];
        }""",
    "tanhs": """
        static void tanhs(int n, float *x)
        {
            for (int i = 0; i < n; i++)
                x[i] = tanhf(x[i]);
        }""",
    "gelu": """
        static void gelu(int n, float *x)
        {
            for (int i = 0; i < n; i++)
                x[i] *= 0.5f * erfcf(-0.70710678f * x[i]);
        }""",
    "normalise": """
        static void normalise(int n, float *x)
        {
            double mean = 0, variance = 0;
            for (int i = 0; i < n; i++)
                mean += (double)x[i] / n;
            for (int i = 0; i < n; i++)
                variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
            for (int i = 0; i < n; i++)
                x[i] = (float)(((double)x[i] - mean) / sqrt(variance + 1e-5));
        }""",
    "scale": """
        /* Each of n numbers, or channels of `plane` pixels. */
        static void scale(int n, int plane, const float *weight, const float *bias, float *x)
        {
            for (int i = 0; i < n; i++)
                for (int j = 0; j < plane; j++)
                    x[i * plane + j] = x[i * plane + j] * weight[i] + bias[i];
        }""",
    "clip": """
        static float clip(float x, float low, float high)
        {
            return x < low ? low : x > high ? high : x;
        }""",
    "embed": """
        /* Numbers that are no row of the table yield NaN. */
        static void embed(int n, int values, int width, const float *table, const float *x, float *y)
        {
            for (int i = 0; i < n; i++)
                for (int j = 0; j < width; j++)
                    y[i * width + j] = x[i] >= 0 && x[i] < (float)values && x[i] == truncf(x[i])
                                           ? table[(int)x[i] * width + j]
                                           : NAN;
        }""",
    "sigmoid": """
        static float sigmoid(float x)
        {
            return 1 / (1 + expf(-x));
        }""",
    "gru": """
        /* of_x and of_h are room for three gates of each neuron. */
        static void gru(int in, int n, const float *weight_ih, const float *weight_hh, const float *bias_ih,
                        const float *bias_hh, const float *x, float *of_x, float *of_h, float *h)
        {
            dense(in, 3 * n, weight_ih, bias_ih, x, of_x);
            dense(n, 3 * n, weight_hh, bias_hh, h, of_h);
            for (int i = 0; i < n; i++) {
                const float r = sigmoid(of_x[i] + of_h[i]), z = sigmoid(of_x[n + i] + of_h[n + i]);
                h[i] = (1 - z) * tanhf(of_x[2 * n + i] + r * of_h[2 * n + i]) + z * h[i];
            }
        }""",
    "lstm": """
        /* of_x and of_h are room for four gates of each neuron; h is followed by the cells. */
        static void lstm(int in, int n, const float *weight_ih, const float *weight_hh, const float *bias_ih,
                         const float *bias_hh, const float *x, float *of_x, float *of_h, float *h)
        {
            float *c = h + n;
            dense(in, 4 * n, weight_ih, bias_ih, x, of_x);
            dense(n, 4 * n, weight_hh, bias_hh, h, of_h);
            for (int i = 0; i < n; i++) {
                const float enter = sigmoid(of_x[i] + of_h[i]), forget = sigmoid(of_x[n + i] + of_h[n + i]);
                const float leave = sigmoid(of_x[3 * n + i] + of_h[3 * n + i]);
                c[i] = forget * c[i] + enter * tanhf(of_x[2 * n + i] + of_h[2 * n + i]);
                h[i] = leave * tanhf(c[i]);
            }
        }""",
    "add": """
        static void add(int n, const float *x, float *y)
        {
            for (int i = 0; i < n; i++)
                y[i] += x[i];
        }""",
    "choose": """
        /* The first of n choices whose `each` numbers have the largest sum. */
        static int choose(int n, int each, const float *x)
        {
            double largest = -INFINITY;
            int best = 0;
            for (int i = 0; i < n; i++) {
                double sum = 0;
                for (int j = 0; j < each; j++)
                    sum += (double)x[i * each + j];
                if (sum > largest) {
                    largest = sum;
                    best = i;
                }
            }
            return best;
        }""",
}
CALLED = {name: [other for other in FUNCTIONS if other != name and re.search(rf"\b{other}\(", code)]
          for name, code in FUNCTIONS.items()}
LINE = 6  # numbers of an array


def format_float(value: np.floating | float) -> str:
    """A literal of exactly this float."""
    if not np.isfinite(value):
        raise InputError(f"C source has finite weights, found {value}")
    mantissa, _, exponent = float(np.float32(value)).hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}f"


class Source:
    """Buffers of activations are local variables, so that the stack holds them."""

    def __init__(self) -> None:
        self.arrays: list[str] = []
        self.statements: list[str] = []
        self.buffers: list[int] = []
        self.used: set[str] = set()

    def add_array(self, values: np.ndarray) -> str:
        name = f"w{len(self.arrays)}"
        numbers = [format_float(value) for value in values.ravel()]
        rows = [", ".join(numbers[i:i + LINE]) for i in range(0, len(numbers), LINE)]
        self.arrays.append(f"static const float {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(rows) + "};\n")
        return name

    def add_buffer(self, size: int) -> str:
        self.buffers.append(size)
        return f"v{len(self.buffers) - 1}"

    def use(self, function: str) -> None:
        for name in (*CALLED[function], function):
            self.used.add(name)

    def call(self, function: str, *arguments: object) -> None:
        """Arguments are printed, shapes as arrays of int."""
        self.use(function)
        texts = [f"(const int[]){{{', '.join(map(str, argument))}}}" if isinstance(argument, tuple) else str(argument)
                 for argument in arguments]
        self.statements.append(f"{function}({', '.join(texts)});")

    def format_functions(self) -> str:
        return "".join(textwrap.dedent(code) + "\n" for name, code in FUNCTIONS.items() if name in self.used)

    def format_body(self) -> str:
        buffers = [f"float v{i}[{size}];" for i, size in enumerate(self.buffers)]
        return "".join(f"    {line}\n" for line in (*buffers, *self.statements))
