/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a group of envs under a policy: the arrays that `collect` and `evaluate` need for it,
 * cut from a task's scratch. */
#ifndef HD_TASKS_COLLECT_STEPPER_H
#define HD_TASKS_COLLECT_STEPPER_H

#include "kernels/net/net.h"
#include "tasks/types/collect/envs.h"

struct hd_stepper {
    int32_t *action; /* [E] */
    struct hd_env_outcome outcome;
    float *outputs;       /* [E][outputs] of the net */
    void *forward;        /* work memory of its pass */
    const float *running; /* statistics of its batch norms; NULL: it has none */
};

/* For a verb's `prepare`: prepares the net for such steps; bytes of scratch stored in *scratch_p.
 * Errors: the net's. */
int hd_stepper_prepare(const struct hd_envs_shape *shape, const struct hd_net *net,
                       int64_t *scratch_p);

/* The arrays in such scratch; contents are undefined. outcome.obs may be set to room elsewhere,
 * `running` to running statistics. */
struct hd_stepper hd_stepper_get(const struct hd_envs_shape *shape, const struct hd_net *net,
                                 void *scratch);

/* The net's outputs for each env's present observation, which enters as `norm` says. */
void hd_stepper_forward(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                        const struct hd_envs *envs, const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm);

/* The same, and then each env's action: that with the largest value or logit, the lowest on ties.
 */
void hd_stepper_choose_greedy(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                              const struct hd_envs *envs, const struct hd_net *net,
                              const void *params, const struct hd_obs_norm *norm);

/* Acting on a GPU, in collects that step on CPUs: stage 0 begins, on a CPU; then odd stages, the
 * GPU's, act and even ones step. An item's work memory on the GPU: */
struct hd_gpu_stepper {
    char *obs;  /* [E][obs_bytes] */
    float *out; /* [E][outputs] of the net */
    char *forward;
};

static inline bool hd_stepper_is_gpu_stage(int stage)
{
    return stage % 2 == 1;
}

/* Where it is (memory NULL: only counts); returns the bytes. For builds with CUDA, as the next. */
int64_t hd_gpu_stepper_lay_out(const struct hd_envs_shape *shape, const struct hd_net *net,
                               void *memory, struct hd_gpu_stepper *stepper_p);

/* out of obs, which enter as `norm` says (NULL: as they are), queued on `stream`. */
int hd_gpu_stepper_forward(const struct hd_gpu_stepper *stepper, const struct hd_envs_shape *shape,
                           const struct hd_net *net, const void *params,
                           const struct hd_obs_norm *norm, void *stream);

/* Steps all envs by the chosen actions, adds to their episodes' returns and steps and moves their
 * observations on. A failure is a task's (hd_body_fail), naming the envs' seeds and steps. */
int hd_stepper_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                    struct hd_envs *envs, struct hd_context *context);

/* hd_envs_start with a failure that is a task's, naming env and seed. */
int hd_stepper_start_env(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                         uint64_t env_seed, void *frame, struct hd_context *context);

#endif
