/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `sample_dataset`: takes the next batch of a shard's list of samples, which a distributed
 * sampler makes for each epoch of a data set (kernels/replay/sampler.h). An epoch ends with the
 * longest list of any shard: its last batch has the samples that are left, and a shard whose list
 * ended earlier takes batches without samples. Samples that stand in for missing ones are learned
 * from, as in PyTorch, but weigh nothing in statistics. */
#include "kernels/replay/sampler.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/dataset.h"
#include "tasks/types/data/sampler_state.h"
#include "tasks/types/output/scalars.h"

#include <inttypes.h>
#include <string.h>

enum { DATASET, SAMPLER_STATE, STATS, BATCH };

static const struct hd_port ports[] = {
    [DATASET] = {"dataset", "dataset", .mode = HD_READ},
    [SAMPLER_STATE] = {"sampler_state", "sampler_state", .mode = HD_UPDATE},
    [STATS] = {"stats", "scalars", .mode = HD_UPDATE, .none = true, .optional = true},
    [BATCH] = {"batch", "batch", .mode = HD_WRITE},
    {0},
};

/* Statistics of the last batch; over shards samples and padding are added. */
enum { EPOCH, SAMPLES, PADDING, N_FIELDS };
static const struct hd_scalar_field fields[N_FIELDS] = {
    [EPOCH] = {"epoch", HD_MAX, 1},
    [SAMPLES] = {"samples", HD_SUM, 1},
    [PADDING] = {"padding", HD_SUM, 1},
};

struct args {
    struct hd_sampler sampler;
    int64_t rows;
    int64_t max_length; /* length of the longest list of a shard */
};

static int sample_dataset_declare(const struct hd_setup *setup)
{
    return hd_scalars_declare(setup, setup->specs[STATS], "sampler", fields, N_FIELDS);
}

static enum hd_sampler_tail tail_of(const struct hd_config *config)
{
    const char *tail = hd_config_get_text(config, "policy.learn.sampler.tail");
    return strcmp(tail, "pad") == 0      ? HD_TAIL_PAD
           : strcmp(tail, "uneven") == 0 ? HD_TAIL_UNEVEN
                                         : HD_TAIL_DROP;
}

static int check(const struct hd_setup *setup, const struct args *args)
{
    if (hd_batch_get_shape(setup->specs[BATCH])->nstep != 1)
        return hd_diag_add_error(setup->diag,
                                 hd_config_locate(setup->config, "policy.nstep", setup->location),
                                 "policy.nstep: recorded transitions are of 1 step, found %" PRId64,
                                 hd_batch_get_shape(setup->specs[BATCH])->nstep);
    if (args->sampler.samples == 0)
        return hd_diag_add_error(
            setup->diag,
            hd_config_locate(setup->config, "policy.collect.data_path", setup->location),
            "policy.collect.data_path: '%s' has no transitions", setup->specs[DATASET]->name);
    if (args->max_length == 0)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "'%s' has %" PRId64 " transitions, of which %" PRId64
                                 " shards get none with policy.learn.sampler.tail drop_last",
                                 setup->specs[DATASET]->name, args->sampler.samples, setup->shards);
    return HD_OK;
}

static int sample_dataset_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->sampler = (struct hd_sampler){
        .seed = setup->seed,
        .samples = hd_dataset_get_info(hd_spec_get_dataset(setup->specs[DATASET]))->transitions,
        .shards = setup->shards,
        .shuffle = hd_config_get_bool(setup->config, "policy.learn.sampler.shuffle"),
        .tail = tail_of(setup->config),
    };
    args->rows = hd_batch_get_shape(setup->specs[BATCH])->rows;
    args->max_length = hd_sampler_count_max(&args->sampler);
    return check(setup, args);
}

/* -- What the submitter counts ----------------------------------------------------------------- */

static int64_t next_batches(const void *args, const int64_t *counted)
{
    (void)args;
    return counted[HD_SAMPLER_STATE_BATCHES] + 1;
}

static int64_t next_epoch(const void *memory, const int64_t *counted)
{
    const struct args *args = memory;
    return counted[HD_SAMPLER_STATE_BATCHES] / ((args->max_length + args->rows - 1) / args->rows);
}

static const struct hd_counted_attribute counted[] = {
    {SAMPLER_STATE, "batches", next_batches}, {SAMPLER_STATE, "epoch", next_epoch}, {0}};

/* -- Drawing ----------------------------------------------------------------------------------- */

/* A batch that is being filled. */
struct batch_writer {
    const struct hd_dataset *dataset;
    const struct hd_transition_shape *shape;
    struct hd_transitions rows;
    struct hd_batch_use use;
};

static void copy_obs(const struct hd_dataset_info *info, const struct hd_dataset_rows *from,
                     const int32_t *frames, char *obs)
{
    const size_t bytes = (size_t)hd_dataset_get_frame_bytes(info);
    for (int64_t k = 0; k < info->stack; k++)
        memcpy(obs + (size_t)k * bytes, (const char *)from->frame + (size_t)frames[k] * bytes,
               bytes);
}

static void fill_row(const struct batch_writer *writer, int64_t row, int64_t sample)
{
    const struct hd_dataset_info *info = hd_dataset_get_info(writer->dataset);
    const struct hd_dataset_rows *from = hd_dataset_find(writer->dataset, sample);
    const int64_t at = sample - from->first, bytes = writer->shape->obs_bytes;
    const int64_t dims = writer->shape->dims;
    copy_obs(info, from, from->obs + at * info->stack, (char *)writer->rows.obs + row * bytes);
    copy_obs(info, from, from->next_obs + at * info->stack,
             (char *)writer->rows.next_obs + row * bytes);
    memcpy(writer->rows.action + row * dims, (const char *)from->action + at * dims * 4,
           (size_t)dims * sizeof *writer->rows.action);
    writer->rows.reward[row] = from->reward[at];
    writer->rows.done[row] = from->done[at] ? 1 : 0;
}

/* Fills a row that nothing is learned from with zeros, so that its loss is a finite number. */
static void clear_row(const struct batch_writer *writer, int64_t row)
{
    const int64_t bytes = writer->shape->obs_bytes, dims = writer->shape->dims;
    memset((char *)writer->rows.obs + row * bytes, 0, (size_t)bytes);
    memset((char *)writer->rows.next_obs + row * bytes, 0, (size_t)bytes);
    memset(writer->rows.action + row * dims, 0, (size_t)dims * sizeof *writer->rows.action);
    writer->rows.reward[row] = writer->rows.done[row] = writer->use.weight[row] = 0;
}

static void advance(const struct args *args, struct hd_sampler_state *state)
{
    state->next += args->rows;
    if (state->next < args->max_length)
        return;
    state->next = 0;
    state->epoch++;
}

static int sample_dataset_body(struct hd_context *context, const struct hd_view *views,
                               const void *memory)
{
    const struct args *args = memory;
    struct hd_sampler_state *state = views[SAMPLER_STATE].data;
    const struct batch_writer writer = {
        .dataset = hd_spec_get_dataset(views[DATASET].spec),
        .shape = hd_batch_get_shape(views[BATCH].spec),
        .rows = hd_batch_get_rows(views[BATCH].spec, views[BATCH].data),
        .use = hd_batch_get_use(views[BATCH].spec, views[BATCH].data),
    };
    if (state->next >= args->max_length) /* as only a checkpoint could say */
        return hd_body_fail(context, "'%s' is at entry %" PRId64 " of a list of %" PRId64,
                            views[SAMPLER_STATE].spec->name, state->next, args->max_length);
    const int64_t left = hd_sampler_count(&args->sampler, context->shard) - state->next;
    int64_t used = left < 0 ? 0 : left < args->rows ? left : args->rows, padded = 0;
    for (int64_t row = 0; row < used; row++) {
        bool padding;
        int64_t sample = hd_sampler_get(&args->sampler, state->epoch, context->shard,
                                        state->next + row, &padding);
        fill_row(&writer, row, sample);
        writer.use.weight[row] = padding ? 0 : 1;
        padded += padding;
    }
    for (int64_t row = used; row < args->rows; row++)
        clear_row(&writer, row);
    *writer.use.used = used;
    const double values[N_FIELDS] = {(double)state->epoch, (double)used, (double)padded};
    for (int i = 0; views[STATS].data && i < N_FIELDS; i++)
        hd_scalars_push(views[STATS].spec, views[STATS].data, i, values[i], 1);
    advance(args, state);
    return HD_OK;
}

const struct hd_verb hd_verb_sample_dataset = {
    .name = "sample_dataset",
    .stream_id = 0x0cba20b02851c259,
    .ports = ports,
    .counted = counted,
    .declare = sample_dataset_declare,
    .prepare = sample_dataset_prepare,
    .body = sample_dataset_body,
    .help = "takes the next batch of a data set, which is distributed to the shards epoch by epoch",
};
