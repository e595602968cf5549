/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks report to rank 0, which joins their lists to a manifest, makes the checkpoint visible
 * and says so to the others. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWER_S = 5 }; /* rank 0 has this long, after the deadline, to say that it gives up */

/* -- Messages ---------------------------------------------------------------------------------- */

void hd_checkpoint_writer_receive(struct hd_checkpoint_writer *c, int rank, const void *data,
                                  int64_t bytes)
{
    json_t *message = c ? json_loadb(data, (size_t)bytes, 0, NULL) : NULL;
    if (!json_is_object(message)) {
        json_decref(message);
        return;
    }
    pthread_mutex_lock(&c->lock);
    json_decref(c->messages[rank]);
    c->messages[rank] = message;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void send_message(struct hd_checkpoint_writer *c, int rank, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    pthread_mutex_lock(&c->send_lock);
    if (text && !c->closed) /* a rank that is gone is reported by whoever watches the ranks */
        c->options.send(c->options.arg, rank, text, (int64_t)strlen(text));
    pthread_mutex_unlock(&c->send_lock);
    free(text);
}

/* Returns a rank's message about this checkpoint, owned by the caller; NULL: none came in time. */
static json_t *wait_for_message(struct hd_checkpoint_writer *c, int rank, int64_t deadline_ns)
{
    const struct timespec end = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    json_t *message = NULL;
    pthread_mutex_lock(&c->lock);
    c->awaited = rank;
    for (int error = 0; !message && !c->abandoned && error == 0;) {
        json_t *newest = c->messages[rank];
        if (json_integer_value(json_object_get(newest, "iteration")) == c->iteration && newest)
            message = json_incref(newest);
        else
            error = pthread_cond_timedwait(&c->changed, &c->lock, &end);
    }
    c->awaited = -1;
    pthread_mutex_unlock(&c->lock);
    return message;
}

static bool is_abandoned(struct hd_checkpoint_writer *c)
{
    pthread_mutex_lock(&c->lock);
    const bool abandoned = c->abandoned;
    pthread_mutex_unlock(&c->lock);
    return abandoned;
}

/* -- The folder -------------------------------------------------------------------------------- */

/* Replaces the link by a rename, so that there always is one. */
void hd_checkpoint_link_latest(const struct hd_checkpoint_writer *c, int64_t iteration)
{
    char *beside = hd_format("%s/.latest", c->state), *latest = hd_format("%s/latest", c->state);
    char *target = hd_format("iteration_%" PRId64, iteration);
    if (beside && latest && target) {
        struct stat is;
        unlink(beside);
        if (lstat(latest, &is) == 0 && !S_ISLNK(is.st_mode))
            hd_log(HD_LOG_WARN, "%s is %s, not the link to the newest checkpoint", latest,
                   hd_input_get_kind(is.st_mode));
        else if (symlink(target, beside) == 0 && rename(beside, latest) != 0)
            unlink(beside);
    }
    hd_free(beside);
    hd_free(latest);
    hd_free(target);
}

/* Finds out whether rank 0 sees a rank's files, as it does not if the ranks do not share a folder.
 */
static int check_visible(const struct hd_checkpoint_writer *c, json_t *files, char why[HD_FILE_WHY])
{
    char *part = hd_checkpoint_format_path(c->state, c->iteration, ".part");
    const char *name;
    json_t *about;
    int status = part ? HD_OK : HD_ERR_NOMEM;
    json_object_foreach(files, name, about) {
        struct stat is = {0};
        char *path = status == HD_OK ? hd_format("%s/%s", part, name) : NULL;
        if (path && (stat(path, &is) != 0 ||
                     is.st_size != json_integer_value(json_object_get(about, "bytes")))) {
            snprintf(why, HD_FILE_WHY,
                     "%.512s, which it has written, is not what rank 0 sees: all ranks need to see "
                     "the run directory",
                     path);
            status = HD_ERR_SYSTEM;
        }
        hd_free(path);
    }
    hd_free(part);
    return status;
}

static int make_visible(const struct hd_checkpoint_writer *c, char why[HD_FILE_WHY])
{
    char *part = hd_checkpoint_format_path(c->state, c->iteration, ".part");
    char *whole = hd_checkpoint_format_path(c->state, c->iteration, "");
    int status = part && whole ? hd_folder_sync(part, why) : HD_ERR_NOMEM;
    if (status == HD_OK && rename(part, whole) != 0) {
        snprintf(why, HD_FILE_WHY, "%.512s cannot be made: %s", whole, strerror(errno));
        status = HD_ERR_SYSTEM;
    }
    if (status == HD_OK) {
        status = hd_folder_sync(c->state, why);
        if (status != HD_OK) /* it may not be on the disk, and its journals are given up */
            rename(whole, part);
    }
    hd_free(part);
    hd_free(whole);
    return status;
}

/* -- Joining ----------------------------------------------------------------------------------- */

/* Adds what a rank has written to the manifest. Returns false with the reason if it has failed. */
static bool add_report(struct hd_checkpoint_writer *c, int rank, json_t *manifest,
                       char why[HD_FILE_WHY])
{
    json_t *report = wait_for_message(c, rank, c->deadline_ns), *files, *journals, *journal_files;
    const char *said = json_string_value(json_object_get(report, "why"));
    bool joined = false;
    if (said)
        snprintf(why, HD_FILE_WHY, "%s", said);
    else if (!report)
        snprintf(why, HD_FILE_WHY, "it has not written its files within %.0f s",
                 c->options.timeout_s);
    else if (json_unpack(report, "{s:o, s:o, s:o}", "files", &files, "journals", &journals,
                         "journal_files", &journal_files) != 0)
        snprintf(why, HD_FILE_WHY, "it does not say what it has written");
    else if (check_visible(c, files, why) == HD_OK) {
        json_object_update(json_object_get(manifest, "files"), files);
        json_object_update(json_object_get(manifest, "journals"), journals);
        json_object_update(json_object_get(manifest, "journal_files"), journal_files);
        joined = true;
    }
    json_decref(report);
    return joined;
}

/* Returns the rank that has failed the checkpoint, with the reason in `why`, or -1. */
static int join_reports(struct hd_checkpoint_writer *c, char why[HD_FILE_WHY])
{
    json_t *manifest = c->why[0] ? NULL : hd_checkpoint_list_files(c);
    int culprit = c->why[0] ? 0 : -1;
    memcpy(why, c->why, HD_FILE_WHY);
    for (int rank = 1; rank < c->options.ranks; rank++) {
        char said[HD_FILE_WHY] = "";
        if (add_report(c, rank, manifest, said) || culprit >= 0)
            continue;
        culprit = rank;
        memcpy(why, said, HD_FILE_WHY);
    }
    if (culprit < 0 &&
        (hd_checkpoint_write_manifest(c, manifest, why) != HD_OK || make_visible(c, why) != HD_OK))
        culprit = 0;
    json_decref(manifest);
    return culprit;
}

enum outcome hd_checkpoint_join(struct hd_checkpoint_writer *c)
{
    char why[HD_FILE_WHY];
    const int culprit = join_reports(c, why);
    hd_checkpoint_tell_ranks(c, c->iteration, culprit < 0);
    if (culprit < 0) {
        hd_checkpoint_link_latest(c, c->iteration);
        hd_checkpoint_remove_old(c);
        return WRITTEN;
    }
    hd_checkpoint_remove_iteration(c->state, c->iteration, ".part");
    if (!is_abandoned(c))
        hd_checkpoint_warn(c->iteration, culprit, why);
    return GIVEN_UP;
}

void hd_checkpoint_warn(int64_t iteration, int rank, const char *why)
{
    hd_log(HD_LOG_WARN,
           "the checkpoint of iteration %" PRId64
           " could not be written by rank %d: %s; training continues, earlier checkpoints are kept",
           iteration, rank, why);
}

void hd_checkpoint_tell_ranks(struct hd_checkpoint_writer *c, int64_t iteration, bool written)
{
    json_t *message =
        json_pack("{s:I, s:b}", "iteration", (json_int_t)iteration, "written", written);
    for (int rank = 1; rank < c->options.ranks; rank++)
        send_message(c, rank, message);
    json_decref(message);
}

/* -- Reporting --------------------------------------------------------------------------------- */

void hd_checkpoint_send_report(struct hd_checkpoint_writer *c, int64_t iteration, const char *why)
{
    json_t *report = why[0] ? json_pack("{s:s}", "why", why) : hd_checkpoint_list_files(c);
    if (!report) /* jansson takes no text that is no UTF-8, and a path may be such */
        report = json_pack("{s:s}", "why", "its files cannot be named");
    json_object_set_new(report, "iteration", json_integer(iteration));
    send_message(c, 0, report);
    json_decref(report);
}

enum outcome hd_checkpoint_report(struct hd_checkpoint_writer *c)
{
    hd_checkpoint_send_report(c, c->iteration, c->why);
    json_t *answer = wait_for_message(c, 0, c->deadline_ns + ANSWER_S * INT64_C(1000000000));
    const bool written = json_is_true(json_object_get(answer, "written"));
    if (!answer && !is_abandoned(c))
        hd_log(HD_LOG_WARN,
               "rank 0 has not said whether the checkpoint of iteration %" PRId64
               " is written; training continues",
               c->iteration);
    json_decref(answer);
    return written ? WRITTEN : answer ? GIVEN_UP : UNKNOWN;
}
