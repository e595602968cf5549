/* SPDX-License-Identifier: Apache-2.0 */
/* Worker processes and the groups of envs that share them: one group alone, or groups of the same
 * settings that the caller has announced (hd_env_settings.groups), such as the envs that evaluate.
 * Thread safe. */
#pragma once

#include "kernels/envs/gymnasium/workers.h"

#include <pthread.h>

struct hd_bridge_team {
    struct hd_bridge_options options;
    struct hd_bridge_workers workers;
    char *settings; /* hd_bridge_options_join */
    int64_t envs;   /* of a group */
    int64_t teams;  /* over which groups of these settings are distributed */
    int64_t seats, users;
    atomic_bool starts; /* its processes were started */
    bool *taken;        /* [seats] */
    struct hd_bridge_team *next;
};

/* The place of a group in a team. */
struct hd_bridge_seat {
    struct hd_bridge_team *team; /* NULL: none */
    int64_t number;
};

/* Starts the processes of all teams, so that Python imports in all of them at a time, and waits for
 * those of one. Returns 0, or -1 on error with a sentence in `message`. */
int hd_bridge_team_start(struct hd_bridge_team *team, const struct hd_bridge_user *user,
                         char message[HD_ENV_MESSAGE]);

/* Finds a seat for a group, and describes its envs. hd_bridge_seat_leave gives it back, also after
 * an error; the processes of a team end with its last group. Returns 0, or -1 on error with a
 * sentence in `message`. */
int hd_bridge_seat_take(const struct hd_env_settings *settings, struct hd_bridge_seat *seat_p,
                        char message[HD_ENV_MESSAGE]);
void hd_bridge_seat_leave(struct hd_bridge_seat *seat);
