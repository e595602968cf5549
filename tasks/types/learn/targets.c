/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/targets.h"

#include "runtime/base/status.h"
#include "tasks/arena.h"
#include "tasks/types/learn/learn.h"

static int64_t lay_out(int64_t rows, void *memory, struct hd_targets *targets)
{
    struct hd_arena arena = {.memory = memory};
    targets->advantage = hd_arena_take(&arena, rows, sizeof *targets->advantage);
    targets->target = hd_arena_take(&arena, rows, sizeof *targets->target);
    targets->value = hd_arena_take(&arena, rows, sizeof *targets->value);
    return arena.used;
}

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_targets unused;
    int64_t *rows = hd_alloc(1, sizeof *rows);
    if (!rows)
        return HD_ERR_NOMEM;
    *rows = hd_minibatch_shape_of(setup->config).samples;
    spec->shape = rows;
    spec->bytes = lay_out(*rows, NULL, &unused);
    return HD_OK;
}

int64_t hd_targets_rows(const struct hd_spec *spec)
{
    return *(const int64_t *)spec->shape;
}

struct hd_targets hd_targets_at(const struct hd_spec *spec, void *data)
{
    struct hd_targets targets;
    lay_out(hd_targets_rows(spec), data, &targets);
    return targets;
}

const struct hd_type hd_type_targets = {.name = "advantages", .resolve = resolve};
