/* SPDX-License-Identifier: Apache-2.0 */
/* record against a naive player (tests/tasks/collect/naive.h), read back from the files of the data
 * set. */
#include "runtime/base/log.h"
#include "runtime/io/dataset.h"
#include "tasks/output/inspect.h"
#include "tasks/types/data/transition_log.h"
#include "tasks/types/learn/params.h"
#include "tests/tasks/collect/naive.h"

#include <stdlib.h>

static const struct record_case {
    int envs, transitions, round_bytes, rounds;
    const char *epsilon, *set;
} cases[] = {
    {3, 700, 1 << 20, 1, "0", "env.type=cartpole"},
    {4, 701, 4 * 16 * 50, 4, "0.3", "env.type=cartpole"},
    {2, 333, 2 * 16 * 21, 8, "1", "env.frame_stack=3; policy.model.obs_shape=12"},
    {3, 200, 3 * 1440 * 20, 4, "0.25",
     "env.type=blink; env.frame_stack=4; policy.model.obs_shape=[4,36,40]; "
     "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[4,4,8]"},
    {5, 3, 1, 1, "0.5", "env.type=cartpole"},
};

enum { N_CASES = sizeof cases / sizeof *cases };

/* A world with its step, whose options are those of a case. */
struct recorder {
    struct world *w;
    struct step record;
    char options[64];
};

static void recorder_open(struct recorder *r, const struct record_case *c)
{
    r->record = (struct step){&hd_verb_record, "transition_log=recording", r->options};
    snprintf(r->options, sizeof r->options, "{transitions: %d, epsilon: %s}", c->transitions,
             c->epsilon);
    r->w = world_make(0, 2);
    world_set(r->w, "env.collector_env_num=%d; %s", c->envs, c->set);
    struct value *log = world_declare(
        r->w, (struct hd_spec){.name = "recording", .type = &hd_type_transition_log}, NULL);
    ck_assert_int_eq(
        hd_transition_log_declare(&r->w->setup, &log->spec, c->transitions, c->round_bytes), HD_OK);
    world_open(r->w, &r->record, NULL);
}

static const struct hd_transition_log_shape *get_shape(const struct world *w)
{
    return hd_transition_log_get_shape(&world_get(w, "recording")->spec);
}

/* Plays all rounds into files of `dir`. Returns the episodes that ended. */
static int64_t record(struct recorder *r, const char *dir)
{
    const struct value *log = world_get(r->w, "recording");
    struct hd_dataset_info info = {.seed = 5, .policy = 6, .epsilon = 7};
    struct hd_dataset_writer *writer;
    const int64_t rounds = hd_transition_log_get_rounds(&log->spec);
    int64_t episodes = 0;
    double returns = 0;
    hd_transition_log_describe(&log->spec, &world_get(r->w, "envs")->spec, &info);
    ck_assert_int_eq(hd_dataset_create(dir, &info, rounds, &writer), HD_OK);
    for (int64_t round = 0; round < rounds; round++) {
        world_run(r->w, &r->record, round);
        value_save_load(world_get(r->w, "envs"));
        hd_transition_log_add_episodes(&log->spec, log->data, &episodes, &returns);
        ck_assert_int_eq(hd_transition_log_write(&log->spec, log->data, round, writer), HD_OK);
    }
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
    return episodes;
}

/* -- The naive player: sample t E + e is step t of env e --------------------------------------- */

static struct naive *naive_player(const struct world *w, double epsilon)
{
    const struct hd_envs_shape *shape = hd_envs_get_shape(&world_get(w, "envs")->spec);
    struct naive *naive = hd_alloc(1, sizeof *naive);
    naive->n_sample = naive->envs = shape->envs; /* fragments of one step */
    naive->nstep = 1;
    naive->epsilon = epsilon;
    naive->shape = shape;
    naive->net = world_net(w, "policy");
    naive->params = world_get(w, "policy")->data;
    naive->seed = w->setup.seed;
    naive_open(naive, get_shape(w)->rounds * get_shape(w)->steps * get_shape(w)->envs);
    return naive;
}

static void naive_rounds(struct naive *naive, struct recorder *r)
{
    const struct hd_transition_log_shape *shape = get_shape(r->w);
    for (int64_t round = 0; round < shape->rounds; round++) {
        const struct hd_context where = world_at(r->w, &r->record, round);
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
    struct recorder r;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    recorder_open(&r, c);
    ck_assert_int_eq(get_shape(r.w)->rounds, c->rounds);
    struct naive *naive = naive_player(r.w, atof(c->epsilon));
    const int64_t episodes = record(&r, dir);
    naive_rounds(naive, &r);
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
    remove_folder(dir);
}

/* For any N, E and limit all rounds but the last are full, and the last is not empty. */
TEST(rounds_cover_all_transitions)
{
    for (int64_t envs = 1; envs < 6; envs++)
        for (int64_t n = 1; n < 90; n++)
            for (int64_t limit = 0; limit < 12; limit++) {
                struct world *w = world_make(0, 2);
                world_set(w, "env.collector_env_num=%lld", (long long)envs);
                struct hd_spec *spec =
                    &world_declare(
                         w, (struct hd_spec){.name = "recording", .type = &hd_type_transition_log},
                         NULL)
                         ->spec;
                ck_assert_int_eq(hd_transition_log_declare(&w->setup, spec, n, limit * envs * 16),
                                 HD_OK);
                const struct hd_transition_log_shape *shape = get_shape(w);
                const int64_t max = (n + envs - 1) / envs; /* steps of any env */
                ck_assert_int_ge(shape->rounds * shape->steps, max);
                ck_assert_int_lt((shape->rounds - 1) * shape->steps, max);
                ck_assert(shape->steps <= limit || shape->steps == 1);
                world_close(w);
            }
}

TEST(wrong_options_are_told)
{
    static const char *const wrong[] = {
        "{transitions: 0, epsilon: 0}",      "{transitions: -5, epsilon: 0}",
        "{transitions: 1e3, epsilon: 0}",    "{transitions: many, epsilon: 0}",
        "{transitions: '', epsilon: 0}",     "{transitions: 99999999999, epsilon: 0}",
        "{transitions: 700, epsilon: -0.1}", "{transitions: 700, epsilon: 2}",
        "{transitions: 700, epsilon: x}",    "{transitions: 700, epsilon: nan}",
    };
    for (int i = 0; i < COUNT(wrong); i++) {
        struct recorder r;
        recorder_open(&r, &cases[0]);
        r.record.options = wrong[i];
        check_names(world_mistake(r.w, &r.record), i < 6 ? "transitions" : "epsilon");
        ck_assert_int_eq(hd_diag_count(r.w->setup.diag), 1);
    }
}
