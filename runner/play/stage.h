/* SPDX-License-Identifier: Apache-2.0 */
/* A config and weights made ready to play: for eval and watch. Called by the main thread only. */
#pragma once

#include "runner/play/inference.h"
#include "tasks/output/player.h"

#include <sys/stat.h>

struct hd_stage {
    struct hd_inference inference;
    struct hd_player *player;
    struct stat file; /* of the weights, before they were loaded */
    uint64_t seed;    /* of the first episode; that of episode k is seed + k */
    int64_t episodes; /* of an evaluation: --episodes, else env.n_evaluator_episode */
};

/* Finds the files (hd_inference_find), loads them and makes a player of one env. hd_stage_close
 * releases it, after an error too, and with it what the options name. Errors
 * (logged): those of hd_inference_open. */
int hd_stage_open(struct hd_options *options, struct hd_stage *stage_p);
void hd_stage_close(struct hd_stage *stage);
