/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how many CPU workers a rank has, and which scheduler: by the environment, else the run
 * file, else the cores and the time that the system leaves to it; and where StarPU's performance
 * models are. Main thread. */
#pragma once

#include "runner/base/settings.h"
#include "runtime/machine/topology.h"

struct hd_workers {
    int n;        /* >= 1 */
    double quota; /* cores' worth of time of this host's ranks, if it made n smaller; or 0 */
    const char *scheduler; /* StarPU's name for it; borrowed */
    char *models_dir;      /* where performance models are kept, for hd_free; or NULL */
};

/* Decides it for one of `local_world` ranks of this host, which has these cores and drives
 * `devices` GPUs; *workers_p borrows from settings. Returns HD_OK, or HD_ERR_INPUT (logged) for a
 * value of STARPU_NCPU or STARPU_SCHED that cannot be taken. */
int hd_workers_choose(const struct hd_settings *settings, const struct hd_core_share *share,
                      int local_world, int devices, struct hd_workers *workers_p);

/* Finds, for a run that has performance models, the folder where StarPU's tools look for them, and
 * makes it: that of STARPU_PERF_MODEL_DIR, else .starpu/sampling in XDG_CACHE_HOME or HOME. Leaves
 * models_dir NULL where it cannot be written, which is told if `tell`. */
void hd_workers_find_models(const struct hd_settings *settings, bool tell,
                            struct hd_workers *workers);
