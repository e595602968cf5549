/* SPDX-License-Identifier: Apache-2.0 */
/* Writes transition logs as the files of a data set. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/dataset.h"
#include "tasks/base/arena.h"
#include "tasks/output/inspect.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/data/transition_log.h"

#include <stdio.h>
#include <string.h>

void hd_transition_log_describe(const struct hd_spec *log, const struct hd_spec *envs,
                                struct hd_dataset_info *info)
{
    const struct hd_envs_shape *shape = hd_envs_get_shape(envs);
    info->env_type = shape->env->name;
    info->env_id = shape->settings.env_id;
    info->states_options = true;
    hd_env_options_format(&shape->settings, info->env_options, sizeof info->env_options);
    info->u8 = shape->obs.u8;
    info->dims = shape->frame.dims;
    memcpy(info->shape, shape->frame.shape, (size_t)info->dims * sizeof *info->shape);
    info->stack = shape->obs.stack;
    if (hd_obs_has_parts(&shape->obs)) {
        const struct hd_obs_shape frame = hd_obs_shape_unstack(&shape->obs);
        char parts[HD_OBS_TEXT];
        snprintf(info->parts, sizeof info->parts, "%s", hd_obs_shape_write(&frame, parts));
    }
    info->continuous = shape->frame.actions.kind == HD_ENV_BOX;
    info->action_dims = shape->frame.actions.dims;
    memcpy(info->actions, shape->frame.actions.n, sizeof info->actions);
    info->transitions = hd_transition_log_get_shape(log)->transitions;
}

int64_t hd_transition_log_get_rounds(const struct hd_spec *spec)
{
    return hd_transition_log_get_shape(spec)->rounds;
}

void hd_transition_log_add_episodes(const struct hd_spec *spec, const void *data,
                                    int64_t *episodes_p, double *returns_p)
{
    const struct hd_transition_log log =
        hd_transition_log_get(hd_transition_log_get_shape(spec), (void *)data);
    *episodes_p += *log.episodes;
    *returns_p += *log.returns;
}

/* The arrays of a file, into whose columns the rows of an instance are gathered. */
struct file {
    int32_t *obs, *next_obs, *env, *episode;
    union hd_action_number *action;
    float *reward;
    uint8_t *done, *truncated;
    int32_t *number; /* [frames of the instance]: number of the frame in the file; -1: not in it */
    char *frame;
    int64_t transitions, frames;
};

static int64_t lay_out(const struct hd_transition_log_shape *shape, void *memory, struct file *file)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs * shape->steps, stack = shape->obs.stack;
    *file = (struct file){
        .obs = hd_arena_take(&arena, n * stack, sizeof *file->obs),
        .next_obs = hd_arena_take(&arena, n * stack, sizeof *file->next_obs),
        .action = hd_arena_take(&arena, n * shape->actions.dims, sizeof *file->action),
        .env = hd_arena_take(&arena, n, sizeof *file->env),
        .episode = hd_arena_take(&arena, n, sizeof *file->episode),
        .reward = hd_arena_take(&arena, n, sizeof *file->reward),
        .done = hd_arena_take(&arena, n, sizeof *file->done),
        .truncated = hd_arena_take(&arena, n, sizeof *file->truncated),
        .number = hd_arena_take(&arena, shape->frames, sizeof *file->number),
        .frame = hd_arena_take(&arena, shape->frames, (size_t)shape->obs.frame_bytes),
    };
    return arena.used;
}

/* Copies the frames of an observation that the file does not have yet. They are numbered in the
 * order of first use, so the frames of an env stay together. */
static void copy_obs(const struct hd_transition_log_shape *shape,
                     const struct hd_transition_log *from, const int32_t *obs, struct file *file,
                     int32_t *to)
{
    const size_t bytes = (size_t)shape->obs.frame_bytes;
    for (int64_t k = 0; k < shape->obs.stack; k++) {
        int32_t *number = &file->number[obs[k]];
        if (*number < 0) {
            *number = (int32_t)file->frames++;
            memcpy(file->frame + (size_t)*number * bytes, from->frame + (size_t)obs[k] * bytes,
                   bytes);
        }
        to[k] = *number;
    }
}

static void copy_row(const struct hd_transition_log_shape *shape,
                     const struct hd_transition_log *from, int64_t env, int64_t step,
                     struct file *file)
{
    const int64_t row = env * shape->steps + step, to = file->transitions++;
    const int64_t stack = shape->obs.stack, dims = shape->actions.dims;
    copy_obs(shape, from, from->obs + row * stack, file, file->obs + to * stack);
    copy_obs(shape, from, from->next_obs + row * stack, file, file->next_obs + to * stack);
    memcpy(file->action + to * dims, from->action + row * dims,
           (size_t)dims * sizeof *file->action);
    file->env[to] = (int32_t)env;
    file->episode[to] = from->episode[row];
    file->reward[to] = from->reward[row];
    file->done[to] = from->done[row];
    file->truncated[to] = from->truncated[row];
}

/* Gathers the rows of a round that belong to the N transitions: the last round may hold more. */
static void collect_round(const struct hd_transition_log_shape *shape,
                          const struct hd_transition_log *from, int64_t round, struct file *file)
{
    for (int64_t i = 0; i < *from->n_frames; i++)
        file->number[i] = -1;
    for (int64_t env = 0; env < shape->envs; env++) {
        const int64_t share =
            shape->transitions / shape->envs + (env < shape->transitions % shape->envs);
        const int64_t left = share - round * shape->steps;
        for (int64_t step = 0; step < left && step < shape->steps; step++)
            copy_row(shape, from, env, step, file);
    }
}

int hd_transition_log_write(const struct hd_spec *spec, const void *data, int64_t round,
                            struct hd_dataset_writer *writer)
{
    const struct hd_transition_log_shape *shape = hd_transition_log_get_shape(spec);
    const struct hd_transition_log from = hd_transition_log_get(shape, (void *)data);
    struct file file;
    void *memory = hd_alloc(lay_out(shape, NULL, &file), 1);
    if (!memory)
        return HD_ERR_NOMEM;
    lay_out(shape, memory, &file);
    collect_round(shape, &from, round, &file);
    const struct hd_dataset_rows rows = {.transitions = file.transitions,
                                         .frames = file.frames,
                                         .frame = file.frame,
                                         .obs = file.obs,
                                         .next_obs = file.next_obs,
                                         .action = file.action,
                                         .env = file.env,
                                         .episode = file.episode,
                                         .reward = file.reward,
                                         .done = file.done,
                                         .truncated = file.truncated};
    int status = hd_dataset_write(writer, &rows);
    hd_free(memory);
    return status;
}
