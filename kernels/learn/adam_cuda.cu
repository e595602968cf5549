/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/common/partials.cuh"
#include "kernels/common/tiles.cuh"

extern "C" {
#include "kernels/learn/adam_internal.h"
}

typedef hd_partials_tree<1> grad_partials;

static __global__ void begin_step(struct hd_adam adam, struct hd_adam_inputs inputs,
                                  int64_t *updates, struct hd_adam_scalars *scalars)
{
    HD_AWAIT_INPUTS();
    if (inputs.rate && inputs.rate->weight > 0)
        adam.learning_rate = inputs.rate->value;
    *updates += 1;
    *scalars = hd_adam_compute_scalars(&adam, *updates);
    if (inputs.norm && inputs.norm->weight > 0)
        scalars->scale = hd_adam_get_scale(inputs.longest, inputs.norm->value);
}

/* A step of the walk over parameters, by gradients in the order of the flat array, from up to ROWS
 * pending sums of partials, or, with ROWS 0, by the only partial in GPU order. */
template <int ROWS> struct adam_step {
    struct element {
        float grad, m, v, param;
    };

    const grad_partials &partials;
    float samples; /* of the gradient in GPU order */
    const struct hd_adam_scalars &scalars;
    float *m, *v, *params;

    __device__ element read(int64_t i) const
    {
        element e = {0, m[i], v[i], params[i]};
        if constexpr (ROWS > 0) {
            hd_partials_node<1> grad = hd_partials_sum<1, ROWS>(partials, i);
            hd_partials_divide(&grad);
            e.grad = grad.floats.at[0];
        }
        return e;
    }

    __device__ float compute(int64_t i, element e, float grad) const
    {
        if constexpr (ROWS == 0) {
            hd_partials_node<1> node = {{{grad}}, samples};
            hd_partials_divide(&node);
            e.grad = node.floats.at[0];
        }
        hd_adam_update_one(&scalars, e.grad * scalars.scale, &e.m, &e.v, &e.param);
        m[i] = e.m;
        v[i] = e.v;
        params[i] = e.param;
        return e.param;
    }
};

template <class T, int ROWS>
static __global__ void step_tiles(const __grid_constant__ grad_partials partials,
                                  const __grid_constant__ struct hd_tiles tiles,
                                  const struct hd_adam_scalars *scalars, int64_t lo, int64_t hi,
                                  float *m, float *v)
{
    HD_AWAIT_INPUTS();
    const struct hd_adam_scalars s = *scalars;
    const float samples = ROWS == 0 ? *partials.group[0].counts : 0;
    const adam_step<ROWS> step = {partials, samples, s, m, v, tiles.floats};
    hd_tiles_renew<T>(tiles, lo, hi, ROWS == 0 ? partials.group[0].floats : NULL, step);
}

typedef void (*tile_kernel)(grad_partials, struct hd_tiles, const struct hd_adam_scalars *, int64_t,
                            int64_t, float *, float *);

template <class T> static tile_kernel find_kernel(bool gpu_order, int rows)
{
    return gpu_order ? step_tiles<T, 0> : rows <= 1 ? step_tiles<T, 1> : step_tiles<T, 14>;
}

extern "C" int hd_adam_step_cuda(const struct hd_adam *adam, const struct hd_partials *grad,
                                 bool gpu_order, const struct hd_tiles *tiles, int64_t lo,
                                 int64_t n, const struct hd_adam_inputs *inputs, int64_t *updates,
                                 float *scratch, float *m, float *v, void *stream)
{
    static_assert(sizeof(struct hd_adam_scalars) == HD_ADAM_SCRATCH * sizeof(float), "scratch");
    struct hd_adam_scalars *scalars = (struct hd_adam_scalars *)scratch;
    grad_partials partials;
    HD_TRY(hd_partials_tree_make(1, grad, lo, &partials));
    if (updates)
        HD_TRY(HD_LAUNCH(begin_step, 1, 1, stream, *adam, *inputs, updates, scalars));
    if (n <= 0)
        return HD_OK;
    const tile_kernel step = tiles->bf16 ? find_kernel<hd_bf16>(gpu_order, partials.rows)
                                         : find_kernel<float>(gpu_order, partials.rows);
    return HD_LAUNCH(step, (unsigned)tiles->n, HD_THREADS, stream, partials, *tiles, scalars, lo,
                     lo + n, m, v);
}
