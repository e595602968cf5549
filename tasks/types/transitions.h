/* SPDX-License-Identifier: Apache-2.0 */
/* What the types rollout, replay and batch share: blocks of transitions shaped by the config. */
#ifndef HD_TASKS_TYPES_TRANSITIONS_H
#define HD_TASKS_TYPES_TRANSITIONS_H

#include "kernels/transitions.h"
#include "tasks/registry.h"

/* The shape of `rows` transitions of this run's env (policy.model.obs_shape, policy.nstep). */
struct hd_transition_shape hd_transition_shape_of(const struct hd_config *config, int64_t rows);

/* Sets spec->shape and bytes of a type whose instance is a block of `rows` transitions. */
int hd_transitions_resolve(struct hd_spec *spec, const struct hd_config *config, int64_t rows);

#endif
