/* SPDX-License-Identifier: Apache-2.0 */
/* Policies through the public header: outputs against a naive net in double, actions, draws,
 * threads, and what is wrong with files and arguments. */
#include "infer/infer.h"
#include "tests/harness/check.h"
#include "tests/infer/files.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { OBS = 4, ACTIONS = 2, HIDDEN = 5, LAST = 3, ROWS = 150 };

static const char best[] = "ckpt/best/policy.safetensors";

/* Nets of DI-engine's form with the layers [5, 3]. */
static const struct tensor dueling[] = {
    {"encoder.init.weight", HIDDEN, OBS},    {"encoder.init.bias", HIDDEN, 0},
    {"encoder.main.0.weight", LAST, HIDDEN}, {"encoder.main.0.bias", LAST, 0},
    {"head.A.0.0.weight", LAST, LAST},       {"head.A.0.0.bias", LAST, 0},
    {"head.A.1.0.weight", ACTIONS, LAST},    {"head.A.1.0.bias", ACTIONS, 0},
    {"head.V.0.0.weight", LAST, LAST},       {"head.V.0.0.bias", LAST, 0},
    {"head.V.1.0.weight", 1, LAST},          {"head.V.1.0.bias", 1, 0}};
static const struct tensor plain[] = {
    {"encoder.init.weight", HIDDEN, OBS},    {"encoder.init.bias", HIDDEN, 0},
    {"encoder.main.0.weight", LAST, HIDDEN}, {"encoder.main.0.bias", LAST, 0},
    {"head.Q.0.0.weight", LAST, LAST},       {"head.Q.0.0.bias", LAST, 0},
    {"head.Q.1.0.weight", ACTIONS, LAST},    {"head.Q.1.0.bias", ACTIONS, 0}};
enum { DUELING = sizeof dueling / sizeof *dueling, PLAIN = sizeof plain / sizeof *plain };

static const char config[] =
    "graph: {}\n"
    "env: {type: cartpole}\n"
    "policy:\n"
    "  type: %s\n"
    "  model: {obs_shape: 4, action_shape: 2, encoder_hidden_size_list: [5, 3]}\n";

static char run[256], message[HEDDLE_MESSAGE];

static void write_config(const char *type)
{
    char text[1024];
    snprintf(text, sizeof text, config, type);
    write_text(run, "total_config.yaml", text);
}

static void set_up(void)
{
    make_folder(run);
    write_config("dqn");
    write_weights(run, best, dueling, DUELING);
}

static void tear_down(void)
{
    remove_folder(run);
}

static struct heddle_policy *load(void)
{
    struct heddle_policy *policy;
    const int status = heddle_policy_load(run, NULL, &policy, message);
    ck_assert_msg(status == HEDDLE_OK, "%s", message);
    return policy;
}

static void fill(float *obs, int64_t rows)
{
    for (int64_t i = 0; i < rows * OBS; i++)
        obs[i] = (float)cos(0.7 * (double)i);
}

/* -- A naive net ------------------------------------------------------------------------------- */

static void apply(int tensor, int64_t in, int64_t out, bool relu, const double *x, double *y)
{
    for (int64_t o = 0; o < out; o++) {
        double sum = (double)get_element(tensor + 1, o);
        for (int64_t i = 0; i < in; i++)
            sum += (double)get_element(tensor, o * in + i) * x[i];
        y[o] = relu && sum < 0 ? 0 : sum;
    }
}

static void compute(const float *obs, double q[ACTIONS])
{
    double x[OBS], h[HIDDEN], z[LAST], s[LAST], a[ACTIONS], v;
    for (int i = 0; i < OBS; i++)
        x[i] = (double)obs[i];
    apply(0, OBS, HIDDEN, true, x, h);
    apply(2, HIDDEN, LAST, true, h, z);
    apply(4, LAST, LAST, true, z, s);
    apply(6, LAST, ACTIONS, false, s, a);
    apply(8, LAST, LAST, true, z, s);
    apply(10, LAST, 1, false, s, &v);
    for (int i = 0; i < ACTIONS; i++)
        q[i] = a[i] - (a[0] + a[1]) / 2 + v;
}

FIXTURE(set_up, tear_down)

/* -- What policies do -------------------------------------------------------------------------- */

TEST(test_a_policy_is_described)
{
    struct heddle_policy *policy = load();
    struct heddle_policy_spec spec;
    heddle_policy_describe(policy, &spec);
    ck_assert_int_eq(spec.obs.element, HEDDLE_F32);
    ck_assert_int_eq(spec.obs.dims, 1);
    ck_assert_int_eq(spec.obs.shape[0], OBS);
    ck_assert_int_eq(spec.actions.kind, HEDDLE_DISCRETE);
    ck_assert_int_eq(spec.actions.n[0], ACTIONS);
    ck_assert_int_eq(spec.outputs, ACTIONS);
    ck_assert(!spec.can_draw);
    heddle_policy_destroy(policy);
}

TEST(test_outputs_are_those_of_a_naive_net)
{
    struct heddle_policy *policy = load();
    float obs[ROWS * OBS], out[ROWS * ACTIONS], alone[ACTIONS];
    int64_t action[ROWS];
    fill(obs, ROWS);
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, ROWS, NULL, out, message),
                     HEDDLE_OK);
    ck_assert_int_eq(heddle_policy_act(policy, HEDDLE_F32, obs, ROWS, NULL, action, message),
                     HEDDLE_OK);
    for (int64_t i = 0; i < ROWS; i++) {
        double q[ACTIONS];
        compute(obs + i * OBS, q);
        for (int a = 0; a < ACTIONS; a++)
            ck_assert(fabs((double)out[i * ACTIONS + a] - q[a]) < 2e-6);
        ck_assert_int_eq(action[i], out[i * ACTIONS + 1] > out[i * ACTIONS]);
        ck_assert_int_eq(
            heddle_policy_forward(policy, HEDDLE_F32, obs + i * OBS, 1, NULL, alone, NULL),
            HEDDLE_OK);
        ck_assert_int_eq(memcmp(alone, out + i * ACTIONS, sizeof alone), 0);
    }
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 0, NULL, out, message),
                     HEDDLE_OK);
    heddle_policy_destroy(policy);
}

TEST(test_draws_follow_the_distribution_and_the_seed)
{
    enum { DRAWS = 20000 };
    static float obs[DRAWS * OBS], out[DRAWS * ACTIONS];
    static int64_t first[DRAWS], again[DRAWS], other[DRAWS];
    write_config("bc");
    write_weights(run, best, plain, PLAIN);
    struct heddle_policy *policy = load();
    for (int64_t i = 0; i < DRAWS; i++)
        fill(obs + i * OBS, 1);
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, out, message),
                     HEDDLE_OK);
    ck_assert_int_eq(heddle_policy_draw(policy, HEDDLE_F32, obs, DRAWS, NULL, 7, first, message),
                     0);
    ck_assert_int_eq(heddle_policy_draw(policy, HEDDLE_F32, obs, DRAWS, NULL, 7, again, message),
                     0);
    ck_assert_int_eq(heddle_policy_draw(policy, HEDDLE_F32, obs, DRAWS, NULL, 8, other, message),
                     0);
    ck_assert_int_eq(memcmp(first, again, sizeof first), 0);
    ck_assert_int_ne(memcmp(first, other, sizeof first), 0);
    double ones = 0;
    for (int64_t i = 0; i < DRAWS; i++)
        ones += (double)first[i];
    const double p = 1 / (1 + exp((double)out[0] - (double)out[1]));
    ck_assert(fabs(ones / DRAWS - p) < 5 * sqrt(p * (1 - p) / DRAWS)); /* five deviations */
    heddle_policy_destroy(policy);
}

TEST(test_the_last_iteration_stands_in_for_the_best)
{
    struct heddle_policy *policy = load();
    float obs[OBS], with_best[ACTIONS], with_last[ACTIONS];
    fill(obs, 1);
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, with_best, message),
                     0);
    heddle_policy_destroy(policy);
    char moved[512], path[512];
    snprintf(path, sizeof path, "%s/ckpt/best", run);
    snprintf(moved, sizeof moved, "%s/ckpt/iteration_120", run);
    ck_assert_int_eq(rename(path, moved), 0);
    write_text(run, "ckpt/iteration_40/policy.safetensors", "not the last");
    policy = load();
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, with_last, message),
                     0);
    ck_assert_int_eq(memcmp(with_best, with_last, sizeof with_best), 0);
    heddle_policy_destroy(policy);
}

TEST(test_the_callers_mode_of_floats_stays)
{
    volatile float smallest = FLT_MIN, half = 0.5f;
    struct heddle_policy *policy = load();
    float obs[OBS], out[ACTIONS];
    fill(obs, 1);
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, out, message),
                     HEDDLE_OK);
    const float product = smallest * half, expected = FLT_MIN / 2;
    /* By their bits: comparisons take both for zero in a thread that flushes. */
    ck_assert_int_eq(memcmp(&product, &expected, sizeof product), 0);
    heddle_policy_destroy(policy);
}

/* -- Threads ----------------------------------------------------------------------------------- */

struct share {
    const struct heddle_policy *policy;
    const float *obs, *expected;
    bool same;
};

static void *compute_often(void *argument)
{
    struct share *share = argument;
    float out[ROWS * ACTIONS];
    share->same = true;
    for (int i = 0; i < 50; i++) {
        const int64_t rows = 1 + (i * 37) % ROWS;
        memset(out, 0, sizeof out);
        share->same &= heddle_policy_forward(share->policy, HEDDLE_F32, share->obs, rows, NULL, out,
                                             NULL) == 0 &&
                       memcmp(out, share->expected, (size_t)rows * ACTIONS * sizeof *out) == 0;
    }
    return NULL;
}

TEST(test_threads_share_a_policy)
{
    enum { THREADS = 4 };
    struct heddle_policy *policy = load();
    float obs[ROWS * OBS], out[ROWS * ACTIONS];
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    fill(obs, ROWS);
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, ROWS, NULL, out, message),
                     HEDDLE_OK);
    for (int t = 0; t < THREADS; t++) {
        shares[t] = (struct share){policy, obs, out, false};
        ck_assert_int_eq(pthread_create(&threads[t], NULL, compute_often, &shares[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        ck_assert(shares[t].same);
    }
    heddle_policy_destroy(policy);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static void refuse(const char *path, const char *weights, int status, const char *names)
{
    struct heddle_policy *untouched = NULL;
    ck_assert_int_eq(heddle_policy_load(path, weights, &untouched, message), status);
    ck_assert_ptr_null(untouched);
    check_names(message, names);
    ck_assert_int_eq(heddle_policy_load(path, weights, &untouched, NULL), status);
}

TEST(test_absent_files_are_named)
{
    refuse("/nowhere/at/all", NULL, HEDDLE_ERR_INPUT, "/nowhere/at/all|No such file");
    refuse(NULL, NULL, HEDDLE_ERR_INPUT, "run directory");
    refuse(run, "/nowhere/weights", HEDDLE_ERR_INPUT, "/nowhere/weights");
    char path[512];
    snprintf(path, sizeof path, "%s/total_config.yaml", run);
    refuse(path, NULL, HEDDLE_ERR_INPUT, "total_config.yaml|weights");
    snprintf(path, sizeof path, "%s/ckpt", run);
    refuse(path, NULL, HEDDLE_ERR_INPUT, "ckpt/total_config.yaml");
}

TEST(test_mistakes_in_a_config_have_places)
{
    write_text(run, "total_config.yaml",
               "graph: {}\npolicy:\n  type: dqm\n  model: {obs_shape: 4, action_shap: 2}\n");
    refuse(run, NULL, HEDDLE_ERR_INPUT, "total_config.yaml:3:9: ");
    ck_assert_ptr_nonnull(strstr(message, "total_config.yaml:4:25: "));
    write_text(run, "total_config.yaml", "graph: {\n");
    refuse(run, NULL, HEDDLE_ERR_INPUT, "total_config.yaml:");
    write_text(run, "total_config.yaml",
               "graph: {}\npolicy:\n  model: {obs_shape: [4, 9], action_shape: 2}\n");
    refuse(run, NULL, HEDDLE_ERR_INPUT, "total_config.yaml:3:22: ");
}

TEST(test_damaged_weights_are_refused)
{
    write_weights(run, best, dueling, DUELING - 1);
    refuse(run, NULL, HEDDLE_ERR_FORMAT, "'head.V.1.0.bias'");
    struct tensor wrong[DUELING];
    memcpy(wrong, dueling, sizeof wrong);
    wrong[2].columns = HIDDEN + 1;
    write_weights(run, best, wrong, DUELING);
    refuse(run, NULL, HEDDLE_ERR_FORMAT, "'encoder.main.0.weight'|3 x 6|3 x 5");
    for (int64_t bytes = 0; bytes < 1200; bytes += 31) {
        write_weights(run, best, dueling, DUELING);
        cut_file(run, best, bytes);
        refuse(run, NULL, HEDDLE_ERR_FORMAT, "safetensors");
    }
}

TEST(test_numbers_that_are_not_finite_are_refused)
{
    struct heddle_policy *policy = load();
    float obs[2 * OBS] = {0}, out[2 * ACTIONS];
    int64_t action[2];
    obs[OBS + 1] = NAN;
    ck_assert_int_eq(heddle_policy_act(policy, HEDDLE_F32, obs, 2, NULL, action, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_str_eq(message, "number 1 of observation 1 is nan, expected a finite number");
    for (int i = 0; i < OBS; i++) /* some of the products overflow, and so do their sums */
        obs[OBS + i] = get_element(0, i) > 0 ? FLT_MAX : -FLT_MAX;
    for (int draws = 0; draws < 2; draws++) {
        const int status =
            draws ? heddle_policy_act(policy, HEDDLE_F32, obs, 2, NULL, action, message)
                  : heddle_policy_forward(policy, HEDDLE_F32, obs, 2, NULL, out, message);
        ck_assert_msg(status == HEDDLE_ERR_TASK, "%d", status);
        ck_assert_ptr_nonnull(strstr(message, " for observation 1 is "));
    }
    heddle_policy_destroy(policy);
}

TEST(test_wrong_arguments_are_refused)
{
    struct heddle_policy *policy = load();
    float obs[OBS] = {0}, out[ACTIONS];
    const uint8_t bytes[OBS] = {0};
    int64_t action;
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, -1, NULL, out, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_str_eq(message, "-1 rows of observations");
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_U8, bytes, 1, NULL, out, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(message, "bytes"));
    ck_assert_int_eq(heddle_policy_draw(policy, HEDDLE_F32, obs, 1, NULL, 0, &action, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(message, "distribution"));
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, out, message),
                     HEDDLE_OK);
    ck_assert_str_eq(message, "");
    heddle_policy_destroy(policy);
    heddle_policy_destroy(NULL);
}
