/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/net/net.h for GPUs. */
#include "kernels/net/list/gpu/on_gpu_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* Logs why GPUs do not compute a net, if they do not. */
static int check(const struct hd_net *net)
{
    const struct hd_layer *layer = hd_net_find_cpu_layer(net);
    return layer ? hd_fail(HD_ERR_UNSUPPORTED, "GPUs do not compute %s of this net",
                           layer->type->name)
                 : HD_OK;
}

int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    HD_TRY(check(net));
    HD_TRY(hd_net_on_gpu_prepare(net));
    return hd_list_prepare_cuda(net, batch, backward_batch);
}

/* -- Parameters -------------------------------------------------------------------------------- */

/* There are no shadow weights of a net that GPUs do not compute. */
static struct hd_gpu_shadow describe(const struct hd_net *net)
{
    struct hd_gpu_shadow shadow;
    hd_list_describe_cuda(net, &shadow, NULL);
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
    return !hd_net_find_cpu_layer(net) && batch > 0 ? hd_gpu_count_work_bytes(as_list(net), batch)
                                                    : 0;
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
    HD_TRY(check(net));
    return hd_list_forward_cuda(net, params, obs, rows, work, q, stream);
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
    return !hd_net_find_cpu_layer(net) && batch > 0
               ? get_gradient_bytes(net) + hd_gpu_count_scratch_bytes(as_list(net), batch)
               : 0;
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
    float *gradient = gpu_order ? grad : scratch;
    HD_TRY(check(net));
    HD_TRY(hd_list_backward_cuda(net, params, batch, forward_batch, work, dq,
                                 (char *)scratch + get_gradient_bytes(net), first, last, gradient,
                                 stream));
    return gpu_order ? HD_OK : gather(net, first, last, gradient, grad, stream);
}
