/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    REMIND_S = 10,   /* from one word about a wait to the next */
    LEAVE_S = 10,    /* the writing thread has this long to notice that its time is over */
    NS = 1000000000, /* in a second */
};

/* -- Waiting ----------------------------------------------------------------------------------- */

void hd_checkpoint_writer_abandon(struct hd_checkpoint_writer *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->abandoned = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

bool hd_checkpoint_writer_is_idle(struct hd_checkpoint_writer *c)
{
    pthread_mutex_lock(&c->lock);
    const bool idle = !c->started || c->finished;
    pthread_mutex_unlock(&c->lock);
    return idle;
}

static void describe_wait(const struct hd_checkpoint_writer *c)
{
    char what[64] = "this rank is still writing its files";
    if (c->awaited >= 0)
        snprintf(what, sizeof what, "nothing has come from rank %d", c->awaited);
    hd_log(HD_LOG_WARN, "waiting for the checkpoint of iteration %" PRId64 ": %s", c->iteration,
           what);
}

/* Waits for the writing thread. Returns false when its time is over. */
static bool wait_until_finished(struct hd_checkpoint_writer *c)
{
    pthread_mutex_lock(&c->lock);
    int64_t end_ns = c->deadline_ns + LEAVE_S * (int64_t)NS, now_ns;
    if (c->abandoned && hd_clock_get_ns() + LEAVE_S * (int64_t)NS < end_ns)
        end_ns = hd_clock_get_ns() + LEAVE_S * (int64_t)NS;
    while (!c->finished && (now_ns = hd_clock_get_ns()) < end_ns) {
        const int64_t remind_ns = now_ns + REMIND_S * (int64_t)NS;
        const int64_t until_ns = remind_ns < end_ns ? remind_ns : end_ns;
        const struct timespec until = {until_ns / NS, until_ns % NS};
        while (!c->finished && hd_clock_get_ns() < until_ns)
            pthread_cond_timedwait(&c->changed, &c->lock, &until);
        if (!c->finished)
            describe_wait(c);
    }
    const bool finished = c->finished;
    pthread_mutex_unlock(&c->lock);
    return finished;
}

bool hd_checkpoint_writer_wait(struct hd_checkpoint_writer *c)
{
    if (c->started) {
        if (!wait_until_finished(c))
            return false;
        pthread_join(c->thread, NULL);
        c->started = false;
        hd_checkpoint_clear_files(c);
    }
    return c->exists || (!c->skips && c->outcome == WRITTEN);
}

int hd_checkpoint_writer_begin(struct hd_checkpoint_writer *c, int64_t iteration)
{
    hd_checkpoint_writer_wait(c);
    c->exists = iteration == c->options.from;
    c->skips = c->started || c->exists;
    if (c->skips) {
        c->skipped = iteration;
        return HD_OK;
    }
    c->iteration = iteration;
    c->deadline_ns = hd_clock_get_ns() + (int64_t)(c->options.timeout_s * NS);
    c->why[0] = '\0';
    return HD_OK;
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void *write_checkpoint(void *arg)
{
    struct hd_checkpoint_writer *c = arg;
    hd_checkpoint_write_files(c);
    c->outcome = c->options.rank == 0 ? hd_checkpoint_join(c) : hd_checkpoint_report(c);
    hd_checkpoint_finish_journals(c);
    pthread_mutex_lock(&c->lock);
    c->finished = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Fails a checkpoint because the one before is still being written, by a thread that owns c. */
static void skip(struct hd_checkpoint_writer *c)
{
    char why[HD_FILE_WHY];
    snprintf(why, sizeof why, "that of iteration %" PRId64 " is still being written", c->iteration);
    if (c->options.rank > 0) {
        hd_checkpoint_send_report(c, c->skipped, why);
        return;
    }
    hd_checkpoint_tell_ranks(c, c->skipped, false);
    hd_checkpoint_warn(c->skipped, 0, why);
}

void hd_checkpoint_writer_submit(struct hd_checkpoint_writer *c, json_t *metadata)
{
    if (c->skips) {
        json_decref(metadata);
        if (!c->exists)
            skip(c);
        return;
    }
    c->metadata = metadata;
    c->finished = false;
    c->started = pthread_create(&c->thread, NULL, write_checkpoint, c) == 0;
    if (!c->started) { /* without a thread, this one writes */
        write_checkpoint(c);
        hd_checkpoint_clear_files(c);
    }
}

/* -- Creation and release ---------------------------------------------------------------------- */

static void release(struct hd_checkpoint_writer *c)
{
    hd_checkpoint_clear_files(c);
    hd_checkpoint_release_journals(c);
    for (int rank = 0; c->messages && rank < c->options.ranks; rank++)
        json_decref(c->messages[rank]);
    hd_free(c->messages);
    hd_free(c->files);
    hd_free(c->state);
    hd_free(c->run);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->send_lock);
    hd_free(c);
}

static void make_locks(struct hd_checkpoint_writer *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* that of hd_clock_get_ns */
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->send_lock, NULL);
}

int hd_checkpoint_writer_create(const struct hd_checkpoint_writer_options *options,
                                struct hd_checkpoint_writer **checkpoints_p)
{
    struct hd_checkpoint_writer *c = hd_alloc(1, sizeof *c);
    if (!c)
        return HD_ERR_NOMEM;
    *c = (struct hd_checkpoint_writer){.options = *options, .awaited = -1};
    make_locks(c);
    c->state = hd_format("%s/ckpt/state", options->dir);
    c->messages = hd_alloc(options->ranks, sizeof(json_t *));
    c->run = options->run ? hd_strdup(options->run) : NULL;
    if (!c->state || !c->messages || (options->run && !c->run)) {
        release(c);
        return HD_ERR_NOMEM;
    }
    if (options->rank == 0)
        hd_checkpoint_clean_up(c, options->from);
    if (options->rank == 0 && options->from >= 0) /* a run that died may not have come so far */
        hd_checkpoint_link_latest(c, options->from);
    *checkpoints_p = c;
    return HD_OK;
}

void hd_checkpoint_writer_destroy(struct hd_checkpoint_writer *c)
{
    if (!c)
        return;
    hd_checkpoint_writer_wait(c);
    pthread_mutex_lock(&c->send_lock);
    c->closed = true;
    pthread_mutex_unlock(&c->send_lock);
    if (!c->started)
        release(c);
    else
        hd_log(HD_LOG_WARN, "the checkpoint of iteration %" PRId64 " is left unfinished",
               c->iteration);
}
