/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/common/partials.cuh"

extern "C" {
#include "kernels/learn/adam_internal.h"
}

typedef hd_partials_tree<1> grad_partials;

/* The arrays that a step changes, from element 0 on. */
struct state {
    float *m, *v, *params;
};

static __global__ void begin_step(struct hd_adam adam, struct hd_adam_inputs inputs,
                                  int64_t *updates, struct hd_adam_scalars *scalars)
{
    if (inputs.rate && inputs.rate->weight > 0)
        adam.learning_rate = inputs.rate->value;
    *updates += 1;
    *scalars = hd_adam_compute_scalars(&adam, *updates);
    if (inputs.norm && inputs.norm->weight > 0)
        scalars->scale = hd_adam_get_scale(inputs.longest, inputs.norm->value);
}

/* All reads come before all writes, so that many of them are in flight. */
template <int W, int ROWS>
static __device__ void step_elements(const grad_partials &partials,
                                     const struct hd_adam_scalars &scalars, int64_t i,
                                     const struct state &state)
{
    hd_floats<W> m = hd_floats_load<W>(state.m + i), v = hd_floats_load<W>(state.v + i);
    hd_floats<W> params = hd_floats_load<W>(state.params + i);
    hd_partials_node<W> grad = hd_partials_sum<W, ROWS>(partials, i);
    hd_partials_divide(&grad);
#pragma unroll
    for (int k = 0; k < W; k++)
        hd_adam_update_one(&scalars, grad.floats.at[k] * scalars.scale, &m.at[k], &v.at[k],
                           &params.at[k]);
    hd_floats_store(state.m + i, m);
    hd_floats_store(state.v + i, v);
    hd_floats_store(state.params + i, params);
}

template <int W, int ROWS>
static __global__ void step_all(const __grid_constant__ grad_partials partials,
                                const struct hd_adam_scalars *scalars, int64_t lo, int64_t hi,
                                struct state state)
{
    const struct hd_adam_scalars s = *scalars;
    int64_t i = lo + HD_ELEMENT * W;
    if (i + W <= hi)
        step_elements<W, ROWS>(partials, s, i, state);
    else
        for (; i < hi; i++)
            step_elements<1, ROWS>(partials, s, i, state);
}

extern "C" int hd_adam_step_cuda(const struct hd_adam *adam, const struct hd_partials *grad,
                                 int64_t lo, int64_t n, const struct hd_adam_inputs *inputs,
                                 int64_t *updates, float *scratch, float *m, float *v,
                                 float *params, void *stream)
{
    static void (*const variants[])(grad_partials, const struct hd_adam_scalars *, int64_t, int64_t,
                                    struct state) = HD_PARTIALS_VARIANTS(step_all);
    static_assert(sizeof(struct hd_adam_scalars) == HD_ADAM_SCRATCH * sizeof(float), "scratch");
    struct hd_adam_scalars *scalars = (struct hd_adam_scalars *)scratch;
    grad_partials partials;
    HD_TRY(hd_partials_tree_make(1, grad, lo, &partials));
    if (updates)
        HD_TRY(HD_LAUNCH(begin_step, 1, 1, stream, *adam, *inputs, updates, scalars));
    if (n <= 0)
        return HD_OK;
    const struct hd_partials_variant variant = hd_partials_find_variant(
        partials.rows, partials.wide && hd_partials_are_aligned(m + lo) &&
                           hd_partials_are_aligned(v + lo) && hd_partials_are_aligned(params + lo));
    const auto step = variants[variant.index];
    const struct state state = {m, v, params};
    const unsigned blocks = hd_cuda_count_blocks((n + variant.width - 1) / variant.width);
    return HD_LAUNCH(step, blocks, HD_THREADS, stream, partials, scalars, lo, lo + n, state);
}
