/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that this rank drives, and whether a device comm joins those of the ranks. One thread at
 * a time. */
#pragma once

#include "graph/plan/plan.h"
#include "runner/base/run_spec.h"
#include "runtime/machine/gpu_assignment.h"
#include "runtime/machine/gpu_path.h"
#include "runtime/ranks/world.h"

struct hd_topology;

struct hd_gpus {
    struct hd_plan_gpus plan;
    struct hd_gpu_share share; /* plan.n of them */
    int cores[HD_GPUS_MAX];    /* the first core next to each, as in struct hd_gpu */
    bool bound;                /* their workers have CPUs to themselves: */
    int cpus[HD_GPUS_MAX];
};

/* Returns what the run file asks for on a machine that has as many, for `runner graph`. */
struct hd_plan_gpus hd_gpus_plan(const struct hd_run_spec *run_spec, int ranks);

/* Chooses those of this rank on this machine. Logs in one line which path gradients take where
 * ranks share GPUs. Errors: HD_ERR_INPUT (logged) when the run file requires GPUs that are not
 * there. */
int hd_gpus_choose(const struct hd_run_spec *run_spec, const struct hd_topology *topology,
                   const struct hd_world *world, struct hd_gpus *gpus_p);
