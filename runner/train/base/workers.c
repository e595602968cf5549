/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/workers.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"
#include "runtime/io/base/files.h"
#include "runtime/machine/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Leaves *n_p as it is where STARPU_NCPU is not set. */
static int read_number(int *n_p)
{
    const char *text = getenv("STARPU_NCPU");
    char *end;
    if (!text)
        return HD_OK;
    const long n = strtol(text, &end, 10), max = hd_session_get_workers_max();
    if (end == text || *end != '\0' || n < 1 || n > max)
        return hd_fail(HD_ERR_INPUT,
                       "STARPU_NCPU=%.40s in the environment: expected a number from 1 to %ld",
                       text, max);
    *n_p = (int)n;
    return HD_OK;
}

static int read_scheduler(const char **scheduler_p)
{
    const char *text = getenv("STARPU_SCHED");
    if (!text)
        return HD_OK;
    *scheduler_p = text;
    return hd_scheduler_is_known(text, NULL)
               ? HD_OK
               : hd_fail(HD_ERR_INPUT,
                         "STARPU_SCHED=%.40s in the environment: not one of the schedulers that "
                         "runtime.scheduler may name",
                         text);
}

/* Returns one for each core that no GPU's worker keeps busy, as far as a quota of the ranks of this
 * host allows. */
static int count(const struct hd_core_share *share, int local_world, int devices, double *quota_p)
{
    struct hd_limits limits;
    int n = share->oversubscribed ? 1 : share->cores;
    hd_limits_read(NULL, &limits);
    if (limits.cpu_quota > 0 && limits.cpu_quota / local_world < n) {
        n = (int)(limits.cpu_quota / local_world);
        *quota_p = limits.cpu_quota;
    }
    n -= devices;
    n = n < hd_session_get_workers_max() ? n : hd_session_get_workers_max();
    return n < 1 ? 1 : n;
}

int hd_workers_choose(const struct hd_settings *settings, const struct hd_core_share *share,
                      int local_world, int devices, struct hd_workers *workers_p)
{
    *workers_p = (struct hd_workers){.n = (int)settings->workers, .scheduler = settings->scheduler};
    HD_TRY(read_number(&workers_p->n));
    if (workers_p->n == 0)
        workers_p->n = count(share, local_world, devices, &workers_p->quota);
    return read_scheduler(&workers_p->scheduler);
}

static char *name_models_dir(void)
{
    const char *dir = getenv("STARPU_PERF_MODEL_DIR"), *home = getenv("XDG_CACHE_HOME");
    home = home ? home : getenv("HOME");
    return dir ? hd_strdup(dir) : home ? hd_format("%s/.starpu/sampling", home) : NULL;
}

void hd_workers_find_models(const struct hd_settings *settings, bool tell,
                            struct hd_workers *workers)
{
    if (settings->sequential ||
        (!settings->performance_models && !hd_scheduler_needs_models(workers->scheduler)))
        return;
    char why[HD_FILE_WHY] = "neither STARPU_PERF_MODEL_DIR nor HOME names a folder";
    char *dir = name_models_dir(), *inside = dir ? hd_format("%s/codelets/", dir) : NULL;
    int status = inside ? hd_path_try_make_parents(inside, why) : HD_ERR_SYSTEM;
    if (status == HD_OK && access(inside, W_OK | X_OK) != 0) {
        snprintf(why, sizeof why, "%.*s: %s", HD_FILE_WHY - 128, inside, strerror(errno));
        status = HD_ERR_SYSTEM;
    }
    if (status == HD_OK)
        workers->models_dir = dir;
    else
        hd_free(dir);
    if (status != HD_OK && tell)
        hd_log(HD_LOG_WARN, "performance models will not be kept: %s", why);
    hd_free(inside);
}
