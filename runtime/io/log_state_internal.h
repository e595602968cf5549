/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the state of the logs that a checkpoint has. Thread safe. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct hd_log_state {
    const char *board; /* name of the event file; NULL: there is none to continue */
    int64_t board_bytes;
    json_t *texts;          /* component: bytes */
    json_t *previous;       /* key: a double as text */
    double eval_mean, best; /* of the progress line */
    int64_t best_update;
    int64_t env_step;
};

/* Reads what hd_logbook_get_state returned, or NULL, that of a new run. What is stored is borrowed.
 * Names are those of files in the folders of logs and lengths are none below zero, whatever `saved`
 * says. Returns HD_OK or HD_ERR_FORMAT (logged). */
int hd_log_state_read(const json_t *saved, struct hd_log_state *state_p);
