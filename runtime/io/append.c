/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/append.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0666 };

struct hd_appender {
    char *path;
    int fd; /* -1: not open yet */
    int64_t keep, written;
    void *waiting; /* [n_waiting] */
    int64_t n_waiting, capacity;
    bool failing; /* the last write failed, and was warned of */
    int64_t dropped, dropped_bytes;
};

static void warn(struct hd_appender *appender, const char *why)
{
    if (!appender->failing)
        hd_log(HD_LOG_WARN,
               "%s; training continues, and up to %d MiB wait in memory until there is room", why,
               HD_APPEND_WAITING_MAX >> 20);
    appender->failing = true;
}

static void fail(struct hd_appender *appender, const char *what)
{
    char why[HD_FILE_WHY];
    snprintf(why, sizeof why, "%.512s cannot be %s: %s", appender->path, what, strerror(errno));
    warn(appender, why);
}

/* Closes a file after a failure, to be opened again at the next try. */
static void drop(struct hd_appender *appender, const char *what)
{
    fail(appender, what);
    close(appender->fd);
    appender->fd = -1;
}

static void cut(struct hd_appender *appender)
{
    struct stat about = {0};
    if (fstat(appender->fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink > 1) {
        errno = EEXIST; /* no file, or one with other names, whose content somebody may need */
        drop(appender, "continued");
        return;
    }
    appender->written = about.st_size < appender->keep ? about.st_size : appender->keep;
    if (about.st_size < appender->keep && appender->keep != HD_APPEND_AFTER_ALL)
        hd_log(HD_LOG_WARN, "%s has %" PRId64 " bytes of the %" PRId64 " that it had",
               appender->path, (int64_t)about.st_size, appender->keep);
    if (about.st_size > appender->written && ftruncate(appender->fd, appender->written) != 0)
        drop(appender, "cut");
    else
        appender->keep = HD_APPEND_AFTER_ALL; /* when it is opened again */
}

static bool is_open(struct hd_appender *appender)
{
    char why[HD_FILE_WHY];
    if (appender->fd >= 0)
        return true;
    if (hd_path_try_make_parents(appender->path, why) != HD_OK) {
        warn(appender, why);
        return false;
    }
    appender->fd =
        open(appender->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
             FILE_MODE);
    if (appender->fd < 0)
        fail(appender, "made");
    else
        cut(appender);
    return appender->fd >= 0;
}

int hd_appender_create(const char *path, int64_t keep, struct hd_appender **appender_p)
{
    struct hd_appender *appender = hd_alloc(1, sizeof *appender);
    if (!appender)
        return HD_ERR_NOMEM;
    *appender = (struct hd_appender){.path = hd_strdup(path),
                                     .fd = -1,
                                     .keep = keep,
                                     .written = keep == HD_APPEND_AFTER_ALL ? 0 : keep};
    if (!appender->path) {
        hd_free(appender);
        return HD_ERR_NOMEM;
    }
    is_open(appender);
    *appender_p = appender;
    return HD_OK;
}

void hd_appender_add(struct hd_appender *appender, const void *data, int64_t bytes)
{
    if (appender->n_waiting + bytes > HD_APPEND_WAITING_MAX)
        hd_appender_flush(appender);
    if (appender->n_waiting + bytes > HD_APPEND_WAITING_MAX ||
        hd_grow(&appender->waiting, &appender->capacity, appender->n_waiting + bytes, 1) != HD_OK) {
        appender->dropped++;
        appender->dropped_bytes += bytes;
        return;
    }
    memcpy((char *)appender->waiting + appender->n_waiting, data, (size_t)bytes);
    appender->n_waiting += bytes;
}

/* Tells that all is well again, and what it came to. */
static void recover(struct hd_appender *appender)
{
    if (appender->dropped > 0)
        hd_log(HD_LOG_WARN,
               "%s is written again; %" PRId64 " records of %" PRId64 " bytes were dropped",
               appender->path, appender->dropped, appender->dropped_bytes);
    else if (appender->failing)
        hd_log(HD_LOG_WARN, "%s is written again; nothing was dropped", appender->path);
    appender->dropped = appender->dropped_bytes = 0;
    appender->failing = false;
}

void hd_appender_flush(struct hd_appender *appender)
{
    char *waiting = appender->waiting;
    int64_t done = 0;
    if (appender->n_waiting == 0 || !is_open(appender))
        return;
    while (done < appender->n_waiting) {
        const ssize_t n = write(appender->fd, waiting + done, (size_t)(appender->n_waiting - done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += n;
    }
    if (done < appender->n_waiting && errno == ESTALE)
        drop(appender, "written");
    else if (done < appender->n_waiting)
        fail(appender, "written");
    appender->written += done;
    appender->n_waiting -= done;
    if (done > 0)
        memmove(waiting, waiting + done, (size_t)appender->n_waiting);
    if (appender->n_waiting == 0)
        recover(appender);
}

void hd_appender_destroy(struct hd_appender *appender)
{
    if (!appender)
        return;
    hd_appender_flush(appender);
    if (appender->n_waiting > 0)
        hd_log(HD_LOG_WARN, "%s ends early: %" PRId64 " bytes are lost", appender->path,
               appender->n_waiting + appender->dropped_bytes);
    if (appender->fd >= 0)
        close(appender->fd);
    hd_free(appender->waiting);
    hd_free(appender->path);
    hd_free(appender);
}

const char *hd_appender_get_path(const struct hd_appender *appender)
{
    return appender->path;
}

int64_t hd_appender_get_length(const struct hd_appender *appender)
{
    return appender->written + appender->n_waiting;
}
