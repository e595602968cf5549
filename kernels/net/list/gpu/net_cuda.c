/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/net/net.h for GPUs. Passes go op by op, in either direction: an op's
 * step back turns derivatives by its output into those by its input and computes the gradients of
 * its parameters. */
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

/* -- Parameters -------------------------------------------------------------------------------- */

/* There are no shadow weights of a net that GPUs do not compute. */
int64_t hd_net_get_device_bytes(const struct hd_net *net)
{
    const struct gpu_places *places = &as_list(net)->places;
    return hd_align_up(net->elements * (int64_t)sizeof(float)) +
           hd_align_up(places->narrow * hd_gpu_get_element_bytes(as_list(net)) +
                       places->wide * (int64_t)sizeof(float));
}

int64_t hd_net_count_gpu_gradient(const struct hd_net *net)
{
    return as_list(net)->places.gradients + as_list(net)->places.sums;
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
    tiles_p->wide = (float *)((char *)tiles_p->narrow +
                              tiles_p->n_narrow * hd_gpu_get_element_bytes(as_list(net)));
    return HD_OK;
}

int hd_net_refresh_cuda(const struct hd_net *net, void *params, int64_t lo, int64_t hi,
                        void *stream)
{
    struct hd_tiles tiles;
    HD_TRY(hd_net_get_tiles(net, params, &tiles));
    return hd_gpu_refresh_shadow(&tiles, lo, hi, stream);
}

/* -- Forward ----------------------------------------------------------------------------------- */

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

static int go_forward(const struct gpu_pass *pass)
{
    const struct walk *walk = &pass->net->on_gpu;
    const struct hd_form *form = hd_gpu_get_form(pass, OBS);
    if (hd_gpu_keeps_obs(pass->net, pass->rows))
        HD_GPU_RUN(pass, hd_gpu_take_obs(pass->obs, pass->rows, form->ld, form->bf16,
                                         hd_gpu_get_value(pass, OBS, 0), pass->stream));
    for (int i = 0; i < walk->n_ops; i++)
        HD_TRY(get_gpu_type(&walk->ops[i])->forward(pass, &walk->ops[i]));
    return HD_OK;
}

static int forward(const struct hd_net *net, const void *params, const struct hd_gpu_obs *obs,
                   int64_t rows, void *work, float *q, void *stream)
{
    const struct gpu_pass pass = {.net = as_list(net),
                                  .params = params,
                                  .rows = rows,
                                  .forward_rows = rows,
                                  .work = work,
                                  .stream = stream,
                                  .obs = obs,
                                  .q = q};
    HD_TRY(check(net));
    return go_forward(&pass);
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

/* -- Backward ---------------------------------------------------------------------------------- */

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

static int go_back_data(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl_type *type = get_gpu_type(op);
    return type->backward_data && (hd_gpu_wants_delta(pass, op->in) || op->skip != NO_VALUE)
               ? type->backward_data(pass, op)
               : HD_OK;
}

static int go_back_op(const struct gpu_pass *pass, const struct op *op)
{
    if (get_gpu_type(op)->backward_weights)
        HD_TRY(get_gpu_type(op)->backward_weights(pass, op));
    return go_back_data(pass, op);
}

/* Writes sums of columns from that of op `first` on, which belong to gradients. */
static int finish(const struct gpu_pass *pass, int64_t first, int64_t end)
{
    const struct gpu_places *places = &pass->net->places;
    if (first < end)
        HD_GPU_RUN(pass, hd_gpu_finish_sums(hd_gpu_make_sums(pass, 0).sums, places->sums, first,
                                            end, pass->gradient + places->gradients, pass->stream));
    return HD_OK;
}

/* Goes back through the ops of stages [first, last): an op is in the stage that needs the first of
 * all tensors up to its own. */
static int go_back(const struct gpu_pass *pass, int first, int last)
{
    const struct walk *walk = &pass->net->on_gpu;
    const struct hd_net_on_gpu *on;
    int64_t sums = pass->net->places.sums, lowest = sums;
    HD_TRY(hd_net_on_gpu_find(&pass->net->base, &on));
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        const struct op *op = &walk->ops[i];
        const int stage = on->stage[as_gpu(op)->tensors];
        if (stage >= last)
            break;
        if (stage < first)
            sums = as_gpu(op)->first_sum;
        else
            HD_TRY(go_back_op(pass, op));
        lowest = as_gpu(op)->first_sum;
    }
    return finish(pass, lowest, sums);
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

/* Makes a pass whose gradient is in its scratch. */
static struct gpu_pass make_backward(const struct hd_net *net, const void *params, int64_t batch,
                                     int64_t forward_batch, const void *work, const float *dq,
                                     void *scratch, void *stream)
{
    return (struct gpu_pass){.net = as_list(net),
                             .params = params,
                             .rows = batch,
                             .forward_rows = forward_batch,
                             .work = (void *)work,
                             .scratch = (char *)scratch + get_gradient_bytes(net),
                             .stream = stream,
                             .dq = dq,
                             .gradient = scratch};
}

int hd_net_backward_cuda(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int first, int last, float *grad, bool gpu_order, void *stream)
{
    struct gpu_pass pass =
        make_backward(net, params, batch, forward_batch, work, dq, scratch, stream);
    pass.gradient = gpu_order ? grad : scratch;
    HD_TRY(check(net));
    HD_TRY(go_back(&pass, first, last));
    return gpu_order ? HD_OK : gather(net, first, last, pass.gradient, grad, stream);
}

/* -- Derivatives by the observation -------------------------------------------------------------
 */

static bool has_obs_delta(const struct hd_net *net)
{
    return hd_net_has_obs_gradient(net) && !net->obs_u8 && net->list.obs.dims == 1 &&
           !hd_net_find_cpu_layer(net);
}

int64_t hd_net_get_obs_cuda_ld(const struct hd_net *net)
{
    return has_obs_delta(net) ? as_list(net)->on_gpu.values[OBS].form.ld : 0;
}

/* Derivatives that are no floats lie behind the scratch of a backward pass. */
int64_t hd_net_get_backward_obs_cuda_bytes(const struct hd_net *net, int64_t batch)
{
    const int64_t narrow = hd_gpu_is_bf16(as_list(net)) ? (int64_t)sizeof(hd_bf16) : 0;
    const int64_t ld = hd_net_get_obs_cuda_ld(net);
    return ld > 0 ? hd_align_up(hd_net_get_backward_cuda_bytes(net, batch)) +
                        hd_align_up(batch * ld * narrow)
                  : 0;
}

/* The last op computes the gradients of its weights as well. */
static int go_back_to_obs(const struct gpu_pass *pass)
{
    const struct walk *walk = &pass->net->on_gpu;
    HD_TRY(go_back_op(pass, &walk->ops[walk->n_ops - 1]));
    for (int i = walk->n_ops - 2; i >= 0; i--)
        HD_TRY(go_back_data(pass, &walk->ops[i]));
    return HD_OK;
}

int hd_net_backward_obs_cuda(const struct hd_net *net, const void *params, int64_t batch,
                             int64_t forward_batch, const void *work, const float *dq,
                             void *scratch, float *dobs, void *stream)
{
    const int64_t ld = hd_net_get_obs_cuda_ld(net);
    const bool bf16 = hd_gpu_is_bf16(as_list(net));
    const struct hd_gpu_image row = {.channels = (int32_t)ld, .pixels = 1, .stored = (int32_t)ld};
    void *narrow = (char *)scratch + hd_align_up(hd_net_get_backward_cuda_bytes(net, batch));
    struct gpu_pass pass =
        make_backward(net, params, batch, forward_batch, work, dq, scratch, stream);
    pass.obs_delta = bf16 ? narrow : dobs;
    HD_TRY(check(net));
    HD_TRY(go_back_to_obs(&pass));
    return bf16 ? hd_gpu_convert(&row, batch, narrow, ld, false, true, false, dobs, stream) : HD_OK;
}

/* -- Preparing --------------------------------------------------------------------------------- */

/* Goes both ways without computing, on addresses that are never accessed, to prepare products. */
static int run_dry(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    void *nowhere = (void *)(uintptr_t)HD_GEMM_WORKSPACE_ALIGNMENT;
    const struct hd_gpu_obs obs = {0};
    struct gpu_pass pass = {.net = as_list(base),
                            .params = nowhere,
                            .rows = batch,
                            .forward_rows = batch,
                            .work = nowhere,
                            .obs = &obs,
                            .dry_run = true};
    if (batch > 0)
        HD_TRY(go_forward(&pass));
    pass.rows = pass.forward_rows = backward_batch;
    pass.scratch = pass.gradient = nowhere;
    if (backward_batch == 0)
        return HD_OK;
    HD_TRY(go_back(&pass, 0, hd_net_count_stages(base)));
    pass.obs_delta = nowhere;
    return has_obs_delta(base) ? go_back_to_obs(&pass) : HD_OK;
}

int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    HD_TRY(check(net));
    HD_TRY(hd_net_on_gpu_prepare(net));
    return run_dry(net, batch, backward_batch);
}
