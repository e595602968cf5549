/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what a rank has read (runner/base/origins.h) with rank 0 and with the checkpoint that
 * the run goes on from. One thread of each rank. */
#pragma once

#include "runner/train/base/train.h"

/* Called by all ranks once they have met. Returns HD_OK; HD_ERR_INPUT on all ranks, logged with
 * both sides, where one of them differs and runtime.allow_origin_mismatch does not make that a
 * warning; or an error of the rendezvous. */
int hd_origins_check(const struct hd_train *train);
