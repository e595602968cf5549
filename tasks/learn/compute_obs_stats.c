/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `compute_obs_stats`: computes the moments of policy.collect.obs_samples observations of a
 * collect, at equal distances: of the samples of trajectories, or, off-policy, of all that the envs
 * showed. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/base/builtin.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/output/moments.h"

#include <string.h>

enum { TRAJECTORIES, TRANSITIONS, SEEN };

static const struct hd_port ports[] = {
    [TRAJECTORIES] = {"trajectories", "trajectories", .mode = HD_READ, .optional = true},
    [TRANSITIONS] = {"transitions", "transition_block", .mode = HD_READ, .optional = true},
    [SEEN] = {"obs_stats", "moments", .mode = HD_WRITE},
    {0},
};

struct args {
    struct hd_obs_shape obs;
    int64_t samples; /* or frames, off-policy the most */
    int64_t rows, elements;
    bool transitions;
};

static int compute_obs_stats_declare(const struct hd_setup *setup)
{
    return hd_moments_declare_obs(setup, setup->specs[SEEN]);
}

static int check_ports(const struct hd_setup *setup)
{
    const struct hd_spec *transitions = setup->specs[TRANSITIONS];
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    if (!setup->specs[TRAJECTORIES] == !transitions)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "compute_obs_stats needs either trajectories or transitions");
    HD_TRY(hd_obs_refuse_parts(setup->config, "policy.collect.normalize_obs", setup->location,
                               "observations of one array are normalised", setup->diag));
    if (transitions && (obs.u8 || obs.stack > 1))
        return hd_diag_add_error(
            setup->diag,
            hd_config_locate(setup->config, "policy.collect.normalize_obs", setup->location),
            "policy.collect.normalize_obs: off-policy, observations of one frame of numbers are "
            "normalised, not %s",
            obs.u8 ? "pictures" : "stacks of frames (env.frame_stack)");
    return HD_OK;
}

static int compute_obs_stats_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(check_ports(setup));
    args->transitions = setup->specs[TRANSITIONS] != NULL;
    args->obs = hd_obs_shape_read(setup->config);
    args->samples = args->transitions
                        ? hd_transition_block_get_shape(setup->specs[TRANSITIONS])->frames
                        : hd_minibatch_split_read(setup->config).samples;
    args->elements = hd_moments_count_elements(setup->specs[SEEN]);
    args->rows = hd_config_get_int(setup->config, "policy.collect.obs_samples");
    args->rows = args->rows < args->samples ? args->rows : args->samples;
    return HD_OK;
}

/* Work memory: observations of bytes are added one at a time; observations of floats, which are
 * small, are gathered first. */
struct work {
    char *obs;
    uint32_t *sum, *square;
};

static int64_t lay_out(const struct args *args, void *memory, struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t sums = args->obs.u8 ? args->elements : 0;
    work->obs = hd_arena_take(&arena, args->obs.u8 ? 1 : args->rows, (size_t)args->obs.obs_bytes);
    work->sum = hd_arena_take(&arena, sums, sizeof *work->sum);
    work->square = hd_arena_take(&arena, sums, sizeof *work->square);
    return arena.used;
}

static int64_t compute_obs_stats_scratch(const void *args)
{
    struct work unused;
    return lay_out(args, NULL, &unused);
}

static void copy_obs(const struct hd_view *from, int64_t sample, void *obs)
{
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(from->spec);
    const struct hd_trajectories t =
        hd_trajectories_get(from->spec, from->data, sample / shape->samples);
    hd_trajectories_copy_obs(shape, &t, t.row[sample % shape->samples], 0, obs);
}

/* Off-policy an observation is a frame of floats. */
static void compute_frame_stats(const struct args *args, const struct hd_view *from, char *obs,
                                struct hd_moments moments)
{
    const struct hd_transition_block_shape *shape = hd_transition_block_get_shape(from->spec);
    const struct hd_transition_block block = hd_transition_block_get(shape, from->data);
    const int64_t frames = *block.n_frames, rows = args->rows < frames ? args->rows : frames;
    for (int64_t i = 0; i < rows; i++)
        memcpy(obs + i * shape->frame_bytes, block.frames + i * frames / rows * shape->frame_bytes,
               (size_t)shape->frame_bytes);
    hd_moments_compute((const float *)obs, rows, args->elements, moments);
}

static int compute_obs_stats_body(struct hd_context *context, const struct hd_view *views,
                                  const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *seen = &views[SEEN];
    const struct hd_moments moments = hd_moments_get(seen->spec, seen->data);
    struct work work;
    lay_out(args, context->scratch, &work);
    if (args->transitions) {
        compute_frame_stats(args, &views[TRANSITIONS], work.obs, moments);
        return HD_OK;
    }
    if (args->obs.u8) {
        memset(work.sum, 0, (size_t)args->elements * sizeof *work.sum);
        memset(work.square, 0, (size_t)args->elements * sizeof *work.square);
    }
    for (int64_t i = 0; i < args->rows; i++) {
        char *obs = work.obs + (args->obs.u8 ? 0 : i * args->obs.obs_bytes);
        copy_obs(&views[TRAJECTORIES], i * args->samples / args->rows, obs);
        if (args->obs.u8)
            hd_moments_add_bytes((const uint8_t *)obs, args->elements, work.sum, work.square);
    }
    if (args->obs.u8)
        hd_moments_finish_bytes(work.sum, work.square, args->rows, args->elements, moments);
    else
        hd_moments_compute((const float *)work.obs, args->rows, args->elements, moments);
    return HD_OK;
}

#if HD_CUDA
struct work_on_gpu {
    char *obs; /* [rows][obs_bytes] */
    uint32_t *scratch;
};

static int64_t lay_out_on_gpu(const struct args *args, void *memory, struct work_on_gpu *work)
{
    struct hd_arena arena = {.memory = memory};
    work->obs = hd_arena_take(&arena, args->rows, (size_t)args->obs.obs_bytes);
    work->scratch = hd_arena_take(&arena, hd_moments_get_scratch_bytes(args->elements), 1);
    return arena.used;
}

static int64_t scratch_on_gpu(const void *args)
{
    struct work_on_gpu unused;
    return lay_out_on_gpu(args, NULL, &unused);
}

static int compute_obs_stats_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                         const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *seen = &views[SEEN];
    const struct hd_moments moments = hd_moments_get(seen->spec, seen->data);
    const struct hd_steps steps =
        hd_trajectories_get_steps(views[TRAJECTORIES].spec, views[TRAJECTORIES].data);
    struct work_on_gpu work;
    lay_out_on_gpu(args, context->scratch, &work);
    HD_TRY(
        hd_steps_gather_obs_cuda(&steps, 0, args->samples, args->rows, work.obs, context->stream));
    if (args->obs.u8)
        return hd_moments_compute_bytes_cuda((const uint8_t *)work.obs, args->rows, args->elements,
                                             work.scratch, moments, context->stream);
    return hd_moments_compute_cuda((const float *)work.obs, args->rows, args->elements, moments,
                                   context->stream);
}

static bool supports(const void *args)
{
    return !((const struct args *)args)->transitions;
}

static const struct hd_gpu_verb on_gpu = {.body = compute_obs_stats_body_on_gpu,
                                          .supports = supports,
                                          .scratch = scratch_on_gpu,
                                          .graph_capturable = true};
#endif

const struct hd_verb hd_verb_compute_obs_stats = {
    .name = "compute_obs_stats",
    .stream_id = 0x5191e5c0dde92859,
    .ports = ports,
    .declare = compute_obs_stats_declare,
    .prepare = compute_obs_stats_prepare,
    .scratch = compute_obs_stats_scratch,
    .body = compute_obs_stats_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "computes the moments of a collect's observations",
};
