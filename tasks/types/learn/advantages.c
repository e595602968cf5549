/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/advantages.h"

#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/learn/learn.h"

static int64_t lay_out(int64_t rows, void *memory, struct hd_advantages *advantages)
{
    struct hd_arena arena = {.memory = memory};
    advantages->advantage = hd_arena_take(&arena, rows, sizeof *advantages->advantage);
    advantages->target = hd_arena_take(&arena, rows, sizeof *advantages->target);
    advantages->value = hd_arena_take(&arena, rows, sizeof *advantages->value);
    return arena.used;
}

static int advantages_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_advantages unused;
    int64_t *rows = hd_alloc(1, sizeof *rows);
    if (!rows)
        return HD_ERR_NOMEM;
    *rows = hd_minibatch_split_read(setup->config).samples;
    spec->shape = rows;
    spec->bytes = lay_out(*rows, NULL, &unused);
    return HD_OK;
}

int64_t hd_advantages_count_rows(const struct hd_spec *spec)
{
    return *(const int64_t *)spec->shape;
}

struct hd_advantages hd_advantages_get(const struct hd_spec *spec, void *data)
{
    struct hd_advantages advantages;
    lay_out(hd_advantages_count_rows(spec), data, &advantages);
    return advantages;
}

const struct hd_type hd_type_advantages = {.name = "advantages",
                                           .none = true,
                                           .size_key = "policy.collect.n_sample",
                                           .resolve = advantages_resolve,
                                           .check = hd_value_accept};
