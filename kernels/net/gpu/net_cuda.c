/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/net/net.h for GPUs. */
#include "kernels/net/gpu/index_tables.h"
#include "kernels/net/gpu/launches_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* Returns the functions of a net that GPUs compute, or NULL. */
static const struct hd_net_gpu_ops *get_ops(const struct hd_net *net)
{
    if (!hd_net_supports_gpu(net))
        return NULL;
    return net->fused ? &hd_fused_net_on_gpu : &hd_list_net_on_gpu;
}

/* Finds the functions, or logs why GPUs do not compute the net. */
static int find_ops(const struct hd_net *net, const struct hd_net_gpu_ops **ops_p)
{
    *ops_p = get_ops(net);
    if (*ops_p)
        return HD_OK;
    const struct hd_layer *layer = hd_net_find_cpu_layer(net);
    return hd_fail(HD_ERR_UNSUPPORTED, "GPUs do not compute %s of this net",
                   layer ? layer->type->name : "bf16");
}

int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    const struct hd_net_gpu_ops *ops;
    HD_TRY(find_ops(net, &ops));
    HD_TRY(hd_net_on_gpu_prepare(net, ops));
    return ops->prepare(net, batch, backward_batch);
}

/* -- Parameters -------------------------------------------------------------------------------- */

/* Describes the shadow weights; there are none of a net that GPUs do not compute. */
static struct hd_gpu_shadow describe(const struct hd_net *net)
{
    const struct hd_net_gpu_ops *ops = get_ops(net);
    struct hd_gpu_shadow shadow;
    if (!ops || ops->describe(net, &shadow, NULL) != HD_OK)
        return (struct hd_gpu_shadow){0};
    return shadow;
}

static int64_t get_element_bytes(bool bf16)
{
    return bf16 ? 2 : 4;
}

int64_t hd_net_get_device_bytes(const struct hd_net *net)
{
    const struct hd_gpu_shadow shadow = describe(net);
    return hd_align_up(net->elements * (int64_t)sizeof(float)) +
           hd_align_up(shadow.narrow * get_element_bytes(shadow.bf16) +
                       shadow.wide * (int64_t)sizeof(float));
}

int64_t hd_net_count_gpu_gradient(const struct hd_net *net)
{
    return describe(net).gradient;
}

int hd_net_get_gradient_table(const struct hd_net *net, const int32_t **at_p)
{
    const struct hd_net_on_gpu *on;
    HD_TRY(hd_net_on_gpu_find(net, &on));
    *at_p = on->tiles.gradient_at;
    return HD_OK;
}

int hd_net_get_tiles(const struct hd_net *net, void *params, struct hd_tiles *tiles_p)
{
    const struct hd_net_on_gpu *on;
    HD_TRY(hd_net_on_gpu_find(net, &on));
    *tiles_p = on->tiles;
    tiles_p->floats = params;
    tiles_p->narrow = hd_net_on_gpu_get_shadow(net, params);
    tiles_p->wide =
        (float *)((char *)tiles_p->narrow + tiles_p->n_narrow * get_element_bytes(tiles_p->bf16));
    return HD_OK;
}

int hd_net_refresh_cuda(const struct hd_net *net, void *params, int64_t lo, int64_t hi,
                        void *stream)
{
    struct hd_tiles tiles;
    HD_TRY(hd_net_get_tiles(net, params, &tiles));
    return hd_gpu_refresh_shadow(&tiles, lo, hi, stream);
}

/* -- Passes ------------------------------------------------------------------------------------ */

int64_t hd_net_get_forward_cuda_bytes(const struct hd_net *net, int64_t batch)
{
    const struct hd_net_gpu_ops *ops = get_ops(net);
    return ops && batch > 0 ? ops->forward_bytes(net, batch) : 0;
}

static struct hd_gpu_obs obs_of(const struct hd_net *net, const struct hd_obs_norm *norm)
{
    struct hd_gpu_obs obs = {.elements = net->obs,
                             .type = net->obs_u8 ? HD_GPU_BYTES : HD_GPU_FLOATS};
    if (norm) {
        obs.scale = norm->scale;
        obs.shift = norm->shift;
        obs.limit = norm->limit;
    }
    return obs;
}

static int forward(const struct hd_net *net, const void *params, const struct hd_gpu_obs *obs,
                   int64_t rows, void *work, float *q, void *stream)
{
    const struct hd_net_gpu_ops *ops;
    HD_TRY(find_ops(net, &ops));
    return ops->forward(net, params, obs, rows, work, q, stream);
}

int hd_net_forward_cuda(const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm, const void *observations, int64_t batch,
                        void *work, float *q, void *stream)
{
    struct hd_gpu_obs obs = obs_of(net, norm);
    obs.first = observations;
    obs.n_first = batch;
    return forward(net, params, &obs, batch, work, q, stream);
}

int hd_net_forward_pair_cuda(const struct hd_net *net, const void *params,
                             const struct hd_obs_norm *norm, const void *first, const void *second,
                             int64_t rows, void *work, float *q, void *stream)
{
    struct hd_gpu_obs obs = obs_of(net, norm);
    obs.first = first;
    obs.second = second;
    obs.n_first = rows;
    return forward(net, params, &obs, 2 * rows, work, q, stream);
}

/* The scratch begins with a gradient in GPU order, for gradients in the flat array's. */
static int64_t get_gradient_bytes(const struct hd_net *net)
{
    return hd_align_up(hd_net_count_gpu_gradient(net) * (int64_t)sizeof(float));
}

int64_t hd_net_get_backward_cuda_bytes(const struct hd_net *net, int64_t batch)
{
    const struct hd_net_gpu_ops *ops = get_ops(net);
    return ops && batch > 0 ? get_gradient_bytes(net) + ops->backward_bytes(net, batch) : 0;
}

/* Writes the floats of the stages' range, whose gradients are computed by now. */
static int gather(const struct hd_net *net, int first, int last, const float *gradient, float *grad,
                  void *stream)
{
    const int32_t *at;
    int64_t lo, hi, unused;
    HD_TRY(hd_net_get_gradient_table(net, &at));
    hd_net_get_stage_range(net, first, &lo, &unused);
    hd_net_get_stage_range(net, last - 1, &unused, &hi);
    return hd_gpu_gather_gradient(at, lo, hi, gradient, grad, stream);
}

int hd_net_backward_cuda(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int first, int last, float *grad, bool gpu_order, void *stream)
{
    const struct hd_net_gpu_ops *ops;
    float *gradient = gpu_order ? grad : scratch;
    HD_TRY(find_ops(net, &ops));
    HD_TRY(ops->backward(net, params, batch, forward_batch, work, dq,
                         (char *)scratch + get_gradient_bytes(net), first, last, gradient, stream));
    return gpu_order ? HD_OK : gather(net, first, last, gradient, grad, stream);
}
