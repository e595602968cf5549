/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of steps that all ops share: products, observations, and places of derivatives. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

#include <stddef.h>

int hd_gpu_multiply(const struct gpu_pass *pass, const struct hd_gemm *gemm, const void *a,
                    const void *b, const void *bias, void *c)
{
    if (pass->dry_run)
        return hd_gemm_prepare_cuda(gemm);
    return hd_gemm_multiply_cuda(gemm, a, b, bias, c, hd_gpu_get_workspace(pass), pass->stream);
}

bool hd_gpu_keeps_obs(const struct list_net *net, int64_t rows)
{
    const struct walk *walk = &net->on_gpu;
    for (int i = 0; i < walk->n_ops; i++) {
        const struct gpu_impl_type *type = get_gpu_type(&walk->ops[i]);
        if (walk->ops[i].in == OBS &&
            !(type->takes_raw_obs && type->takes_raw_obs(as_gpu(&walk->ops[i]), rows)))
            return true;
    }
    return false;
}

struct hd_gpu_obs hd_gpu_get_obs(const struct gpu_pass *pass)
{
    const struct hd_form *form = hd_gpu_get_form(pass, OBS);
    if (!hd_gpu_keeps_obs(pass->net, pass->forward_rows))
        return *pass->obs;
    return (struct hd_gpu_obs){.first = hd_gpu_get_value(pass, OBS, 0),
                               .n_first = pass->forward_rows,
                               .elements = form->ld,
                               .type = form->bf16 ? HD_GPU_BF16 : HD_GPU_FLOATS};
}

/* -- Derivatives ------------------------------------------------------------------------------- */

/* Returns whether an op is the last one in the backward pass that leaves derivatives by a value. */
static bool is_last(const struct walk *walk, const struct op *op, int value)
{
    for (const struct op *before = walk->ops; before < op; before++)
        if (before->in == value || before->skip == value)
            return false;
    return true;
}

/* The sums of derivatives by a product are the gradient of its bias. */
struct hd_gpu_delta hd_gpu_make_delta(const struct gpu_pass *pass, const struct op *op, int value,
                                      bool add, int64_t row)
{
    const struct walk *walk = &pass->net->on_gpu;
    const struct op *writer = hd_walk_find_writer(walk, value);
    const struct gpu_impl *impl = writer ? as_gpu(writer) : NULL;
    struct hd_gpu_delta delta = {
        .dx = hd_gpu_get_delta(pass, value, row), .bf16 = hd_gpu_is_bf16(pass->net), .add = add};
    if (as_gpu(op)->relu_in || (impl && impl->base.relu))
        delta.x = hd_gpu_get_value(pass, value, row);
    if (impl && get_gpu_type(writer)->has_bias && is_last(walk, op, value)) {
        delta.sums = hd_gpu_make_sums(pass, impl->sums);
        delta.sums.add = row > 0;
    }
    return delta;
}

int hd_gpu_leave(const struct gpu_pass *pass, int value, const struct hd_gpu_delta *delta,
                 const void *from)
{
    const struct hd_gpu_image image = hd_gpu_make_image(hd_gpu_get_form(pass, value));
    const bool there = from == delta->dx && !delta->x && !delta->sums.sums;
    if (!there && hd_gpu_wants_delta(pass, value))
        HD_GPU_RUN(pass, hd_gpu_pass_on(delta, pass->rows * image.pixels, image.stored, from,
                                        pass->stream));
    return HD_OK;
}
