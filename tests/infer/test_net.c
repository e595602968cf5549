/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says of its net: layers in the order in which they are computed, tensors with the
 * numbers of the file, and what is asked for wrongly. */
#include "infer/infer.h"
#include "tests/harness/check.h"
#include "tests/infer/files.h"

#include <string.h>

enum { OBS = 4, HIDDEN = 5, ACTIONS = 2 };

static const struct tensor tensors[] = {{"layers.0.weight", HIDDEN, OBS},
                                        {"layers.0.bias", HIDDEN, 0},
                                        {"layers.1.weight", HIDDEN, 0},
                                        {"layers.1.bias", HIDDEN, 0},
                                        {"layers.1.running_mean", HIDDEN, 0},
                                        {"layers.1.running_var", HIDDEN, 0},
                                        {"heads.policy.weight", ACTIONS, HIDDEN},
                                        {"heads.policy.bias", ACTIONS, 0},
                                        {"obs_norm.scale", OBS, 0},
                                        {"obs_norm.shift", OBS, 0}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static const char config[] = "graph: {}\n"
                             "env: {type: cartpole}\n"
                             "policy:\n"
                             "  type: bc\n"
                             "  collect: {clip_obs: 3}\n"
                             "  model:\n"
                             "    obs_shape: 4\n"
                             "    action_shape: 2\n"
                             "    layers: [{dense: 5}, batch_norm, {residual: [tanh]}]\n"
                             "    heads: {policy: {}}\n";

static char message[HEDDLE_MESSAGE], text[1 << 14];
static struct heddle_policy *policy;

static void set_up(void)
{
    char run[256];
    make_folder(run);
    write_text(run, "total_config.yaml", config);
    write_weights(run, "ckpt/best/policy.safetensors", tensors, TENSORS);
    const int status = heddle_policy_load(run, NULL, &policy, message);
    ck_assert_msg(status == HEDDLE_OK, "%s", message);
    remove_folder(run);
}

static void tear_down(void)
{
    heddle_policy_destroy(policy);
}

FIXTURE(set_up, tear_down)

/* Returns what stands behind `words`, which the description has behind `from`. */
static const char *find(const char *from, const char *words)
{
    const char *at = strstr(from, words);
    ck_assert_msg(at != NULL, "no %s in %s", words, from);
    return at + strlen(words);
}

TEST(test_a_net_is_described_in_the_order_of_its_layers)
{
    int64_t bytes;
    ck_assert_int_eq(heddle_policy_describe_net(policy, text, sizeof text, &bytes, message),
                     HEDDLE_OK);
    ck_assert_int_eq(bytes, (int64_t)strlen(text) + 1);
    const char *at = find(text, "\"policy\":\"");
    at = find(at, "clip_obs: 3");
    at = find(at, "\"norm\":{\"clip\":3.0,\"scale\":{\"name\":\"obs_norm.scale\",\"shape\":[4]}");
    at = find(at, "\"inputs\":[{\"part\":null,\"shape\":[4],\"bytes\":false,\"layers\":[]}]");
    at = find(at,
              "\"layers\":[{\"type\":\"dense\",\"module\":\"layers.0\",\"fields\":{\"out\":5},"
              "\"in\":[4],\"out\":[5],\"tensors\":[{\"name\":\"layers.0.weight\",\"shape\":[5,4]}");
    at = find(at, "{\"type\":\"batch_norm\"");
    at = find(at, "{\"name\":\"layers.1.running_var\",\"shape\":[5]}");
    at = find(at, "{\"type\":\"residual\"");
    at = find(at, "\"layers\":[{\"type\":\"tanh\"");
    at = find(at, "\"streams\":[{\"value\":false,\"layers\":[{\"type\":\"dense\"");
    find(at, "\"dueling\":false,\"value\":false,\"actions\":2,\"squashed\":false,\"bounds\":null");
}

TEST(test_a_description_that_does_not_fit_says_its_size)
{
    int64_t bytes, again;
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(heddle_policy_describe_net(policy, NULL, 0, &bytes, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_policy_describe_net(policy, text, bytes - 1, &again, message),
                     HEDDLE_OK);
    ck_assert_int_eq(again, bytes);
    ck_assert_int_eq(text[0], 'x');
    ck_assert_int_eq(heddle_policy_describe_net(policy, text, bytes, &again, message), HEDDLE_OK);
    ck_assert_int_eq(text[bytes - 1], '\0');
}

TEST(test_tensors_are_those_of_the_file)
{
    float values[HIDDEN * OBS];
    for (int t = 0; t < TENSORS; t++) {
        const int64_t n = tensors[t].rows * (tensors[t].columns ? tensors[t].columns : 1);
        const int status = heddle_policy_copy_tensor(policy, tensors[t].name, n, values, message);
        ck_assert_msg(status == HEDDLE_OK, "%s", message);
        for (int64_t i = 0; i < n; i++)
            ck_assert(values[i] == get_element(t, i));
    }
}

TEST(test_wrong_names_and_sizes_of_tensors_are_told)
{
    float values[HIDDEN * OBS] = {7};
    ck_assert_int_eq(heddle_policy_copy_tensor(policy, "layers.9.weight", 20, values, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_str_eq(message, "the policy has no tensor 'layers.9.weight'");
    ck_assert_int_eq(heddle_policy_copy_tensor(policy, "layers.0.weight", 19, values, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_str_eq(message, "tensor layers.0.weight has 20 numbers, but there is room for 19");
    ck_assert_int_eq(heddle_policy_copy_tensor(policy, "obs_norm.scale", 5, values, message),
                     HEDDLE_ERR_INPUT);
    ck_assert(values[0] == 7);
}
