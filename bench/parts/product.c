/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/parts/parts.h"
#include "kernels/dense/linear.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

enum { BATCH = 64 };

struct product {
    int64_t n;
    float *w, *bias, *x, *y;
};

static void multiply(void *arg)
{
    const struct product *p = arg;
    hd_linear_forward(p->n, p->n, BATCH, p->w, p->bias, true, p->x, BATCH, p->y, BATCH);
}

static int measure(int argc, char **argv)
{
    int64_t n = hd_part_parse_number(argc, argv, 0, 128);
    if (n == 0)
        return HD_ERR_INPUT;
    struct product p = {n, hd_alloc(n * n, 4), hd_alloc(n, 4), hd_alloc(n * BATCH, 4),
                        hd_alloc(n * BATCH, 4)};
    if (!p.w || !p.bias || !p.x || !p.y)
        return HD_ERR_NOMEM;
    double seconds = hd_part_measure_seconds(multiply, &p);
    hd_part_report(NULL, 2e-9 * (double)(n * n * BATCH) / seconds, "GFLOP/s");
    hd_free(p.w);
    hd_free(p.bias);
    hd_free(p.x);
    hd_free(p.y);
    return HD_OK;
}

const struct hd_bench_part hd_part_product = {"[N]", "a dense layer N x N on a batch of 64",
                                              measure};
