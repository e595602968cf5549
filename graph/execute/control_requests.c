/* SPDX-License-Identifier: Apache-2.0 */
/* Wishes from outside: of a rank that is asked to stop, of rank 0 whose clock says that it is time
 * for a checkpoint. They come at any moment on any rank, and all ranks must heed them before the
 * same iteration. So every iteration adds up what ranks wish; when the iteration leaves the window,
 * everybody knows the sum. A rank that is alone heeds its wish at once. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/status.h"

static void combine(const struct hd_spec *spec, int part, enum hd_combine how, void *into,
                    const void *other)
{
    (void)spec, (void)part, (void)how;
    *(unsigned *)into |= *(const unsigned *)other;
}

static void unpack(const struct hd_spec *spec, int part, enum hd_combine how, const void *vector,
                   void *data)
{
    (void)spec, (void)part, (void)how;
    *(unsigned *)data = *(const unsigned *)vector;
}

static const struct hd_reduction reduction = {
    .bytes = hd_value_vector_bytes, .pack = hd_value_pack, .combine = combine, .unpack = unpack};
static const struct hd_type type = {.name = "wishes", .reduction = &reduction};
static const struct hd_spec spec = {
    .name = "wishes", .type = &type, .bytes = sizeof(unsigned), .parts = 1, .leaves = 1};

int hd_wishes_create(struct hd_executor *executor)
{
    for (int i = 0; i < executor->options.window; i++) {
        HD_TRY(hd_buffer_create(executor->session, 1, 1, &executor->wishes[i].own_buffer));
        HD_TRY(hd_buffer_create(executor->session, 1, 1, &executor->wishes[i].all_buffer));
    }
    return HD_OK;
}

void hd_wishes_destroy(struct hd_executor *executor)
{
    for (int i = 0; i < HD_WINDOW_MAX; i++) {
        hd_buffer_destroy(executor->wishes[i].own_buffer);
        hd_buffer_destroy(executor->wishes[i].all_buffer);
    }
}

/* What all wished in the iteration that has just left the window. */
static int exchange(struct hd_executor *executor, unsigned own, unsigned *wishes_p)
{
    struct hd_wish *wish =
        &executor->wishes[hd_executor_iteration(executor) % executor->options.window];
    *wishes_p = wish->asked ? wish->all : 0;
    wish->asked = true;
    wish->own = own;
    void *in = &wish->own;
    const struct hd_collective c = {.verb = "wishes",
                                    .name = "wishes",
                                    .kind = HD_COLLECTIVE_REDUCE,
                                    .how = HD_MAX,
                                    .in_spec = &spec,
                                    .out_spec = &spec,
                                    .n_in = 1,
                                    .in = &in,
                                    .in_buffers = &wish->own_buffer,
                                    .out = &wish->all,
                                    .out_buffer = wish->all_buffer,
                                    .iteration = hd_executor_iteration(executor),
                                    .priority = HD_PRIORITY_FIRST,
                                    .group = hd_executor_group(executor, false)};
    return hd_submit_collective(executor->session, &c);
}

int hd_executor_heed_wishes(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    if (!options->wish)
        return HD_OK;
    unsigned wishes = options->wish(options->wish_arg);
    if (executor->plan->ranks > 1)
        HD_TRY(exchange(executor, wishes, &wishes));
    return wishes ? options->heed(options->wish_arg, wishes) : HD_OK;
}
