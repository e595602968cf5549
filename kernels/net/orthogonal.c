/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/orthogonal.h"

#include "kernels/common/normal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdbool.h>

enum { LANES = 8, BLOCK = 8 };

typedef double doubles __attribute__((vector_size(8 * LANES), aligned(8)));

/* Adds in LANES partial sums, so `n` is a multiple of LANES; the order of the sum is fixed. */
static double dot(const double *x, const double *y, int64_t n)
{
    doubles even = {0}, odd = {0};
    for (int64_t i = 0; i < n; i += 2 * LANES) {
        even += *(const doubles *)(x + i) * *(const doubles *)(y + i);
        odd += *(const doubles *)(x + i + LANES) * *(const doubles *)(y + i + LANES);
    }
    double sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += even[l] + odd[l];
    return sum;
}

/* Subtracts from x its projection on the unit vector q. */
static void remove_part(const double *restrict q, double *restrict x, int64_t n)
{
    const double part = dot(q, x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] -= part * q[i];
}

/* Modified Gram-Schmidt, which yields the QR decomposition with a positive diagonal. Each finished
 * vector is applied to several others at once, while it is in the caches. */
static void orthonormalise(int64_t vectors, int64_t ld, double *v)
{
    for (int64_t first = 0; first < vectors; first += BLOCK) {
        const int64_t last = first + BLOCK < vectors ? first + BLOCK : vectors;
        for (int64_t i = 0; i < first; i++)
            for (int64_t k = first; k < last; k++)
                remove_part(v + i * ld, v + k * ld, ld);
        for (int64_t k = first; k < last; k++) {
            double *x = v + k * ld;
            for (int64_t i = first; i < k; i++)
                remove_part(v + i * ld, x, ld);
            const double scale = 1 / sqrt(dot(x, x, ld));
            for (int64_t i = 0; i < ld; i++)
                x[i] *= scale;
        }
    }
}

int hd_orthogonal_init(const struct hd_rng *rng, int64_t first, int64_t rows, int64_t columns,
                       double gain, float *w)
{
    const bool wide = columns >= rows;
    const int64_t vectors = wide ? rows : columns, length = wide ? columns : rows;
    const int64_t ld = (length + 2 * LANES - 1) / (2 * LANES) * (2 * LANES); /* padded with zeros */
    double *v = hd_alloc(vectors * ld, sizeof *v);
    if (!v)
        return HD_ERR_NOMEM;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            v[wide ? r * ld + c : c * ld + r] =
                hd_normal_draw(rng, (uint32_t)(first + r * columns + c));
    orthonormalise(vectors, ld, v);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            w[r * columns + c] = (float)(gain * v[wide ? r * ld + c : c * ld + r]);
    hd_free(v);
    return HD_OK;
}
