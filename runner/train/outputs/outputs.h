/* SPDX-License-Identifier: Apache-2.0 */
/* The run directory and the progress line of rank 0. Called by the session's thread only. */
#pragma once

#include "runner/train/base/train.h"

/* Makes the run directory, unless it is known, with the effective config and the logbook, which
 * continues from train->resume_from. Errors (logged): HD_ERR_INPUT, HD_ERR_SYSTEM, HD_ERR_NOMEM. */
int hd_outputs_open(struct hd_train *train);

/* Shows the progress now and then; called before every iteration, and in long ones. */
void hd_outputs_show_progress(struct hd_train *train);
