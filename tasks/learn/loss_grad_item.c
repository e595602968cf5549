/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/base/arena.h"
#include "tasks/learn/loss_grad_internal.h"
#include "tasks/types/data/td_errors.h"

#include <math.h>

int64_t hd_loss_grad_count_forward_rows(const struct hd_loss_grad *args)
{
    return args->micro * (int64_t)args->loss->passes;
}

int64_t hd_loss_item_lay_out(const struct hd_loss_grad *args, int64_t forward_bytes,
                             int64_t backward_bytes, void *memory, void *header,
                             struct hd_loss_item *item_p)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t outputs = args->micro * hd_net_count_outputs(args->net);
    item_p->header = header;
    item_p->out = hd_arena_take(&arena, outputs * (int64_t)args->loss->passes, sizeof *item_p->out);
    item_p->target_next =
        hd_arena_take(&arena, args->loss->target ? outputs : 0, sizeof *item_p->target_next);
    item_p->dout = hd_arena_take(&arena, outputs, sizeof *item_p->dout);
    item_p->forward = hd_arena_take(&arena, forward_bytes, 1);
    item_p->backward = hd_arena_take(&arena, backward_bytes, 1);
    return arena.used;
}

struct hd_loss_pass hd_loss_item_make_pass(const struct hd_loss_grad *args,
                                           const struct hd_view *views, int64_t i,
                                           const struct hd_loss_item *item)
{
    const struct hd_view *errors = &views[HD_LOSS_TD_ERRORS];
    const int64_t first = i * args->micro;
    return (struct hd_loss_pass){
        .net = args->net,
        .views = views,
        .batch = args->batch,
        .first = first,
        .rows = args->micro,
        .header = item->header,
        .out = item->out,
        .target_next = item->target_next,
        .dout = item->dout,
        .td_errors = errors->data ? hd_td_errors_get(errors->spec, errors->data, first) : NULL,
    };
}

static struct hd_net_sequences take_sequences(const struct hd_loss_grad *args,
                                              const struct hd_loss_rows *rows, int64_t first)
{
    if (rows->steps == 0)
        return (struct hd_net_sequences){0};
    return (struct hd_net_sequences){
        .steps = rows->steps,
        .state = rows->state + first / rows->steps * hd_net_count_state(args->net),
        .begins = rows->begins + first,
    };
}

struct hd_loss_operands hd_loss_pass_get_operands(const struct hd_loss_grad *args,
                                                  const struct hd_loss_pass *pass)
{
    const struct hd_loss_rows rows = args->loss->batch->get_rows(&pass->views[HD_LOSS_BATCH]);
    const int64_t at = pass->first * hd_net_get_obs_bytes(args->net);
    return (struct hd_loss_operands){
        .policy = pass->views[HD_LOSS_POLICY].data,
        .target = pass->views[HD_LOSS_TARGET].data,
        .obs = (const char *)rows.obs + at,
        .next_obs = rows.next_obs ? (const char *)rows.next_obs + at : NULL,
        .sequences = take_sequences(args, &rows, pass->first),
    };
}

bool hd_loss_item_is_finite(const struct hd_loss_grad *args, void *header)
{
    double values[HD_LOSS_FIELDS_MAX], weights[HD_LOSS_FIELDS_MAX];
    return isfinite(args->loss->sum(args->loss_args, &header, 1, values, weights));
}
