/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/launch/launch_internal.h"

#include <signal.h>

/* Returns how long to wait before the next attempt: what fails at once would fail as often as ranks
 * can start. It grows from half a second to a minute with the restarts in a row after attempts
 * shorter than a minute, which *in_series counts. */
static int64_t choose_pause_ms(int *in_series, int64_t lasted_ms)
{
    enum { PAUSE_MS = 500, PAUSE_MAX_MS = 60000, HEALTHY_MS = 60000 };
    *in_series = lasted_ms < HEALTHY_MS ? *in_series + 1 : 1;
    int64_t pause_ms = PAUSE_MS;
    for (int i = 1; i < *in_series && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
}

/* Invalid input stays invalid, and a user who stopped the run wants no other attempt. */
static bool may_repeat(const struct hd_launch *launch, int code)
{
    return launch->cause >= 0 && launch->stop_signal == 0 &&
           code != hd_status_get_exit_code(HD_ERR_INPUT);
}

/* Leaves out a rank that failed twice in a row: perhaps its core or its GPU is broken. */
static void use_fewer_ranks(struct hd_launch *launch, int culprit)
{
    struct hd_launch_options *options = &launch->options;
    int ranks = options->nproc_per_node - 1;
    while (ranks > 0 && !hd_tree_is_block_allowed(options->shards, ranks))
        ranks--;
    if (options->nnodes > 1 || options->shards == 0 || ranks < 1)
        return;
    hd_log(HD_LOG_WARN, "rank %d failed twice in a row: continuing with %d rank%s", culprit, ranks,
           ranks == 1 ? "" : "s");
    options->nproc_per_node = ranks;
}

int hd_launch_run_attempts(struct hd_launch *launch)
{
    const struct hd_launch_options *options = &launch->options;
    int64_t begin_ns = hd_clock_get_ns();
    int in_series = 0;
    int code = hd_launch_attempt(launch), culprit = launch->cause;
    for (int i = 1; i <= options->max_restarts && may_repeat(launch, code); i++) {
        const int64_t pause_ms =
            choose_pause_ms(&in_series, (hd_clock_get_ns() - begin_ns) / 1000000);
        bool from_checkpoint = false;
        if (options->get_arguments)
            launch->argv = options->get_arguments(options->arg, launch->dir, &from_checkpoint);
        hd_log(HD_LOG_WARN, "restart %d of %d in %.1f s: all ranks begin again from %s", i,
               options->max_restarts, (double)pause_ms * 1e-3,
               from_checkpoint ? "the newest good checkpoint" : "the start");
        launch->stop_signal = hd_launch_pause(launch, pause_ms);
        if (launch->stop_signal != 0)
            return hd_status_get_exit_code(launch->stop_signal == SIGINT ? HD_ERR_INTERRUPTED
                                                                         : HD_ERR_STOPPED);
        begin_ns = hd_clock_get_ns();
        code = hd_launch_attempt(launch);
        if (launch->cause >= 0 && launch->cause == culprit && i < options->max_restarts)
            use_fewer_ranks(launch, culprit);
        culprit = launch->cause;
    }
    return code;
}
