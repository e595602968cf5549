/* SPDX-License-Identifier: Apache-2.0 */
/* record against a naive player (tests/tasks/collect/naive.h), read back from the files of the data
 * set. */
#include "runtime/base/log.h"
#include "runtime/io/dataset.h"
#include "tasks/output/inspect.h"
#include "tasks/types/data/transition_log.h"
#include "tasks/types/learn/params.h"
#include "tests/tasks/collect/naive.h"
#include "tests/tasks/values.h"

#include <stdlib.h>

enum { POLICY, ENVS, TRANSITION_LOG, N_VALUES };

#define NET "policy.model.action_shape=3", "policy.model.encoder_hidden_size_list=[4,4,8]"

static const struct record_case {
    int64_t envs, transitions, round_bytes, rounds;
    const char *epsilon, *set[5];
} cases[] = {
    {3, 700, 1 << 20, 1, "0", {"env.type=cartpole"}},
    {4, 701, 4 * 16 * 50, 4, "0.3", {"env.type=cartpole"}},
    {2, 333, 2 * 16 * 21, 8, "1", {"env.frame_stack=3", "policy.model.obs_shape=12"}},
    {3,
     200,
     3 * 1440 * 20,
     4,
     "0.25",
     {"env.type=blink", "env.frame_stack=4", "policy.model.obs_shape=[4,36,40]", NET}},
    {5, 3, 1, 1, "0.5", {"env.type=cartpole"}},
};

enum { N_CASES = sizeof cases / sizeof *cases };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[MAX_PORTS]; /* those behind: absent */
    struct hd_document *document;
};

/* The step's own options, as they stand in a graph. */
static const struct hd_node *options(struct world *w, const struct record_case *c)
{
    const struct hd_source_location location = {"graph.yaml", 1, 1};
    char transitions[32];
    snprintf(transitions, sizeof transitions, "%lld", (long long)c->transitions);
    ck_assert_int_eq(hd_document_create(&w->document), HD_OK);
    struct hd_node *map = hd_node_create_map(w->document, location);
    hd_node_put(w->document, map, "transitions",
                hd_node_create_scalar(w->document, location, transitions));
    hd_node_put(w->document, map, "epsilon",
                hd_node_create_scalar(w->document, location, c->epsilon));
    return map;
}

static void world_open(struct world *w, const struct record_case *c)
{
    static const struct hd_type *const types[] = {&hd_type_params, &hd_type_envs,
                                                  &hd_type_transition_log};
    static const char *const names[] = {"policy", "envs", "recording"};
    const char *sets[6];
    char envs[64];
    int n = 0;
    snprintf(envs, sizeof envs, "env.collector_env_num=%lld", (long long)c->envs);
    sets[n++] = envs;
    for (int i = 0; i < 5 && c->set[i]; i++)
        sets[n++] = c->set[i];
    memset(w->ports, 0, sizeof w->ports);
    w->setup = setup_open(sets, n);
    w->setup.options = options(w, c);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_record, &w->setup, w->ports, specs);
    ck_assert_int_eq(
        hd_transition_log_declare(&step, specs[TRANSITION_LOG], c->transitions, c->round_bytes),
        HD_OK);
    ck_assert_int_eq(hd_verb_record.declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, 0);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    hd_document_destroy(w->document);
    setup_close(&w->setup);
}

static struct hd_dataset_info describe(const struct world *w)
{
    struct hd_dataset_info info = {.seed = 5, .policy = 6, .epsilon = 7};
    hd_transition_log_describe(&w->values[TRANSITION_LOG].spec, &w->values[ENVS].spec, &info);
    return info;
}

/* Plays all rounds into files of `dir`. Returns the episodes that ended. */
static int64_t record(struct world *w, const char *dir)
{
    const struct hd_dataset_info info = describe(w);
    const struct value *log = &w->values[TRANSITION_LOG];
    struct hd_dataset_writer *writer;
    const int64_t rounds = hd_transition_log_get_rounds(&log->spec);
    int64_t episodes = 0;
    double returns = 0;
    ck_assert_int_eq(hd_dataset_create(dir, &info, rounds, &writer), HD_OK);
    for (int64_t round = 0; round < rounds; round++) {
        struct hd_context where = at(&w->setup, 0, round);
        memset(log->data, 0xFF, (size_t)log->spec.bytes);
        run(&hd_verb_record, &w->setup, w->ports, &where);
        value_save_load(&w->values[ENVS]);
        hd_transition_log_add_episodes(&log->spec, log->data, &episodes, &returns);
        ck_assert_int_eq(hd_transition_log_write(&log->spec, log->data, round, writer), HD_OK);
    }
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
    return episodes;
}

/* -- The naive player: sample t E + e is step t of env e --------------------------------------- */

static struct naive *naive_player(struct world *w, double epsilon)
{
    const struct hd_envs_shape *shape = hd_envs_get_shape(&w->values[ENVS].spec);
    struct naive *naive = hd_alloc(1, sizeof *naive);
    naive->n_sample = naive->envs = shape->envs; /* fragments of one step */
    naive->nstep = 1;
    naive->epsilon = epsilon;
    naive->shape = shape;
    naive->net = hd_params_get_net(&w->values[POLICY].spec);
    naive->params = w->values[POLICY].data;
    naive->seed = w->setup.seed;
    const struct hd_transition_log_shape *all =
        hd_transition_log_get_shape(&w->values[TRANSITION_LOG].spec);
    naive_open(naive, all->rounds * all->steps * all->envs);
    return naive;
}

static void naive_rounds(struct naive *naive, const struct world *w)
{
    const struct hd_transition_log_shape *shape =
        hd_transition_log_get_shape(&w->values[TRANSITION_LOG].spec);
    for (int64_t round = 0; round < shape->rounds; round++) {
        const struct hd_context where = at(&w->setup, 0, round);
        for (int64_t t = 0; t < shape->steps; t++) {
            int32_t action[MAX_ENVS];
            int64_t collected = 0;
            naive_greedy(naive, action);
            for (int64_t e = 0; e < naive->envs; e++) {
                uint32_t item = 2 * (uint32_t)(t * naive->envs + e);
                if (hd_rng_draw_uniform(&where.rng, item) < naive->epsilon)
                    action[e] = (int32_t)hd_rng_draw_below(&where.rng, item + 1,
                                                           naive->shape->frame.actions.n[0]);
            }
            for (int64_t e = 0; e < naive->envs; e++)
                naive_step_env(naive, e, action[e], &collected);
        }
    }
}

/* -- What the files hold ----------------------------------------------------------------------- */

static void check_obs(const struct hd_dataset_info *info, const struct hd_dataset_rows *rows,
                      const int32_t *obs, const unsigned char *wanted)
{
    const int64_t bytes = hd_dataset_get_frame_bytes(info);
    for (int64_t k = 0; k < info->stack; k++)
        ck_assert_mem_eq((const char *)rows->frame + obs[k] * bytes, wanted + k * bytes,
                         (size_t)bytes);
}

static void check_row(const struct hd_dataset_info *info, const struct hd_dataset_rows *rows,
                      int64_t i, const struct naive_sample *wanted)
{
    check_obs(info, rows, rows->obs + i * info->stack, wanted->obs);
    check_obs(info, rows, rows->next_obs + i * info->stack, wanted->next_obs);
    ck_assert_int_eq(((const int32_t *)rows->action)[i], wanted->action);
    ck_assert_double_eq((double)rows->reward[i], wanted->reward[0]);
    ck_assert_int_eq(rows->done[i], wanted->done);
}

/* Every transition is the naive player's next one of its env; each env has its share; no frame is
 * there for nothing. Returns the ends of episodes. */
static int64_t check_all(const struct hd_dataset *dataset, const struct naive *naive)
{
    const struct hd_dataset_info *info = hd_dataset_get_info(dataset);
    int64_t played[MAX_ENVS] = {0}, episode[MAX_ENVS] = {0}, ends = 0;
    const struct hd_dataset_rows *rows = NULL;
    for (int64_t i = 0; i < info->transitions; i++) {
        const bool fresh = rows != hd_dataset_find(dataset, i);
        rows = hd_dataset_find(dataset, i);
        const int64_t at = i - rows->first, env = rows->env[at];
        ck_assert(fresh || at == 0 || env >= rows->env[at - 1]);
        check_row(info, rows, at, &naive->samples[played[env]++ * naive->envs + env]);
        ck_assert_int_eq(rows->episode[at], episode[env]);
        episode[env] += rows->done[at];
        ends += rows->done[at];
        if (!fresh)
            continue;
        char *used = hd_alloc(rows->frames, 1);
        for (int64_t j = 0; j < rows->transitions * info->stack; j++)
            used[rows->obs[j]] = used[rows->next_obs[j]] = 1;
        for (int64_t f = 0; f < rows->frames; f++)
            ck_assert_int_eq(used[f], 1);
        hd_free(used);
    }
    for (int64_t env = 0; env < naive->envs; env++)
        ck_assert_int_eq(played[env],
                         info->transitions / naive->envs + (env < info->transitions % naive->envs));
    return ends;
}

static void remove_folder(const char *path)
{
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", path);
    ck_assert_int_eq(system(command), 0);
}

TEST(what_was_played_is_recorded, .runs = N_CASES)
{
    const struct record_case *c = &cases[_i];
    char dir[] = "/tmp/heddle-record-XXXXXX";
    struct world w;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    world_open(&w, c);
    ck_assert_int_eq(hd_transition_log_get_rounds(&w.values[TRANSITION_LOG].spec), c->rounds);
    struct naive *naive = naive_player(&w, atof(c->epsilon));
    const int64_t episodes = record(&w, dir);
    naive_rounds(naive, &w);
    struct hd_dataset *dataset;
    ck_assert_int_eq(hd_dataset_open(dir, &dataset), HD_OK);
    const struct hd_dataset_info *info = hd_dataset_get_info(dataset);
    ck_assert_str_eq(info->env_type, naive->shape->env->name);
    ck_assert_int_eq(info->transitions, c->transitions);
    ck_assert_int_eq(info->actions[0], naive->shape->frame.actions.n[0]);
    ck_assert(info->seed == 5 && info->policy == 6 && info->epsilon == 7);
    /* The last round may be played further than it is written. */
    ck_assert_int_le(check_all(dataset, naive), episodes);
    ck_assert_int_eq(episodes, naive->counters.episode);
    hd_dataset_close(dataset);
    naive_close(naive);
    hd_free(naive);
    world_close(&w);
    remove_folder(dir);
}

/* For any N, E and limit all rounds but the last are full, and the last is not empty. */
TEST(rounds_cover_all_transitions)
{
    for (int64_t envs = 1; envs < 6; envs++)
        for (int64_t n = 1; n < 90; n++)
            for (int64_t limit = 0; limit < 12; limit++) {
                char set[64];
                snprintf(set, sizeof set, "env.collector_env_num=%lld", (long long)envs);
                const char *const sets[] = {set};
                struct hd_setup setup = setup_open(sets, 1);
                struct value log;
                value_resolve(&log, &setup, &hd_type_transition_log, "recording", NULL);
                ck_assert_int_eq(hd_transition_log_declare(&setup, &log.spec, n, limit * envs * 16),
                                 HD_OK);
                const struct hd_transition_log_shape *shape =
                    hd_transition_log_get_shape(&log.spec);
                const int64_t max = (n + envs - 1) / envs; /* steps of any env */
                ck_assert_int_ge(shape->rounds * shape->steps, max);
                ck_assert_int_lt((shape->rounds - 1) * shape->steps, max);
                ck_assert(shape->steps <= limit || shape->steps == 1);
                log.data = NULL;
                value_close(&log);
                setup_close(&setup);
            }
}

TEST(wrong_options_are_told)
{
    static const char *const texts[][2] = {
        {"0", "0"},           {"-5", "0"},     {"1e3", "0"}, {"many", "0"}, {"", "0"},
        {"99999999999", "0"}, {"100", "-0.1"}, {"100", "2"}, {"100", "x"},  {"100", "nan"}};
    struct record_case c = cases[0];
    struct world w;
    world_open(&w, &c);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct hd_source_location location = {"graph.yaml", 3, 4};
        struct hd_spec *specs[MAX_PORTS];
        struct hd_setup step = step_setup(&hd_verb_record, &w.setup, w.ports, specs);
        struct hd_node *map = hd_node_create_map(w.document, location);
        hd_node_put(w.document, map, "transitions",
                    hd_node_create_scalar(w.document, location, texts[i][0]));
        hd_node_put(w.document, map, "epsilon",
                    hd_node_create_scalar(w.document, location, texts[i][1]));
        step.options = map;
        void *args = NULL;
        int status = strcmp(texts[i][0], "100") ? hd_verb_record.declare(&step)
                                                : hd_verb_record.prepare(&step, &args);
        ck_assert_int_eq(status, HD_ERR_INPUT);
        unprepare(&hd_verb_record, args);
    }
    ck_assert_int_eq(hd_diag_count(w.setup.diag), sizeof texts / sizeof *texts);
    world_close(&w);
}
