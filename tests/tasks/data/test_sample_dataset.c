/* SPDX-License-Identifier: Apache-2.0 */
/* sample_dataset: each epoch passes once over the data set by the lists of the sampler, the last
 * batch has what is left, and the submitter counts what the state holds. */
#include "kernels/learn/samples.h"
#include "kernels/replay/sampler.h"
#include "runtime/io/dataset.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/dataset.h"
#include "tasks/types/data/sampler_state.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/world.h"

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
                                    .states_options = true,
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

static const struct step sample_dataset = {.verb = &hd_verb_sample_dataset, .ports = "stats"};

/* Returns a world of the data set that was made. */
static struct world *make_world(int64_t shard, int64_t shards)
{
    struct world *w = world_make(shard, shards);
    world_set(w, "policy.collect.data_path=%s; env.frame_stack=2", folder);
    return w;
}

static struct world *open_world(int64_t shard, int64_t shards, int batch, const char *tail,
                                bool shuffle)
{
    struct world *w = make_world(shard, shards);
    world_set(w, "policy.learn.batch_size=%d; policy.learn.sampler={tail: %s, shuffle: %s}", batch,
              tail, shuffle ? "true" : "false");
    world_open(w, &sample_dataset, NULL);
    return w;
}

/* Row `row` is transition `sample`. */
static void check_row(struct world *w, int64_t row, int64_t sample)
{
    const struct hd_transition_shape *shape = hd_batch_get_shape(&world_get(w, "batch")->spec);
    const struct hd_transitions rows = hd_batch_get_rows(INSTANCE(w, "batch"));
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
    const struct hd_transitions rows = hd_batch_get_rows(INSTANCE(w, "batch"));
    const float *obs = (float *)rows.obs + row * STACK * FLOATS;
    const float *next = (float *)rows.next_obs + row * STACK * FLOATS;
    for (int64_t j = 0; j < STACK * FLOATS; j++)
        ck_assert(obs[j] == 0 && next[j] == 0);
    ck_assert(rows.action[row].choice == 0 && rows.reward[row] == 0 && rows.done[row] == 0);
}

/* Takes one batch of one shard and compares it with the shard's list of the epoch. */
static void draw(struct world *w, const struct hd_sampler *sampler, int64_t epoch, int64_t next)
{
    const struct value *batch = world_get(w, "batch");
    world_run(w, &sample_dataset, 17);
    const int64_t size = hd_batch_get_shape(&batch->spec)->rows;
    const struct hd_batch_use use = hd_batch_get_use(&batch->spec, batch->data);
    int64_t left = hd_sampler_count(sampler, w->shard) - next, padded = 0;
    left = left < 0 ? 0 : left < size ? left : size;
    ck_assert_int_eq(*use.used, left);
    for (int64_t row = 0; row < left; row++) {
        bool padding;
        check_row(w, row, hd_sampler_get(sampler, epoch, w->shard, next + row, &padding));
        ck_assert_float_eq(use.weight[row], padding ? 0 : 1);
        padded += padding;
    }
    for (int64_t row = left; row < size; row++)
        check_unused(w, row);
    ck_assert(world_field(w, "stats", "epoch") == (double)epoch);
    ck_assert(world_field(w, "stats", "samples") == (double)left);
    ck_assert(world_field(w, "stats", "padding") == (double)padded);
    for (int64_t first = 0; first < size; first += 3)
        ck_assert_int_eq(hd_samples_count(*use.used, first, 3), left - first < 0   ? 0
                                                                : left - first < 3 ? left - first
                                                                                   : 3);
    value_save_load(world_get(w, "sampler_state"));
}

static const struct draw_case {
    int transitions, files, shards, batch;
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
    struct world *worlds[MOST_SHARDS];
    make(&info, c->files);
    for (int s = 0; s < c->shards; s++)
        worlds[s] = open_world(s, c->shards, c->batch, c->tail, _i % 2);
    const struct hd_sampler sampler = {.seed = worlds[0]->setup.seed,
                                       .samples = c->transitions,
                                       .shards = c->shards,
                                       .shuffle = _i % 2,
                                       .tail = c->how};
    void *args = world_prepare(worlds[0], &sample_dataset);
    int64_t counted[2] = {0};
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t next = 0; next < hd_sampler_count_max(&sampler); next += c->batch) {
            ck_assert_int_eq(counted[HD_SAMPLER_STATE_EPOCH], epoch);
            for (int s = 0; s < c->shards; s++)
                draw(worlds[s], &sampler, epoch, next);
            for (const struct hd_counted_attribute *count = hd_verb_sample_dataset.counted;
                 count->attribute; count++) {
                int i = 0;
                while (strcmp(hd_type_sampler_state.counted[i], count->attribute) != 0)
                    i++;
                ck_assert_str_eq(hd_verb_sample_dataset.ports[count->port].name, "sampler_state");
                counted[i] = count->next(args, counted);
            }
        }
    ck_assert_int_eq(counted[HD_SAMPLER_STATE_EPOCH], 3);
    world_release(&sample_dataset, args);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

/* Resolves a data set with other options; a mistake is told at the place of its key. */
static void refused(const char *sets, const char *names)
{
    struct world *w = make_world(0, 2);
    if (sets)
        world_set(w, "%s", sets);
    world_open(w, NULL);
    struct hd_spec spec = {.name = "data", .type = &hd_type_dataset, .placement = HD_GLOBAL};
    ck_assert_int_eq(hd_type_dataset.resolve(&spec, &w->setup), HD_ERR_INPUT);
    check_names(hd_diag_get_line(w->setup.diag, 0), "policy.collect.data_path");
    check_names(hd_diag_get_line(w->setup.diag, 0), names);
    hd_type_dataset.release(&spec);
}

TEST(what_does_not_fit_is_told)
{
    struct hd_dataset_info info = numbers_info(10);
    refused(NULL, folder);
    refused("policy.collect.data_path=''", "--set:6:");
    refused("policy.collect.data_path=/no/such/folder", "/no/such/folder");
    make(&info, 1);
    refused("env.type=pixel_pong", "env.type cartpole|env_id ''");
    refused("env.env_id=Other-v0", "env_id 'Other-v0'");
    refused("env.frame_stack=4", "2 frames|env.frame_stack is 4");
    refused("policy.model.obs_shape=6", "[4] floats|policy.model.obs_shape means [6]");
    refused("policy.model.obs_shape=[2,4,2]",
            "[4] floats|policy.model.obs_shape means [2, 4, 2] pixels");
    refused("env.options={velocities: false}", "env.options {}|{velocities: false}");
    refused("policy.model.action_shape=3",
            "2 actions|policy.model.action_shape and policy.action_space mean 3");
}

TEST(draws_that_cannot_be_are_told)
{
    const struct hd_dataset_info info = numbers_info(3);
    make(&info, 1);
    struct world *w = open_world(0, 5, 4, "drop_last", true);
    world_mistake(w, &sample_dataset);
    ck_assert_int_eq(hd_diag_count(w->setup.diag), 1);
    struct hd_spec per_shard = {
        .name = "data", .type = &hd_type_dataset, .location = w->setup.location};
    ck_assert_int_eq(hd_type_dataset.resolve(&per_shard, &w->setup), HD_ERR_INPUT);
}

TEST(a_data_set_without_transitions_is_told)
{
    const struct hd_dataset_info info = numbers_info(0);
    make(&info, 1);
    struct world *w = open_world(0, 2, 4, "pad", true);
    check_names(world_mistake(w, &sample_dataset), "policy.collect.data_path|no transitions");
}

TEST(another_data_set_does_not_load)
{
    struct hd_dataset_info info = numbers_info(10);
    make(&info, 1);
    FILE *file = tmpfile();
    struct world *w = open_world(0, 1, 4, "pad", true);
    ck_assert_int_eq(hd_value_save(INSTANCE(w, "dataset"), file), HD_OK);
    rewind(file);
    ck_assert_int_eq(hd_value_load(INSTANCE(w, "dataset"), file), HD_OK);
    teardown();
    setup();
    info.transitions = 11;
    make(&info, 1);
    w = open_world(0, 1, 4, "pad", true);
    rewind(file);
    ck_assert_int_eq(hd_value_load(INSTANCE(w, "dataset"), file), HD_ERR_FORMAT);
    fclose(file);
}
