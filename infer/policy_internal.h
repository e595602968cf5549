/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as it was loaded: read-only for all threads, but for the list of work memory, which has
 * a lock. */
#pragma once

#include "infer/infer.h"
#include "kernels/envs/actions.h"
#include "runtime/base/config/config.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_arrays.h"

#include <pthread.h>

/* The work memory of a pass of at most HD_POLICY_ROWS rows. */
struct hd_pass_work {
    struct hd_pass_work *next;
    int64_t bytes;
    float *out; /* [HD_POLICY_ROWS][outputs] */
    void *memory;
};

/* The work memory that no thread has now. */
struct hd_work_list {
    pthread_mutex_t lock;
    struct hd_pass_work *first;
};

struct heddle_policy {
    struct heddle_policy_spec spec;
    struct hd_config *config;
    const struct hd_policy *algorithm;
    struct hd_net *net;
    struct hd_policy_arrays arrays;
    struct hd_env_actions actions;
    struct hd_env_actions bounds; /* `actions`, but a box has the bounds of its environment */
    struct heddle_obs_parts parts;
    struct hd_work_list *works;
    bool is_file; /* made from a file of weights alone, because of which no code is loaded */
};

/* Gives a policy whose numbers are squashed their bounds. Returns HD_OK, HD_ERR_INPUT after adding
 * the mistake to setup->diag, or an error of heddle_envs_create (logged). */
int hd_policy_find_bounds(const struct hd_setup *setup, struct heddle_policy *policy);

/* Makes an empty list, NULL (logged) without memory; releases one with all in it, and accepts NULL.
 */
struct hd_work_list *hd_work_list_create(void);
void hd_work_list_destroy(struct hd_work_list *works);
