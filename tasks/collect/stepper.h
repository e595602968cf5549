/* SPDX-License-Identifier: Apache-2.0 */
/* Steps a group of envs under a policy: the verbs that play envs share this. Thread safe for
 * different groups. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/types/collect/envs.h"

/* Arrays for one step of E envs, in a task's scratch. */
struct hd_stepper {
    union hd_action_number *action; /* [E][dims], as the policy chose them */
    union hd_action_number *taken;  /* [E][dims], as the envs take them; the same array unless the
                                       policy's numbers are squashed */
    struct hd_env_outcome outcome;
    float *outputs;       /* [E][outputs] of the net */
    void *forward;        /* work memory of the net's pass */
    const float *running; /* running statistics of the net's batch norms; NULL: it has none */
};

/* Prepares the net for such steps, from a verb's `prepare`, and gives the bytes of scratch that
 * they need. Returns what hd_net_prepare does: HD_OK or an error (logged). */
int hd_stepper_prepare(const struct hd_envs_shape *shape, const struct hd_net *net,
                       int64_t *scratch_p);

/* Returns the arrays in such scratch, whose content is undefined. The caller may point outcome.obs
 * to other memory, and `running` to running statistics. */
struct hd_stepper hd_stepper_get(const struct hd_envs_shape *shape, const struct hd_net *net,
                                 void *scratch);

/* Computes the net's outputs for the current observation of each env, normalised by `norm` (NULL:
 * not normalised), and moves the states of a recurrent net on. */
void hd_stepper_forward(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                        const struct hd_envs *envs, const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm);

/* Does hd_stepper_forward, then chooses for each env the likeliest action (kernels/act/draw.h). */
void hd_stepper_choose_greedy(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                              const struct hd_envs *envs, const struct hd_net *net,
                              const void *params, const struct hd_obs_norm *norm);

/* Chooses a uniformly random action for env `env`, number d by item first + d of rng. */
void hd_stepper_choose_randomly(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                                int64_t env, const struct hd_rng *rng, uint32_t first);

/* Collects may act on a GPU and step on CPUs (policy.collect.overlap_act_step). Stage 0 of a group
 * begins the collect, on a CPU; then odd stages act, on the GPU, and even ones step, on a CPU. This
 * is a group's work memory on the GPU. */
struct hd_gpu_stepper {
    char *obs;  /* [E][obs_bytes] */
    float *out; /* [E][outputs] of the net */
    char *forward;
};

static inline bool hd_stepper_is_gpu_stage(int stage)
{
    return stage % 2 == 1;
}

/* Lays the arrays out in `memory` and returns their bytes (memory NULL: counts only). This and the
 * next function exist in builds with CUDA. */
int64_t hd_gpu_stepper_lay_out(const struct hd_envs_shape *shape, const struct hd_net *net,
                               void *memory, struct hd_gpu_stepper *stepper_p);

/* Queues on `stream` the net's pass from stepper->obs, normalised by `norm` (NULL: not normalised),
 * to stepper->out. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_gpu_stepper_forward(const struct hd_gpu_stepper *stepper, const struct hd_envs_shape *shape,
                           const struct hd_net *net, const void *params,
                           const struct hd_obs_norm *norm, void *stream);

/* Begins a step of all envs by the chosen actions, between their bounds if they are squashed.
 * Returns HD_OK, to be followed by hd_stepper_end_step; HD_WAITS, which the body returns, to be
 * followed by hd_stepper_end_step when the body is called again; or HD_ERR_TASK of hd_body_fail,
 * whose message names the seeds and steps of all envs. */
int hd_stepper_begin_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                          const struct hd_envs *envs, struct hd_context *context);

/* Returns whether hd_stepper_begin_step returns HD_WAITS where it does not fail. */
static inline bool hd_stepper_waits(const struct hd_envs_shape *shape)
{
    return shape->env->begin_step != NULL;
}

/* Ends the step: adds to the returns and steps of episodes and appends the frames that envs show to
 * their observations. After HD_WAITS the stepper may be another, whose actions are undefined.
 * Returns HD_OK or HD_ERR_TASK likewise. */
int hd_stepper_end_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                        struct hd_envs *envs, struct hd_context *context);

/* Does both, and waits in between. Returns HD_OK or HD_ERR_TASK likewise. */
int hd_stepper_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                    struct hd_envs *envs, struct hd_context *context);

/* Starts the next episode of env `env`, which is the shard's env `number`, from its own seed, and
 * announces the seed of the one after it. Returns HD_OK, or HD_ERR_TASK of hd_body_fail, whose
 * message names env and seed. */
int hd_stepper_start_next(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                          int64_t number, void *frame, struct hd_context *context);

/* Starts an episode from one seed in all envs of an evaluating group: one env, or the agents of one
 * parallel env. Returns HD_OK or HD_ERR_TASK as hd_stepper_start_next does. */
int hd_stepper_start_episode(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                             struct hd_envs *envs, uint64_t env_seed, struct hd_context *context);

/* Returns what the last step of such a group counts as its reward: the mean over the agents. */
double hd_stepper_compute_mean_reward(const struct hd_stepper *stepper,
                                      const struct hd_envs_shape *shape);
