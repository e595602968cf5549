/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/check/env_group.h"

#include "kernels/envs/find/find.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STREAM UINT64_C(0x2d1b7c35a9e64f01)

__attribute__((format(printf, 2, 3))) static int fail(struct hd_env_group *group,
                                                      const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(group->fault, sizeof group->fault, format, list);
    va_end(list);
    return HD_ERR_TASK;
}

static uint64_t get_seed(const struct hd_env_kind *kind, int64_t number, int64_t episode)
{
    return hd_hash_mix(hd_hash_mix(kind->seed, (uint64_t)number), (uint64_t)episode);
}

/* Fails with the place of env i, whose message may be that of the env. */
static int fail_at(struct hd_env_group *group, int64_t i, const char *what)
{
    const struct hd_env_played *played = &group->played[i];
    return fail(group, "env %" PRId64 ", step %" PRId64 " from seed %" PRIu64 ": %s",
                played->number, played->steps,
                get_seed(group->kind, played->number, played->episode), what);
}

int hd_env_group_open(const struct hd_env_kind *kind, int64_t first, int64_t envs,
                      struct hd_env_group *group_p)
{
    const int64_t rows = envs * kind->agents;
    struct hd_env_settings settings = kind->settings;
    struct hd_env_spec unused;
    char message[HD_ENV_MESSAGE] = "";
    *group_p = (struct hd_env_group){.kind = kind, .envs = envs};
    settings.envs = rows;
    group_p->played = hd_alloc(envs, sizeof *group_p->played);
    group_p->obs = hd_alloc(rows, (size_t)kind->frame_bytes);
    group_p->action = hd_alloc(rows * kind->spec.actions.dims, sizeof(float));
    group_p->reward = hd_alloc(rows, sizeof *group_p->reward);
    group_p->done = hd_alloc(rows, sizeof *group_p->done);
    group_p->truncated = hd_alloc(rows, sizeof *group_p->truncated);
    if (!group_p->played || !group_p->obs || !group_p->action || !group_p->reward ||
        !group_p->done || !group_p->truncated)
        return fail(group_p, "out of memory");
    for (int64_t i = 0; i < envs; i++)
        group_p->played[i].number = first + i;
    if (kind->env->create(&settings, &unused, &group_p->group, message) == 0)
        return 0;
    group_p->group = NULL;
    return fail(group_p, "create: %s", message);
}

void hd_env_group_close(struct hd_env_group *group)
{
    if (group->group)
        group->kind->env->destroy(group->group);
    hd_free(group->played);
    hd_free(group->obs);
    hd_free(group->action);
    hd_free(group->reward);
    hd_free(group->done);
    hd_free(group->truncated);
    *group = (struct hd_env_group){0};
}

static bool is_finite(const struct hd_env_spec *spec, const char *frame)
{
    for (int p = 0; p < hd_env_count_parts(spec); p++) {
        const struct hd_env_part part = hd_env_get_part(spec, p);
        const int64_t bytes = hd_env_get_part_bytes(&part);
        for (int64_t k = 0; part.element == HD_ENV_F32 && k < bytes / 4; k++)
            if (!isfinite(((const float *)frame)[k]))
                return false;
        frame += (bytes + 3) / 4 * 4;
    }
    return true;
}

/* Checks an observation, and adds what env i has shown to its trace. */
static int note(struct hd_env_group *group, int64_t i)
{
    const struct hd_env_kind *kind = group->kind;
    const char *obs = group->obs + i * kind->agents * kind->frame_bytes;
    const int64_t bytes = kind->agents * kind->frame_bytes;
    struct hd_env_played *played = &group->played[i];
    for (int64_t agent = 0; agent < kind->agents; agent++)
        if (!is_finite(&kind->spec, obs + agent * kind->frame_bytes))
            return fail_at(group, i, "an observation is not finite");
    played->trace = hd_hash_mix(played->trace, hd_hash_bytes(obs, (size_t)bytes));
    played->total = hd_hash_mix(played->total, played->trace);
    return 0;
}

int hd_env_group_start(struct hd_env_group *group, int64_t i, int64_t episode)
{
    const struct hd_env_kind *kind = group->kind;
    struct hd_env_played *played = &group->played[i];
    char message[HD_ENV_MESSAGE] = "";
    *played = (struct hd_env_played){
        .number = played->number, .episode = episode, .total = played->total};
    for (int64_t a = i * kind->agents; a < (i + 1) * kind->agents; a++)
        if (kind->env->reset(group->group, a, get_seed(kind, played->number, episode),
                             group->obs + a * kind->frame_bytes, message) != 0)
            return fail_at(group, i, message);
    return note(group, i);
}

/* Draws an action: a choice, or a number between its bounds, where there are any, else -1 and 1. */
static void draw(const struct hd_env_group *group, int64_t row)
{
    const struct hd_env_kind *kind = group->kind;
    const struct hd_env_actions *actions = &kind->spec.actions;
    const struct hd_env_played *played = &group->played[row / kind->agents];
    const struct hd_rng rng =
        hd_rng_make(kind->seed, STREAM, played->number, played->episode, played->steps);
    char *action = group->action + row * actions->dims * 4;
    for (int d = 0; d < actions->dims; d++) {
        const uint32_t item = (uint32_t)((row % kind->agents) * actions->dims + d);
        const float low = isfinite(actions->low[d]) ? actions->low[d] : -1,
                    high = isfinite(actions->high[d]) ? actions->high[d] : 1;
        if (actions->kind == HD_ENV_BOX)
            ((float *)action)[d] = low + (high - low) * (float)hd_rng_draw_uniform(&rng, item);
        else
            ((int32_t *)action)[d] = (int32_t)hd_rng_draw_below(&rng, item, actions->n[d]);
    }
}

static int check_ends(struct hd_env_group *group, int64_t i)
{
    const int64_t agents = group->kind->agents, first = i * agents;
    for (int64_t a = first; a < first + agents; a++) {
        if (!isfinite(group->reward[a]))
            return fail_at(group, i, "a reward is not finite");
        if (group->truncated[a] && !group->done[a])
            return fail_at(group, i, "an episode is truncated and goes on");
        if (group->done[a] != group->done[first])
            return fail_at(group, i, "agents of one env do not end in the same step");
    }
    return 0;
}

static int take_step(struct hd_env_group *group, int64_t i, bool again)
{
    const int64_t agents = group->kind->agents, first = i * agents;
    struct hd_env_played *played = &group->played[i];
    played->steps++;
    if (check_ends(group, i) != 0 || note(group, i) != 0)
        return HD_ERR_TASK;
    for (int64_t a = first; a < first + agents; a++) {
        played->trace = hd_hash_floats(played->trace, &group->reward[a], 1);
        played->total = hd_hash_mix(played->total, played->trace);
        group->returns += (double)group->reward[a] / (double)agents;
    }
    if (!group->done[first])
        return 0;
    group->episodes++;
    return again ? hd_env_group_start(group, i, played->episode + 1) : 0;
}

int hd_env_group_step(struct hd_env_group *group, bool again)
{
    const struct hd_env_outcome outcome = {group->obs, group->reward, group->done,
                                           group->truncated};
    char message[HD_ENV_MESSAGE] = "";
    for (int64_t row = 0; row < group->envs * group->kind->agents; row++)
        draw(group, row);
    if (group->kind->env->step(group->group, group->action, &outcome, message) != 0)
        return fail(group, "step: %s", message);
    for (int64_t i = 0; i < group->envs; i++)
        if (take_step(group, i, again) != 0)
            return HD_ERR_TASK;
    return 0;
}

int hd_env_group_copy(struct hd_env_group *from, int64_t i, struct hd_env_group *to, int64_t j)
{
    const struct hd_env_kind *kind = from->kind;
    char message[HD_ENV_MESSAGE] = "";
    int status = 0;
    void *state = hd_alloc(kind->state_bytes, 1);
    if (!state)
        return fail(to, "out of memory");
    for (int64_t a = 0; status == 0 && a < kind->agents; a++) {
        if (kind->env->save(from->group, i * kind->agents + a, state, message) != 0)
            status = fail(to, "save: %s", message);
        else if (kind->env->load(to->group, j * kind->agents + a, state, message) != 0)
            status = fail(to, "load: %s", message);
    }
    hd_free(state);
    to->played[j] = from->played[i];
    memcpy(to->obs + j * kind->agents * kind->frame_bytes,
           from->obs + i * kind->agents * kind->frame_bytes,
           (size_t)(kind->agents * kind->frame_bytes));
    return status;
}

bool hd_env_group_is_part(const struct hd_env_group *part, const struct hd_env_group *whole)
{
    for (int64_t i = 0; i < part->envs; i++) {
        const struct hd_env_played *played = &part->played[i];
        if (whole->played[played->number - whole->played[0].number].total != played->total)
            return false;
    }
    return true;
}
