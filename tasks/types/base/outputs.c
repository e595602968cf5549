/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/outputs.h"

#include "kernels/act/draw.h"

static int64_t count_logits(const struct hd_config *config, const struct hd_env_actions *actions)
{
    (void)config;
    return hd_actions_count_logits(actions);
}

static int64_t count_quantiles(const struct hd_config *config, const struct hd_env_actions *actions)
{
    return hd_actions_count_logits(actions) *
           hd_config_get_int(config, "policy.model.num_quantiles");
}

#define ACTOR_CRITIC                                                                               \
    {                                                                                              \
        {"policy", "categorical|gaussian", HD_OUTPUT_ACTIONS},                                     \
        {                                                                                          \
            "value", "dense", HD_OUTPUT_VALUE                                                      \
        }                                                                                          \
    }

const struct hd_outputs hd_outputs[] = {
    [HD_OUTPUTS_LOGITS] = {.what = "logits",
                           .heads = HD_HEADS_Q,
                           .head = {{"policy", "categorical", HD_OUTPUT_ACTIONS}},
                           .count = count_logits,
                           .choose = hd_act_greedily,
                           .draw = hd_act_by_draw,
                           .argmax = true},
    [HD_OUTPUTS_ACTION_VALUES] = {.what = "values of actions",
                                  .heads = HD_HEADS_Q,
                                  .head = {{"q", "dense|dueling", HD_OUTPUT_ACTIONS}},
                                  .count = count_logits,
                                  .choose = hd_act_greedily,
                                  .argmax = true},
    [HD_OUTPUTS_QUANTILES] = {.what = "quantiles of returns",
                              .heads = HD_HEADS_Q,
                              .head = {{"q", "quantiles", HD_OUTPUT_ACTIONS}},
                              .count = count_quantiles,
                              .choose = hd_act_by_mean},
    [HD_OUTPUTS_ACTOR_CRITIC] = {.what = "an actor and a critic",
                                 .heads = HD_HEADS_ACTOR_CRITIC,
                                 .head = ACTOR_CRITIC,
                                 .count = count_logits,
                                 .choose = hd_act_greedily,
                                 .draw = hd_act_by_draw,
                                 .argmax = true},
    [HD_OUTPUTS_SQUASHED_GAUSSIAN] = {.what = "means and deviations of actions",
                                      .heads = HD_HEADS_Q,
                                      .head = {{"policy", "squashed_gaussian", HD_OUTPUT_ACTIONS}},
                                      .squashed = true,
                                      .count = count_logits,
                                      .choose = hd_act_squashed_greedily,
                                      .draw = hd_act_squashed_by_draw},
};

_Static_assert(sizeof hd_outputs / sizeof *hd_outputs == HD_OUTPUTS_KINDS,
               "every kind of outputs has a row");
