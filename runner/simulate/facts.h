/* SPDX-License-Identifier: Apache-2.0 */
/* Things that calibrate and simulate share: the strategies they look at, and what of a config
 * decides how long its tasks take. One thread. */
#pragma once

#include "runner/base/run_spec.h"
#include "runner/simulate/model/submission.h"

#include <jansson.h>

enum { HD_CALIBRATION_FORMAT = 3 };

#define HD_ALL_STRATEGIES "serial,bucketed,pipelined"

/* Returns the keys of env and policy with their values, a line each, to be released with
 * json_decref; NULL: no memory. */
json_t *hd_facts_list(const struct hd_run_spec *run_spec);

/* Returns HD_OK if a run file has these facts, since sizes that differ mean other times; else
 * HD_ERR_INPUT (logged with `problem` and the first key that differs), or HD_ERR_NOMEM. */
int hd_facts_compare(const json_t *facts, const struct hd_run_spec *run_spec, const char *problem);

/* Records a rank of a run. Returns the errors of hd_submission_record. */
int hd_run_spec_record(const struct hd_run_spec *run_spec, int rank, int ranks,
                       const struct hd_comm_hosts *hosts, int gpus, int iterations,
                       struct hd_submission **submission_p, struct hd_peers **exchanges_p);
