/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm on feature-major activations. The example of docs/howto/layer.md. */
#include "tests/howto/howto.h"

#include <math.h>

#define EPSILON 1e-5

void hd_layer_norm_forward(int64_t features, int64_t columns, int64_t ld, const float *weight,
                           const float *bias, const float *x, float *y, float *mean, float *inverse)
{
    for (int64_t b = 0; b < columns; b++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < features; i++)
            sum += x[i * ld + b];
        const double m = sum / (double)features;
        for (int64_t i = 0; i < features; i++)
            squares += (x[i * ld + b] - m) * (x[i * ld + b] - m);
        mean[b] = (float)m;
        inverse[b] = (float)(1 / sqrt(squares / (double)features + EPSILON));
        for (int64_t i = 0; i < features; i++)
            y[i * ld + b] = weight[i] * (x[i * ld + b] - mean[b]) * inverse[b] + bias[i];
    }
}

/* With xhat = (x - mean) * inverse and g = weight * dy:
 * dx = inverse * (g - mean of g - xhat * mean of (g * xhat)), means over the features. */
void hd_layer_norm_backward(int64_t features, int64_t columns, int64_t ld, const float *weight,
                            const float *x, const float *mean, const float *inverse,
                            const float *dy, float *dx, float *dweight, float *dbias)
{
    for (int64_t i = 0; i < features; i++)
        dweight[i] = dbias[i] = 0;
    for (int64_t b = 0; b < columns; b++) {
        double sum = 0, product = 0;
        for (int64_t i = 0; i < features; i++) {
            const float xhat = (x[i * ld + b] - mean[b]) * inverse[b];
            const float g = weight[i] * dy[i * ld + b];
            sum += g;
            product += (double)g * xhat;
            dweight[i] += dy[i * ld + b] * xhat;
            dbias[i] += dy[i * ld + b];
        }
        sum /= (double)features;
        product /= (double)features;
        for (int64_t i = 0; i < features; i++) {
            const float xhat = (x[i * ld + b] - mean[b]) * inverse[b];
            dx[i * ld + b] =
                (float)(inverse[b] * (weight[i] * dy[i * ld + b] - sum - xhat * product));
        }
    }
}
