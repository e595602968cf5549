/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that a collect makes beyond policy.collect.n_sample: all environments step together, and
 * a fragment becomes samples as a whole. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

/* Return the most steps of an environment that become samples together, so many that all of them
 * make n_sample: of `envs`, or as the run file says. */
int64_t hd_fragment_count(int64_t n_sample, int64_t envs);
int64_t hd_fragment_read(const struct hd_config *config);

/* Returns by how many samples the fragments of all environments exceed n_sample. */
int64_t hd_surplus_count(const struct hd_config *config);

enum hd_surplus { HD_SURPLUS_FIRST, HD_SURPLUS_TURNS, HD_SURPLUS_KEEP };

/* Returns policy.collect.surplus, which is asked for only where a collect may make more than
 * n_sample samples: the fragments of all envs have more, or they become complete when an episode
 * ends (`cuts`). */
enum hd_surplus hd_surplus_read(const struct hd_config *config, bool cuts);

/* Stores whether environments take turns, on-policy, where samples cannot be kept. Returns HD_OK or
 * HD_ERR_INPUT (in setup->diag). */
int hd_surplus_check_turns(const struct hd_setup *setup, bool cuts, bool *takes_turns_p);

/* Returns which of `envs` comes first in the collect of an iteration where environments take turns:
 * the one after those whose samples made up the collect before, or one further if all did. */
int64_t hd_surplus_find_turn(int64_t iteration, int64_t n_sample, int64_t envs);

/* Moves the oldest n of the `made` samples of `bytes` bytes that wait to transitions[n]; there is
 * room for n at the end of those that are left. */
void hd_surplus_hand_over(void *waiting, int64_t made, int64_t n, int64_t bytes, void *transitions);
