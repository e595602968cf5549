/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that this rank drives, and whether a device comm joins those of the ranks. One thread at
 * a time. */
#pragma once

#include "graph/plan/plan.h"
#include "runner/base/run_spec.h"
#include "runtime/machine/gpu_assignment.h"
#include "runtime/machine/gpu_path.h"
#include "runtime/ranks/world.h"

struct hd_rendezvous;
struct hd_topology;

struct hd_gpus {
    int n_found; /* that CUDA shows to this rank and the run may use */
    struct hd_gpu found[HD_GPUS_MAX];
    struct hd_plan_gpus plan;  /* equal on all ranks */
    struct hd_gpu_share share; /* plan.n of them */
    bool bound;                /* their workers have CPUs to themselves: */
    int cpus[HD_GPUS_MAX];
};

/* Returns what the run file asks for on a machine that has as many, for `runner graph`. */
struct hd_plan_gpus hd_gpus_plan(const struct hd_run_spec *run_spec, int ranks);

/* Finds what this rank may use, before it knows of other ranks. Errors: HD_ERR_INPUT (logged) when
 * the run file requires GPUs that are not there, or that this build has no kernels for. */
int hd_gpus_find(const struct hd_run_spec *run_spec, const struct hd_topology *topology,
                 const struct hd_world *world, struct hd_gpus *gpus_p);

/* Chooses this rank's out of those found, together with all other ranks; `rendezvous` is NULL for a
 * rank that is alone. Logs in one line which path gradients take where ranks share GPUs. Errors
 * (logged): HD_ERR_INPUT for a map of GPUs that does not fit, those of hd_rendezvous_gather_all. */
int hd_gpus_choose(const struct hd_run_spec *run_spec, const struct hd_world *world,
                   struct hd_rendezvous *rendezvous, struct hd_gpus *gpus);
