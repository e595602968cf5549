/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/net.h"

#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- Creating a net ---------------------------------------------------------------------------- */

/* Checks what the layers have no part in. */
static int check_precision(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p)
{
    mistake_p->field = "precision";
    if (fields->precision == HD_TF32)
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "tf32 is for GPUs; processors compute in f32 or bf16");
    else
        mistake_p->field = NULL;
    return mistake_p->field ? HD_ERR_INPUT : HD_OK;
}

static int make_list(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p,
                     struct hd_layer_list *list_p)
{
    struct hd_layer_list list;
    *mistake_p = (struct hd_net_mistake){0};
    HD_TRY(hd_layer_list_create(fields, mistake_p, &list));
    if (check_precision(fields, mistake_p) != HD_OK) {
        hd_free(list.layers);
        return HD_ERR_INPUT;
    }
    *list_p = list;
    return HD_OK;
}

int hd_net_find_mistake(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p)
{
    struct hd_layer_list list;
    HD_TRY(make_list(fields, mistake_p, &list));
    hd_free(list.layers);
    return HD_OK;
}

int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    struct hd_net_mistake unused;
    struct hd_layer_list list;
    HD_TRY(make_list(fields, &unused, &list));
    return hd_list_create(fields, &list, net_p);
}

/* -- Passes ------------------------------------------------------------------------------------ */

void hd_net_forward(const struct hd_net *net, const struct hd_net_pass *pass, float *q)
{
    if (hd_list_forward(net, pass, q) == HD_OK)
        return;
    for (int64_t i = 0; i < hd_net_count_pass_rows(pass) * net->outputs; i++)
        q[i] = NAN;
}

void hd_net_backward(const struct hd_net *net, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad)
{
    int64_t lo, hi;
    if (hd_list_backward(net, params, batch, forward_batch, work, dq, scratch, stage, grad) ==
        HD_OK)
        return;
    hd_net_get_stage_range(net, stage, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        grad[i] = NAN;
}

bool hd_net_has_obs_gradient(const struct hd_net *net)
{
    for (int64_t i = 0; i < net->list.n; i++)
        if (net->list.layers[i].type->observation)
            return false;
    return !net->batch_norm && net->state == 0 && !net->list.joined;
}

void hd_net_backward_obs(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs)
{
    if (hd_list_backward_obs(net, params, batch, forward_batch, work, dq, scratch, dobs) == HD_OK)
        return;
    for (int64_t i = 0; i < batch * net->obs; i++)
        dobs[i] = NAN;
}

/* -- Training with batch norm ------------------------------------------------------------------ */

void hd_net_training_forward(const struct hd_net *net, const struct hd_training_pass *pass,
                             int stage, const double *total_sums, double *sums)
{
    const int64_t n = hd_net_count_training_sums(net, stage);
    if (hd_list_training_forward(net, pass, stage, total_sums, sums) == HD_OK)
        return;
    for (int64_t i = 0; i < n; i++)
        sums[i] = NAN;
    for (int64_t i = 0; i < pass->batch * net->outputs && stage == net->levels; i++)
        pass->q[i] = NAN;
}

void hd_net_training_backward(const struct hd_net *net, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums)
{
    if (hd_list_training_backward(net, pass, stage, total_sums, sums) == HD_OK)
        return;
    for (int64_t i = 0; i < net->elements && stage == net->levels; i++)
        pass->grad[i] = NAN;
}
