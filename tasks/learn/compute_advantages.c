/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `compute_advantages`: computes values, advantages and returns of a shard's samples under the
 * policy (docs/di-engine.md 3.4). The value of the observation after a sample is the value of the
 * next sample of its fragment; only fragments that end before their episode need one more, a
 * bootstrap value.
 *
 * An item is a block of samples whose observations pass through the net together. The last item is
 * the observations after fragments, and the only one with `values: collected`, where the values of
 * samples are those that acting computed; GPUs and recurrent nets compute them again. With
 * `estimator: vtrace` the policy's probabilities of the actions are computed as well. A recurrent
 * net's items are environment groups: each fragment goes through it as one sequence, from the state
 * with which it began to the observation after it.
 */
#include "kernels/learn/gae.h"
#include "kernels/learn/losses/softmax.h"
#include "kernels/learn/vtrace.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/base/builtin.h"
#include "tasks/learn/compute_advantages_internal.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/advantages.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"

#include <math.h>
#include <string.h>

static const struct hd_port ports[] = {
    [HD_ADVANTAGES_POLICY] = {"policy", "params", .mode = HD_READ},
    [HD_ADVANTAGES_TRAJECTORIES] = {"trajectories", "trajectories", .mode = HD_READ,
                                    .scope = HD_SCOPE_ALL},
    [HD_ADVANTAGES_NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [HD_ADVANTAGES_SCALE] = {"return_scale", "moments", .mode = HD_READ, .optional = true,
                             .scope = HD_SCOPE_FINISH},
    [HD_ADVANTAGES_TO] = {"advantages", "advantages", .mode = HD_WRITE, .scope = HD_SCOPE_FINISH},
    [HD_ADVANTAGES_RETURNS] = {"returns", "moments", .mode = HD_WRITE, .optional = true,
                               .scope = HD_SCOPE_FINISH},
    {0},
};

static const struct hd_option options[] = {
    {"values", "collected|computed", false}, {"estimator", "gae|vtrace", false}, {0}};

static const struct hd_field keys[] = {
    HD_FIELD(struct hd_compute_advantages, gamma, "policy.collect.discount_factor"),
    HD_FIELD(struct hd_compute_advantages, lambda, "policy.collect.gae_lambda"),
    {0},
};

static const struct hd_field vtrace_keys[] = {
    HD_FIELD(struct hd_compute_advantages, rho_max, "policy.learn.rho_clip_ratio"),
    HD_FIELD(struct hd_compute_advantages, c_max, "policy.learn.c_clip_ratio"),
    {0},
};

static int compute_advantages_declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[HD_ADVANTAGES_NORM]));
    HD_TRY(hd_moments_declare_number(setup, setup->specs[HD_ADVANTAGES_SCALE], false));
    return hd_moments_declare_number(setup, setup->specs[HD_ADVANTAGES_RETURNS], false);
}

/* Returns the most bootstrap values of an instance: fragments of a group that do not end with their
 * episode have L samples, except for the last one. */
static int64_t count_bootstraps(const struct hd_trajectories_shape *shape)
{
    return shape->groups * (shape->samples / shape->fragment + 1);
}

/* A group's fragments are all of one length (tasks/types/base/sequences.h). */
static int prepare_sequences(const struct hd_trajectories_shape *from,
                             struct hd_compute_advantages *args)
{
    args->steps = from->fragment + 1;
    args->block = from->envs * args->steps;
    args->blocks = from->groups;
    return HD_OK;
}

static bool has_option(const struct hd_setup *setup, const char *name, const char *value)
{
    const struct hd_node *option = hd_node_get(setup->options, name);
    return option && strcmp(option->text, value) == 0;
}

/* V-trace asks the net again what acting has computed, for the probabilities of its actions. */
static int prepare_vtrace(const struct hd_setup *setup, const struct hd_env_actions *actions,
                          struct hd_compute_advantages *args)
{
    if (has_option(setup, "values", "collected"))
        return hd_diag_add_error(setup->diag, hd_node_get(setup->options, "values")->location,
                                 "estimator: vtrace computes values by the present policy: leave "
                                 "`values: collected` out");
    if (actions->kind == HD_ENV_BOX || actions->dims > 1)
        return hd_diag_add_error(setup->diag, hd_node_get(setup->options, "estimator")->location,
                                 "estimator: vtrace takes actions that are one choice each");
    args->vtrace = true;
    hd_config_read(setup->config, vtrace_keys, args);
    return HD_OK;
}

/* Sets the blocks of samples that pass through the net. */
static void cut_samples(const struct hd_setup *setup, struct hd_compute_advantages *args)
{
    /* Passes of dense nets are too short to be cut. */
    const bool whole = hd_net_is_short_form(args->net) && hd_net_count_stages(args->net) == 1;
    args->block = whole ? args->samples : hd_learn_shape_read(setup->config).micro;
    args->block = args->block < args->samples ? args->block : args->samples;
    args->blocks = args->collected ? 0 : (args->samples + args->block - 1) / args->block;
}

static int compute_advantages_prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_config *config = setup->config;
    const struct hd_trajectories_shape *from =
        hd_trajectories_get_shape(setup->specs[HD_ADVANTAGES_TRAJECTORIES]);
    struct hd_compute_advantages *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->net = hd_params_get_net(setup->specs[HD_ADVANTAGES_POLICY]);
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[HD_ADVANTAGES_POLICY],
                                     HD_NO_BATCH_NORM_STATS));
    args->samples = hd_advantages_count_rows(setup->specs[HD_ADVANTAGES_TO]);
    hd_config_read(config, keys, args);
    if (setup->specs[HD_ADVANTAGES_SCALE]) /* else the key is told of as one that is not used */
        args->value_norm = hd_config_get_bool(config, "policy.learn.value_norm");
    args->after = count_bootstraps(from);
    if (has_option(setup, "estimator", "vtrace"))
        HD_TRY(prepare_vtrace(setup, &from->actions, args));
    if (hd_net_count_state(args->net) > 0)
        return prepare_sequences(from, args);
    args->collected = has_option(setup, "values", "collected");
    cut_samples(setup, args);
    HD_TRY(hd_net_prepare(args->net, args->block, 0));
    HD_TRY(hd_net_prepare(args->net, args->samples % args->block, 0));
    return hd_net_prepare(args->net, args->after, 0);
}

/* An item's work memory. */
struct work {
    float *value;     /* [rows] */
    float *log_ratio; /* [rows]: of V-trace */
    char *obs;        /* [rows][obs_bytes] */
    float *out;       /* [rows][outputs] */
    char *forward;
    float *begins, *state; /* of a recurrent net, as in struct hd_net_sequences */
};

static int64_t rows_of(const struct hd_compute_advantages *args, int64_t item)
{
    const int64_t left = args->samples - item * args->block;
    if (args->steps > 0)
        return args->block;
    return item == args->blocks ? args->after : left < args->block ? left : args->block;
}

static int64_t lay_out(const struct hd_compute_advantages *args, int64_t rows, void *memory,
                       struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    work->value = hd_arena_take(&arena, rows, sizeof *work->value);
    work->log_ratio = hd_arena_take(&arena, args->vtrace ? rows : 0, sizeof *work->log_ratio);
    work->obs = hd_arena_take(&arena, rows, (size_t)hd_net_get_obs_bytes(args->net));
    work->out = hd_arena_take(&arena, rows * hd_net_count_outputs(args->net), sizeof *work->out);
    const int64_t steps = args->steps, sequences = steps > 0 ? rows / steps : 0;
    work->forward =
        hd_arena_take(&arena, hd_net_get_forward_bytes(args->net, rows, steps > 0 ? steps : 1), 1);
    work->begins = hd_arena_take(&arena, sequences * steps, sizeof *work->begins);
    work->state =
        hd_arena_take(&arena, sequences * hd_net_count_state(args->net), sizeof *work->state);
    return arena.used;
}

static void compute_advantages_get_subtasks(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct hd_compute_advantages *args = memory;
    struct work unused;
    const int64_t block = lay_out(args, args->block, NULL, &unused);
    const int64_t after = args->steps > 0 ? 0 : lay_out(args, args->after, NULL, &unused);
    *subtasks_p = (struct hd_subtasks){.items = args->blocks + (args->steps == 0),
                                       .stages = 1,
                                       .work_bytes = block > after ? block : after};
}

/* -- Values ------------------------------------------------------------------------------------ */

static struct hd_trajectories group_of(const struct hd_view *from, int64_t sample, int64_t *row_p)
{
    const int64_t samples = hd_trajectories_get_shape(from->spec)->samples;
    *row_p = sample % samples;
    return hd_trajectories_get(from->spec, from->data, sample / samples);
}

/* Returns whether a fragment ends with the sample although its episode does not. */
static bool needs_bootstrap(const struct hd_view *from, int64_t sample)
{
    int64_t row;
    const struct hd_trajectories t = group_of(from, sample, &row);
    return t.end[row] != 0 && t.done[t.row[row]] == 0;
}

static void copy_obs(const struct hd_view *from, int64_t sample, int ahead, char *obs)
{
    int64_t row;
    const struct hd_trajectories t = group_of(from, sample, &row);
    hd_trajectories_copy_obs(hd_trajectories_get_shape(from->spec), &t, t.row[row], ahead, obs);
}

/* Gathers the observations after fragments. Rows of the last item that none needs hold the first
 * sample. */
static void fill_bootstrap_obs(const struct hd_compute_advantages *args, const struct hd_view *from,
                               char *obs)
{
    const int64_t bytes = hd_net_get_obs_bytes(args->net);
    int64_t n = 0;
    for (int64_t i = 0; i < args->samples; i++)
        if (needs_bootstrap(from, i))
            copy_obs(from, i, 1, obs + n++ * bytes);
    for (; n < args->after; n++)
        copy_obs(from, 0, 0, obs + n * bytes);
}

/* Gathers what a group's envs have seen, and the states and episodes with which they did. */
static void fill_sequences(const struct hd_compute_advantages *args, const struct hd_view *from,
                           int64_t group, const struct work *work)
{
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(from->spec);
    const struct hd_trajectories t = hd_trajectories_get(from->spec, from->data, group);
    const int64_t state = shape->sequences.state, bytes = shape->obs.obs_bytes;
    for (int64_t env = 0; env < shape->envs; env++) {
        memcpy(work->state + env * state, hd_trajectories_get_state(shape, &t, env, 0),
               (size_t)state * sizeof *work->state);
        for (int64_t i = 0; i < args->steps; i++) {
            const int64_t row = env * args->steps + i, step = env * shape->steps + i;
            const int after = i + 1 == args->steps;
            hd_trajectories_copy_obs(shape, &t, step - after, after, work->obs + row * bytes);
            work->begins[row] = i > 0 && hd_trajectories_begins(&t, step);
        }
    }
}

static void forward_sequences(const struct hd_compute_advantages *args, const struct hd_view *views,
                              int64_t group, const struct work *work)
{
    struct hd_obs_norm norm;
    const struct hd_net_sequences sequences = {
        .steps = args->steps, .state = work->state, .begins = work->begins};
    fill_sequences(args, &views[HD_ADVANTAGES_TRAJECTORIES], group, work);
    const struct hd_net_pass pass = {.params = views[HD_ADVANTAGES_POLICY].data,
                                     .norm =
                                         hd_moments_get_obs_norm(&views[HD_ADVANTAGES_NORM], &norm),
                                     .obs = work->obs,
                                     .rows = args->block,
                                     .sequences = &sequences,
                                     .work = work->forward};
    hd_net_forward(args->net, &pass, work->out);
}

static void forward(const struct hd_compute_advantages *args, const struct hd_view *views,
                    int64_t item, int64_t rows, const struct work *work)
{
    const struct hd_view *from = &views[HD_ADVANTAGES_TRAJECTORIES];
    const int64_t bytes = hd_net_get_obs_bytes(args->net);
    struct hd_obs_norm norm;
    if (item == args->blocks)
        fill_bootstrap_obs(args, from, work->obs);
    else
        for (int64_t i = 0; i < rows; i++)
            copy_obs(from, item * args->block + i, 0, work->obs + i * bytes);
    const struct hd_net_pass pass = {.params = views[HD_ADVANTAGES_POLICY].data,
                                     .norm =
                                         hd_moments_get_obs_norm(&views[HD_ADVANTAGES_NORM], &norm),
                                     .obs = work->obs,
                                     .rows = rows,
                                     .work = work->forward};
    hd_net_forward(args->net, &pass, work->out);
}

/* Returns the samples of an item that are not the last one's bootstrap values. */
static int64_t count_samples(const struct hd_compute_advantages *args)
{
    return args->steps > 0 ? args->block / args->steps * (args->steps - 1) : args->block;
}

/* Returns the row of its item that a sample is; in sequences the observation after it follows. */
static int64_t find_row(const struct hd_compute_advantages *args, int64_t sample)
{
    const int64_t i = sample % count_samples(args), fragment = args->steps - 1;
    return args->steps > 0 ? i / fragment * args->steps + i % fragment : i;
}

static void compute_log_ratios(const struct hd_compute_advantages *args, const struct hd_view *from,
                               int64_t item, const struct work *work)
{
    const int64_t logits = hd_trajectories_get_shape(from->spec)->logits, n = count_samples(args);
    const int64_t end = (item + 1) * n < args->samples ? (item + 1) * n : args->samples;
    for (int64_t sample = item * n; sample < end; sample++) {
        int64_t i;
        const struct hd_trajectories t = group_of(from, sample, &i);
        const int64_t row = find_row(args, sample), step = t.row[i];
        work->log_ratio[row] =
            hd_softmax_compute_log_ratio(work->out + row * hd_net_count_outputs(args->net),
                                         t.logit + step * logits, logits, t.action[step].choice);
    }
}

static int compute_advantages_body(struct hd_context *context, const struct hd_view *views,
                                   const void *memory)
{
    const struct hd_compute_advantages *args = memory;
    const int64_t rows = rows_of(args, context->item);
    const int64_t outputs = hd_net_count_outputs(args->net);
    struct work work;
    lay_out(args, rows, context->work, &work);
    if (args->steps > 0)
        forward_sequences(args, views, context->item, &work);
    else
        forward(args, views, context->item, rows, &work);
    for (int64_t i = 0; i < rows; i++)
        work.value[i] = work.out[i * outputs + outputs - 1];
    if (args->vtrace)
        compute_log_ratios(args, &views[HD_ADVANTAGES_TRAJECTORIES], context->item, &work);
    return HD_OK;
}

/* -- Targets ----------------------------------------------------------------------------------- */

/* The scratch of `finish`, with a row for each sample. */
struct rows {
    float *value, *next_value, *reward, *done, *end, *log_ratio;
};

static int64_t lay_out_rows(int64_t n, void *memory, struct rows *rows)
{
    struct hd_arena arena = {.memory = memory};
    rows->value = hd_arena_take(&arena, n, sizeof *rows->value);
    rows->next_value = hd_arena_take(&arena, n, sizeof *rows->next_value);
    rows->reward = hd_arena_take(&arena, n, sizeof *rows->reward);
    rows->done = hd_arena_take(&arena, n, sizeof *rows->done);
    rows->end = hd_arena_take(&arena, n, sizeof *rows->end);
    rows->log_ratio = hd_arena_take(&arena, n, sizeof *rows->log_ratio);
    return arena.used;
}

static int64_t compute_advantages_scratch(const void *memory)
{
    struct rows unused;
    return lay_out_rows(((const struct hd_compute_advantages *)memory)->samples, NULL, &unused);
}

static struct work work_of(const struct hd_compute_advantages *args,
                           const struct hd_context *context, int64_t item)
{
    struct work work;
    lay_out(args, rows_of(args, item), context->work_buffers[item], &work);
    return work;
}

/* Returns where a sample's value is; in sequences that of the observation after it follows. */
static const float *find_value(const struct hd_compute_advantages *args,
                               const struct hd_context *context, const struct hd_view *from,
                               int64_t sample)
{
    if (args->collected) {
        int64_t row;
        const struct hd_trajectories t = group_of(from, sample, &row);
        return t.value + t.row[row];
    }
    return work_of(args, context, sample / count_samples(args)).value + find_row(args, sample);
}

/* Fills the rows. Values are converted to units of rewards: `scale` times the net's. */
static void fill_rows(const struct hd_compute_advantages *args, const struct hd_context *context,
                      const struct hd_view *from, float scale, const struct rows *rows)
{
    const float *after = args->steps > 0 ? NULL : work_of(args, context, args->blocks).value;
    for (int64_t i = 0; i < args->samples; i++) {
        int64_t row;
        const struct hd_trajectories t = group_of(from, i, &row);
        rows->value[i] = *find_value(args, context, from, i) * scale;
        rows->reward[i] = t.reward[t.row[row]];
        rows->done[i] = t.done[t.row[row]];
        rows->end[i] = t.end[row];
        if (args->vtrace)
            rows->log_ratio[i] =
                work_of(args, context, i / count_samples(args)).log_ratio[find_row(args, i)];
    }
    for (int64_t i = 0; i < args->samples; i++) {
        const bool is_last = rows->end[i] != 0;
        rows->next_value[i] = rows->done[i] != 0 ? 0
                              : !is_last         ? rows->value[i + 1]
                              : after            ? *after++ * scale
                                                 : find_value(args, context, from, i)[1] * scale;
    }
}

/* Computes advantages, and writes the returns over the rewards. */
static void estimate(const struct hd_compute_advantages *args, const struct rows *rows,
                     float *advantage)
{
    const struct hd_vtrace vtrace = {.samples = {.n = args->samples,
                                                 .gamma = args->gamma,
                                                 .lambda = args->lambda,
                                                 .value = rows->value,
                                                 .next_value = rows->next_value,
                                                 .reward = rows->reward,
                                                 .done = rows->done,
                                                 .end = rows->end},
                                     .log_ratio = rows->log_ratio,
                                     .rho_max = args->rho_max,
                                     .c_max = args->c_max};
    const float *correction = args->vtrace ? rows->log_ratio : advantage;
    if (args->vtrace)
        hd_vtrace_compute(&vtrace, rows->log_ratio, advantage);
    else
        hd_gae_compute(&vtrace.samples, advantage);
    for (int64_t i = 0; i < args->samples; i++)
        rows->reward[i] = rows->value[i] + correction[i];
}

static int compute_advantages_finish(struct hd_context *context, const struct hd_view *views,
                                     const void *memory)
{
    const struct hd_compute_advantages *args = memory;
    const struct hd_view *scale = &views[HD_ADVANTAGES_SCALE],
                         *returns = &views[HD_ADVANTAGES_RETURNS];
    const struct hd_advantages advantages =
        hd_advantages_get(views[HD_ADVANTAGES_TO].spec, views[HD_ADVANTAGES_TO].data);
    const float unit =
        args->value_norm ? (float)hd_moments_get_deviation(scale->spec, scale->data) : 1;
    struct rows rows;
    lay_out_rows(args->samples, context->scratch, &rows);
    fill_rows(args, context, &views[HD_ADVANTAGES_TRAJECTORIES], unit, &rows);
    estimate(args, &rows, advantages.advantage);
    for (int64_t i = 0; i < args->samples; i++) {
        advantages.target[i] = rows.reward[i] / unit;
        advantages.value[i] = rows.value[i] / unit;
    }
    if (returns->data)
        hd_moments_compute(rows.reward, args->samples, 1,
                           hd_moments_get(returns->spec, returns->data));
    return HD_OK;
}

const struct hd_verb hd_verb_compute_advantages = {
    .name = "compute_advantages",
    .stream_id = 0xe707603eca47c6bc,
    .ports = ports,
    .options = options,
    .declare = compute_advantages_declare,
    .prepare = compute_advantages_prepare,
    .scratch = compute_advantages_scratch,
    .body = compute_advantages_body,
    .get_subtasks = compute_advantages_get_subtasks,
    .finish = compute_advantages_finish,
    .gpu = HD_ON_GPU(hd_compute_advantages_on_gpu),
    .help = "computes values, advantages and returns of the samples under the policy; values: "
            "collected takes the values that acting computed, estimator: vtrace makes up for a "
            "policy that has changed since then",
};
