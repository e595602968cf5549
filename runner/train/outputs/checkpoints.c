/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a run to open its checkpoints, then by the executor once an iteration. */
#include "runner/train/outputs/checkpoints.h"

#include "runner/base/signals.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/io/logbook.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/* A rank that a signal asked to stop requests that with the signal's bit. */
enum requests { REQUEST_SAVE = 1, REQUEST_STOP = 2 };

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

enum { N_STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

/* An unusual signal counts as SIGTERM. */
static unsigned stop_request(int number)
{
    for (int i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i] == number)
            return REQUEST_STOP << i;
    return stop_request(SIGTERM);
}

/* Returns the signal that reached any rank; 0: none. */
static int find_stop_signal(unsigned requests)
{
    for (int i = 0; i < N_STOP_SIGNALS; i++)
        if (requests & (unsigned)(REQUEST_STOP << i))
            return stop_signals[i];
    return 0;
}

static int send_message(void *arg, int rank, const void *data, int64_t bytes)
{
    struct hd_train *train = arg;
    return hd_rendezvous_send_message(train->ranks.rendezvous, rank, data, bytes);
}

int hd_checkpoints_open(struct hd_train *train)
{
    const struct hd_settings *settings = &train->run_spec.settings;
    const struct hd_checkpoint_writer_options options = {
        .dir = train->dir,
        .rank = train->ranks.world.rank,
        .ranks = train->ranks.world.world,
        .keep = settings->checkpoint_keep,
        .from = train->resume_from ? hd_checkpoint_get_iteration(train->resume_from) : -1,
        .timeout_s = settings->checkpoint_timeout_s,
        .run = train->outputs.logbook ? hd_logbook_get_name(train->outputs.logbook) : NULL,
        .send = send_message,
        .arg = train,
    };
    train->checkpoints.begun_ns = hd_clock_get_ns();
    train->checkpoints.interval_s = settings->checkpoint_interval_s;
    return hd_checkpoint_writer_create(&options, &train->checkpoints.writer);
}

unsigned hd_checkpoints_get_requests(void *arg)
{
    struct hd_train *train = arg;
    hd_signals_announce();
    if (hd_asked_to_stop)
        return stop_request(hd_asked_to_stop);
    if (train->ranks.world.rank != 0 || train->checkpoints.requested ||
        train->checkpoints.interval_s == 0 ||
        (double)(hd_clock_get_ns() - train->checkpoints.begun_ns) * 1e-9 <
            train->checkpoints.interval_s ||
        !hd_checkpoint_writer_is_idle(train->checkpoints.writer))
        return 0;
    train->checkpoints.requested = true; /* once: it is applied some iterations later */
    return REQUEST_SAVE;
}

static json_t *describe_run(struct hd_train *train)
{
    char *config = hd_run_spec_format(&train->run_spec);
    json_t *run = config ? json_pack("{s:s, s:s, s:O, s:o}", "config", config, "fingerprint",
                                     train->fingerprint.text, "origins", train->origins, "log",
                                     hd_logbook_get_state(train->outputs.logbook))
                         : NULL;
    free(config);
    return run;
}

static int save(struct hd_train *train)
{
    json_t *executor, *metadata = NULL;
    HD_TRY(hd_executor_save(train->executor, train->checkpoints.writer, &executor));
    if (train->ranks.world.rank == 0)
        metadata = json_pack("{s:O, s:o}", "executor", executor, "run", describe_run(train));
    json_decref(executor);
    hd_checkpoint_writer_submit(train->checkpoints.writer, metadata);
    train->checkpoints.begun_ns = hd_clock_get_ns();
    train->checkpoints.requested = false;
    return HD_OK;
}

int hd_checkpoints_apply_requests(void *arg, unsigned requests)
{
    struct hd_train *train = arg;
    HD_TRY(save(train));
    train->checkpoints.stop_signal = find_stop_signal(requests);
    if (!train->checkpoints.stop_signal)
        return HD_OK;
    train->checkpoints.can_resume = hd_checkpoint_writer_wait(train->checkpoints.writer);
    return train->checkpoints.stop_signal == SIGINT ? HD_ERR_INTERRUPTED : HD_ERR_STOPPED;
}

void hd_checkpoints_describe_last(const struct hd_train *train, char *text, int64_t bytes)
{
    struct stat link;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/ckpt/state/latest", train->dir);
    if (lstat(path, &link) == 0)
        snprintf(text, (size_t)bytes, "--resume %s continues from that of %.0f s ago", train->dir,
                 difftime(time(NULL), link.st_mtime));
    else
        snprintf(text, (size_t)bytes, "%s has none, so that --resume begins at the start",
                 train->dir);
}

int hd_checkpoints_save_at_stop(void *arg)
{
    struct hd_train *train = arg;
    const bool measures = train->timing.watch.after >= 0;
    return train->checkpoints.interval_s == 0 || measures ? HD_OK : save(train);
}
