/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long the tasks of a run took, by its trace. One thread. */
#pragma once

#include "runner/base/run_spec.h"
#include "runner/simulate/model/calibration.h"

/* Completes a calibration by the trace of a run of one rank in directory `dir`, all but its rates
 * and shards, and by how fast this machine adds vectors and moves bytes through sockets. Returns
 * HD_OK, HD_ERR_FORMAT without a trace, HD_ERR_INPUT when the run was too short, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (logged). */
int hd_calibration_measure(const struct hd_run_spec *run_spec, const char *dir,
                           struct hd_calibration *calibration);
