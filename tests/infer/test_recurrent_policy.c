/* SPDX-License-Identifier: Apache-2.0 */
/* A recurrent policy through the public header: outputs against a naive gru in double, rows of
 * episodes of their own, their beginnings, and states that are missing. */
#include "infer/infer.h"
#include "tests/harness/check.h"
#include "tests/infer/files.h"

#include <math.h>
#include <string.h>

/* More rows than one pass has. */
enum {
    OBS = 2,
    HIDDEN = 5,
    GATES = 3 * HIDDEN,
    ACTIONS = 2,
    OUTPUTS = ACTIONS + 1,
    ROWS = 150,
    STEPS = 6
};

static const struct tensor tensors[] = {
    {"layers.0.weight_ih_l0", GATES, OBS},    {"layers.0.weight_hh_l0", GATES, HIDDEN},
    {"layers.0.bias_ih_l0", GATES, 0},        {"layers.0.bias_hh_l0", GATES, 0},
    {"heads.policy.weight", ACTIONS, HIDDEN}, {"heads.policy.bias", ACTIONS, 0},
    {"heads.value.weight", 1, HIDDEN},        {"heads.value.bias", 1, 0}};

static const char config[] = "graph: {}\n"
                             "policy:\n"
                             "  type: ppo\n"
                             "  collect: {segment_at_done: false}\n"
                             "  model:\n"
                             "    obs_shape: 2\n"
                             "    action_shape: 2\n"
                             "    layers: [{gru: 5}]\n"
                             "    heads: {policy: {type: categorical}, value: {type: dense}}\n";

static char message[HEDDLE_MESSAGE];
static struct heddle_policy *policy;
static float obs[STEPS][ROWS][OBS];

static void set_up(void)
{
    char run[256];
    make_folder(run);
    write_text(run, "total_config.yaml", config);
    write_weights(run, "ckpt/best/policy.safetensors", tensors, sizeof tensors / sizeof *tensors);
    const int status = heddle_policy_load(run, NULL, &policy, message);
    ck_assert_msg(status == HEDDLE_OK, "%s", message);
    remove_folder(run);
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < ROWS; i++)
            for (int o = 0; o < OBS; o++)
                obs[t][i][o] = (float)cos(0.7 * (i * OBS + o) + 2.1 * t);
}

static void tear_down(void)
{
    heddle_policy_destroy(policy);
}

static void forward(const float *given, int64_t rows, float *values, const bool *begins, float *out)
{
    const struct heddle_recurrent_state state = {values, begins};
    const int status = heddle_policy_forward(policy, HEDDLE_F32, given, rows, &state, out, message);
    ck_assert_msg(status == HEDDLE_OK, "%s", message);
}

/* -- A naive gru ------------------------------------------------------------------------------- */

static double dot(int tensor, int row, int n, const double *x, int bias)
{
    double sum = (double)get_element(bias, row);
    for (int i = 0; i < n; i++)
        sum += (double)get_element(tensor, row * n + i) * x[i];
    return sum;
}

static double squash(double x)
{
    return 1 / (1 + exp(-x));
}

static void step(const float *given, double h[HIDDEN], double out[OUTPUTS])
{
    double x[OBS], next[HIDDEN];
    for (int i = 0; i < OBS; i++)
        x[i] = (double)given[i];
    for (int i = 0; i < HIDDEN; i++) {
        double a[3], b[3];
        for (int g = 0; g < 3; g++) {
            a[g] = dot(0, g * HIDDEN + i, OBS, x, 2);
            b[g] = dot(1, g * HIDDEN + i, HIDDEN, h, 3);
        }
        const double z = squash(a[1] + b[1]);
        next[i] = (1 - z) * tanh(a[2] + squash(a[0] + b[0]) * b[2]) + z * h[i];
    }
    memcpy(h, next, sizeof next);
    for (int a = 0; a < ACTIONS; a++)
        out[a] = dot(4, a, HIDDEN, h, 5);
    out[ACTIONS] = dot(6, 0, HIDDEN, h, 7);
}

FIXTURE(set_up, tear_down)

/* -- What it does ------------------------------------------------------------------------------ */

TEST(test_outputs_are_those_of_a_naive_gru)
{
    struct heddle_policy_spec spec;
    static float values[ROWS][HIDDEN], out[ROWS][OUTPUTS];
    static double h[ROWS][HIDDEN];
    heddle_policy_describe(policy, &spec);
    ck_assert_int_eq(spec.state_size, HIDDEN);
    ck_assert_int_eq(spec.outputs, OUTPUTS);
    for (int t = 0; t < STEPS; t++) {
        forward(obs[t][0], ROWS, values[0], NULL, out[0]);
        for (int i = 0; i < ROWS; i++) {
            double expected[OUTPUTS];
            step(obs[t][i], h[i], expected);
            for (int o = 0; o < OUTPUTS; o++)
                ck_assert(fabs((double)out[i][o] - expected[o]) < 3e-6);
            for (int j = 0; j < HIDDEN; j++)
                ck_assert(fabs((double)values[i][j] - h[i][j]) < 3e-6);
        }
    }
}

TEST(test_rows_are_episodes_of_their_own)
{
    static float values[ROWS][HIDDEN], out[ROWS][OUTPUTS], alone[HIDDEN], one[OUTPUTS];
    const int row = 77;
    for (int t = 0; t < STEPS; t++) {
        forward(obs[t][0], ROWS, values[0], NULL, out[0]);
        forward(obs[t][row], 1, alone, NULL, one);
        ck_assert_int_eq(memcmp(one, out[row], sizeof one), 0);
        ck_assert_int_eq(memcmp(alone, values[row], sizeof alone), 0);
    }
}

TEST(test_episodes_begin_with_zeros)
{
    static float values[ROWS][HIDDEN], fresh[ROWS][HIDDEN], out[ROWS][OUTPUTS],
        first[ROWS][OUTPUTS];
    static bool begins[ROWS];
    forward(obs[0][0], ROWS, values[0], NULL, out[0]);
    forward(obs[1][0], ROWS, fresh[0], NULL, first[0]);
    for (int i = 0; i < ROWS; i++)
        begins[i] = i % 3 == 0;
    forward(obs[1][0], ROWS, values[0], begins, out[0]);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(memcmp(out[i], first[i], sizeof out[i]) == 0, begins[i]);
        ck_assert_int_eq(memcmp(values[i], fresh[i], sizeof values[i]) == 0, begins[i]);
    }
}

TEST(test_actions_advance_the_state)
{
    static float values[ROWS][HIDDEN], others[ROWS][HIDDEN], out[ROWS][OUTPUTS];
    static int64_t action[ROWS], drawn[ROWS];
    const struct heddle_recurrent_state state = {values[0], NULL}, other = {others[0], NULL};
    for (int t = 0; t < STEPS; t++) {
        static float before[ROWS][HIDDEN];
        memcpy(before, values, sizeof before);
        forward(obs[t][0], ROWS, before[0], NULL, out[0]);
        ck_assert_int_eq(
            heddle_policy_act(policy, HEDDLE_F32, obs[t], ROWS, &state, action, message),
            HEDDLE_OK);
        ck_assert_int_eq(
            heddle_policy_draw(policy, HEDDLE_F32, obs[t], ROWS, &other, 7, drawn, message),
            HEDDLE_OK);
        for (int i = 0; i < ROWS; i++)
            ck_assert_int_eq(action[i], out[i][1] > out[i][0]);
        ck_assert_int_ne(memcmp(action, drawn, sizeof action), 0);
        ck_assert_int_eq(memcmp(values, before, sizeof values), 0);
        ck_assert_int_eq(memcmp(values, others, sizeof values), 0);
    }
}

TEST(test_a_state_has_to_be_there)
{
    float out[OUTPUTS];
    int64_t action;
    ck_assert_int_eq(heddle_policy_forward(policy, HEDDLE_F32, obs, 1, NULL, out, message),
                     HEDDLE_ERR_INPUT);
    check_names(message, "recurrent|state");
    ck_assert_int_eq(heddle_policy_act(policy, HEDDLE_F32, obs, 1, NULL, &action, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_int_eq(heddle_policy_draw(policy, HEDDLE_F32, obs, 1, NULL, 0, &action, message),
                     HEDDLE_ERR_INPUT);
}
