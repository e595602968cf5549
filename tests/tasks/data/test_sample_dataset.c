/* SPDX-License-Identifier: Apache-2.0 */
/* sample_dataset: each epoch passes once over the data set by the lists of the sampler, the last
 * batch has what is left, and the submitter counts what the state holds. */
#include "kernels/learn/samples.h"
#include "kernels/replay/sampler.h"
#include "runtime/base/log.h"
#include "runtime/io/dataset.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/dataset.h"
#include "tasks/types/data/sampler_state.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/values.h"

#include <stdlib.h>

enum { DATASET, SAMPLER_STATE, STATS, BATCH, N_VALUES };
enum { FLOATS = 2, STACK = 2, FILES = 3, MOST_SHARDS = 6 };

static char folder[] = "/tmp/heddle-draw-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
}

/* -- A data set whose transition i leads from frames (i, i + 1) to (i + 1, i + 2), in which frame f
 * is (f, -f)  */

struct numbers {
    float frame[4096][FLOATS], reward[2048];
    int32_t obs[2048][STACK], next_obs[2048][STACK], action[2048], zero[2048];
    uint8_t done[2048], truncated[2048];
};

static void write_numbers(int64_t first, int64_t count, struct hd_dataset_writer *writer)
{
    static struct numbers n;
    for (int64_t i = 0; i < count + STACK; i++)
        for (int j = 0; j < FLOATS; j++)
            n.frame[i][j] = (float)((first + i) * (j ? -1 : 1));
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < STACK; k++) {
            n.obs[i][k] = i + k;
            n.next_obs[i][k] = i + k + 1;
        }
        n.action[i] = (int32_t)(first + i) % 2;
        n.reward[i] = (float)(first + i) / 2;
        n.done[i] = (first + i) % 5 == 0;
    }
    const struct hd_dataset_rows rows = {.transitions = count,
                                         .frames = count + STACK,
                                         .frame = n.frame,
                                         .obs = n.obs[0],
                                         .next_obs = n.next_obs[0],
                                         .action = n.action,
                                         .reward = n.reward,
                                         .env = n.zero,
                                         .episode = n.zero,
                                         .done = n.done,
                                         .truncated = n.truncated};
    ck_assert_int_eq(hd_dataset_write(writer, &rows), HD_OK);
}

static struct hd_dataset_info numbers_info(int64_t transitions)
{
    return (struct hd_dataset_info){.env_type = "cartpole",
                                    .env_id = "",
                                    .dims = 1,
                                    .shape = {FLOATS},
                                    .stack = STACK,
                                    .action_dims = 1,
                                    .actions = {2},
                                    .transitions = transitions};
}

static void make(const struct hd_dataset_info *info, int64_t files)
{
    struct hd_dataset_writer *writer;
    ck_assert_int_eq(hd_dataset_create(folder, info, files, &writer), HD_OK);
    for (int64_t i = 0; i < files; i++) {
        int64_t first = i * info->transitions / files;
        write_numbers(first, (i + 1) * info->transitions / files - first, writer);
    }
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
}

/* -- Drawing ----------------------------------------------------------------------------------- */

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], states[MOST_SHARDS], *ports[N_VALUES];
    char path[96], batch[48], tail[64];
};

static void world_open(struct world *w, int64_t shards, int64_t batch, const char *tail,
                       bool shuffle)
{
    static const struct hd_type *const types[] = {&hd_type_dataset, &hd_type_sampler_state,
                                                  &hd_type_scalars, &hd_type_batch};
    snprintf(w->path, sizeof w->path, "policy.collect.data_path=%s", folder);
    snprintf(w->batch, sizeof w->batch, "policy.learn.batch_size=%lld", (long long)batch);
    snprintf(w->tail, sizeof w->tail, "policy.learn.sampler.tail=%s", tail);
    const char *const sets[] = {w->path, w->batch, w->tail,
                                shuffle ? "policy.learn.sampler.shuffle=true"
                                        : "policy.learn.sampler.shuffle=false",
                                "env.frame_stack=2"};
    w->setup = setup_open(sets, 5);
    w->setup.shards = shards;
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve_at(&w->values[i], &w->setup, types[i], types[i]->name, NULL,
                         i == DATASET ? HD_GLOBAL : HD_SHARD);
        w->ports[i] = &w->values[i];
    }
    for (int s = 0; s < MOST_SHARDS; s++)
        value_open(&w->states[s], &w->setup, &hd_type_sampler_state, "sampler_state", NULL);
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_sample_dataset, &w->setup, w->ports, specs);
    ck_assert_int_eq(hd_verb_sample_dataset.declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, 0);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    for (int s = 0; s < MOST_SHARDS; s++)
        value_close(&w->states[s]);
    setup_close(&w->setup);
}

static double stat(const struct world *w, const char *name)
{
    const struct value *stats = &w->values[STATS];
    int field = hd_value_find_field(&stats->spec, name);
    ck_assert_int_ge(field, 0);
    return stats->spec.type->field(&stats->spec, stats->data, field);
}

/* Row `row` is transition `sample`. */
static void check_row(struct world *w, int64_t row, int64_t sample)
{
    const struct hd_transition_shape *shape = hd_batch_get_shape(&w->values[BATCH].spec);
    const struct hd_transitions rows =
        hd_batch_get_rows(&w->values[BATCH].spec, w->values[BATCH].data);
    const float *obs = (float *)rows.obs + row * STACK * FLOATS;
    const float *next = (float *)rows.next_obs + row * STACK * FLOATS;
    ck_assert_int_eq(shape->obs_bytes, STACK * FLOATS * 4);
    for (int64_t k = 0; k < STACK; k++) {
        const float now = (float)(sample + k), then = (float)(sample + k + 1);
        ck_assert(obs[k * FLOATS] == now && obs[k * FLOATS + 1] == -now);
        ck_assert(next[k * FLOATS] == then && next[k * FLOATS + 1] == -then);
    }
    ck_assert_int_eq(rows.action[row].choice, sample % 2);
    ck_assert_float_eq(rows.reward[row], (float)sample / 2);
    ck_assert_float_eq(rows.done[row], sample % 5 == 0);
}

/* Rows that are not used are zeros, so that nothing is computed with old content. */
static void check_unused(struct world *w, int64_t row)
{
    const struct hd_transitions rows =
        hd_batch_get_rows(&w->values[BATCH].spec, w->values[BATCH].data);
    const float *obs = (float *)rows.obs + row * STACK * FLOATS;
    const float *next = (float *)rows.next_obs + row * STACK * FLOATS;
    for (int64_t j = 0; j < STACK * FLOATS; j++)
        ck_assert(obs[j] == 0 && next[j] == 0);
    ck_assert(rows.action[row].choice == 0 && rows.reward[row] == 0 && rows.done[row] == 0);
}

/* Takes one batch of one shard and compares it with the shard's list of the epoch. */
static void draw(struct world *w, const struct hd_sampler *sampler, int64_t shard, int64_t epoch,
                 int64_t next)
{
    struct hd_context where = at(&w->setup, shard, 17);
    const struct value *batch = &w->values[BATCH];
    w->ports[SAMPLER_STATE] = &w->states[shard];
    memset(batch->data, 0xFF, (size_t)batch->spec.bytes);
    run(&hd_verb_sample_dataset, &w->setup, w->ports, &where);
    const int64_t size = hd_batch_get_shape(&batch->spec)->rows;
    const struct hd_batch_use use = hd_batch_get_use(&batch->spec, batch->data);
    int64_t left = hd_sampler_count(sampler, shard) - next, padded = 0;
    left = left < 0 ? 0 : left < size ? left : size;
    ck_assert_int_eq(*use.used, left);
    for (int64_t row = 0; row < left; row++) {
        bool padding;
        check_row(w, row, hd_sampler_get(sampler, epoch, shard, next + row, &padding));
        ck_assert_float_eq(use.weight[row], padding ? 0 : 1);
        padded += padding;
    }
    for (int64_t row = left; row < size; row++)
        check_unused(w, row);
    ck_assert(stat(w, "epoch") == (double)epoch && stat(w, "samples") == (double)left &&
              stat(w, "padding") == (double)padded);
    for (int64_t first = 0; first < size; first += 3)
        ck_assert_int_eq(hd_samples_count(*use.used, first, 3), left - first < 0   ? 0
                                                                : left - first < 3 ? left - first
                                                                                   : 3);
    value_save_load(&w->states[shard]);
}

static const struct draw_case {
    int64_t transitions, files, shards, batch;
    const char *tail;
    enum hd_sampler_tail how;
} cases[] = {
    {100, 3, 4, 8, "pad", HD_TAIL_PAD},        {101, 3, 4, 8, "pad", HD_TAIL_PAD},
    {101, 1, 4, 8, "drop_last", HD_TAIL_DROP}, {101, 5, 4, 5, "uneven", HD_TAIL_UNEVEN},
    {3, 2, 5, 4, "uneven", HD_TAIL_UNEVEN},    {3, 1, 5, 4, "pad", HD_TAIL_PAD},
    {64, 2, 1, 64, "pad", HD_TAIL_PAD},        {64, 2, 2, 64, "drop_last", HD_TAIL_DROP},
    {17, 1, 2, 8, "uneven", HD_TAIL_UNEVEN},
};

FIXTURE(setup, teardown)

TEST(epochs_go_through_the_sampler_s_lists, .runs = 2 * COUNT(cases))
{
    const struct draw_case *c = &cases[_i / 2];
    const struct hd_dataset_info info = numbers_info(c->transitions);
    static struct world w;
    make(&info, c->files);
    world_open(&w, c->shards, c->batch, c->tail, _i % 2);
    const struct hd_sampler sampler = {.seed = w.setup.seed,
                                       .samples = c->transitions,
                                       .shards = c->shards,
                                       .shuffle = _i % 2,
                                       .tail = c->how};
    void *args = prepare(&hd_verb_sample_dataset, &w.setup, w.ports);
    int64_t counted[2] = {0};
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t next = 0; next < hd_sampler_count_max(&sampler); next += c->batch) {
            ck_assert_int_eq(counted[HD_SAMPLER_STATE_EPOCH], epoch);
            for (int64_t shard = 0; shard < c->shards; shard++)
                draw(&w, &sampler, shard, epoch, next);
            for (const struct hd_counted_attribute *count = hd_verb_sample_dataset.counted;
                 count->attribute; count++) {
                int i = 0;
                while (strcmp(hd_type_sampler_state.counted[i], count->attribute) != 0)
                    i++;
                ck_assert_int_eq(count->port, SAMPLER_STATE);
                counted[i] = count->next(args, counted);
            }
        }
    ck_assert_int_eq(counted[HD_SAMPLER_STATE_EPOCH], 3);
    unprepare(&hd_verb_sample_dataset, args);
    world_close(&w);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static char said[8192];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", line);
}

/* Resolves a data set with one more option; a mistake is reported at the option's place. */
static void refused(const char *set, const char *expected)
{
    char path[96];
    snprintf(path, sizeof path, "policy.collect.data_path=%s", folder);
    const char *const sets[] = {"env.frame_stack=2", path, set ? set : "seed=0"};
    struct hd_setup s = setup_open(sets, set ? 3 : 2);
    struct value value = {
        .spec = {.name = "data", .type = &hd_type_dataset, .placement = HD_GLOBAL}};
    said[0] = '\0';
    ck_assert_int_eq(hd_type_dataset.resolve(&value.spec, &s), HD_ERR_INPUT);
    hd_log_set_sink(listen, NULL);
    hd_diag_report(s.diag);
    hd_log_set_sink(NULL, NULL);
    ck_assert_msg(strstr(said, expected) && strstr(said, "data_path"), "said %s, not %s", said,
                  expected);
    hd_type_dataset.release(&value.spec);
    setup_close(&s);
}

TEST(what_does_not_fit_is_told)
{
    struct hd_dataset_info info = numbers_info(10);
    refused(NULL, "cannot be used");
    refused("policy.collect.data_path=''", "no data set is given;");
    refused("policy.collect.data_path=/no/such/folder", "/no/such/folder cannot be used");
    make(&info, 1);
    refused("env.type=pixel_pong", "was recorded in env.type cartpole, env_id ''");
    refused("env.env_id=Other-v0", "env_id 'Other-v0'");
    refused("env.frame_stack=4", "are 2 frames, but env.frame_stack is 4");
    refused("policy.model.obs_shape=6", "8 bytes of floats, but policy.model.obs_shape means 12");
    refused("policy.model.obs_shape=[2,4,2]",
            "of floats, but policy.model.obs_shape means 8 of pixels");
    refused("policy.model.action_shape=3",
            "has 2 actions, but policy.model.action_shape means 3 actions");
}

TEST(draws_that_cannot_be_are_told)
{
    const struct hd_dataset_info info = numbers_info(3);
    static struct world w;
    struct hd_spec *specs[MAX_PORTS];
    void *args = NULL;
    make(&info, 1);
    world_open(&w, 5, 4, "drop_last", true);
    struct hd_setup step = step_setup(&hd_verb_sample_dataset, &w.setup, w.ports, specs);
    ck_assert_int_eq(hd_verb_sample_dataset.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(w.setup.diag), 1);
    unprepare(&hd_verb_sample_dataset, args);
    world_close(&w);
    struct value value = {.spec = {.name = "data", .type = &hd_type_dataset}}; /* per shard */
    char path[96];
    snprintf(path, sizeof path, "policy.collect.data_path=%s", folder);
    const char *const sets[] = {path, "env.frame_stack=2"};
    struct hd_setup s = setup_open(sets, 2);
    value.spec.placement = HD_SHARD;
    value.spec.location = s.location;
    ck_assert_int_eq(hd_type_dataset.resolve(&value.spec, &s), HD_ERR_INPUT);
    setup_close(&s);
}

TEST(another_data_set_does_not_load)
{
    struct hd_dataset_info info = numbers_info(10);
    static struct world w;
    make(&info, 1);
    world_open(&w, 1, 4, "pad", true);
    FILE *file = tmpfile();
    const struct value *dataset = &w.values[DATASET];
    ck_assert_int_eq(hd_value_save(&dataset->spec, dataset->data, file), HD_OK);
    rewind(file);
    ck_assert_int_eq(hd_value_load(&dataset->spec, dataset->data, file), HD_OK);
    world_close(&w);
    teardown();
    setup();
    info.transitions = 11;
    make(&info, 1);
    world_open(&w, 1, 4, "pad", true);
    rewind(file);
    ck_assert_int_eq(hd_value_load(&dataset->spec, dataset->data, file), HD_ERR_FORMAT);
    fclose(file);
    world_close(&w);
}
