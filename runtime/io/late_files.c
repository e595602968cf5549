/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/late_files.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <string.h>

static void release(struct hd_late_files *late, int64_t i)
{
    struct hd_late_file *file = &late->files[i];
    late->bytes -= file->bytes;
    hd_free(file->path);
    hd_free(file->data);
    late->n--;
    memmove(file, file + 1, (size_t)(late->n - i) * sizeof *file);
}

/* Returns whether something waited for the same path, which it does no longer. */
static bool forget(struct hd_late_files *late, const char *path)
{
    for (int64_t i = 0; i < late->n; i++)
        if (strcmp(late->files[i].path, path) == 0) {
            release(late, i);
            return true;
        }
    return false;
}

/* Returns the oldest spare file, or -1. */
static int64_t find_spare(const struct hd_late_files *late)
{
    for (int64_t i = 0; i < late->n; i++)
        if (late->files[i].spare)
            return i;
    return -1;
}

static bool keep(struct hd_late_files *late, const char *path, const void *data, int64_t bytes,
                 bool spare)
{
    struct hd_late_file file = {hd_strdup(path), hd_alloc(bytes, 1), bytes, spare};
    if (!file.path || !file.data ||
        hd_grow((void **)&late->files, &late->capacity, late->n + 1, sizeof file) != HD_OK) {
        hd_free(file.path);
        hd_free(file.data);
        return false;
    }
    memcpy(file.data, data, (size_t)bytes);
    late->files[late->n++] = file;
    late->bytes += bytes;
    return true;
}

void hd_late_files_put(struct hd_late_files *late, const char *path, const void *data,
                       int64_t bytes, bool spare)
{
    char why[HD_FILE_WHY];
    const bool waited = forget(late, path);
    if (hd_file_try_write_atomic(path, data, bytes, why) == HD_OK)
        return;
    if (!waited && (!spare || find_spare(late) < 0)) /* once for all spare ones */
        hd_log(HD_LOG_WARN, "%s; training continues, and it is written when there is room", why);
    if (!keep(late, path, data, bytes, spare))
        hd_log(HD_LOG_WARN, "%s is given up: there is no memory to keep it", path);
    while (late->bytes > HD_LATE_FILES_MAX && late->n > 1) {
        const int64_t least = find_spare(late) < 0 ? 0 : find_spare(late);
        hd_log(HD_LOG_WARN, "%s is given up: more than %d MiB wait for room",
               late->files[least].path, HD_LATE_FILES_MAX >> 20);
        release(late, least);
    }
}

/* Tries to write files of one kind, the oldest first. With `last`, releases and warns of those that
 * are lost. */
static void write_kind(struct hd_late_files *late, bool spare, bool last)
{
    char why[HD_FILE_WHY];
    for (int64_t i = 0; i < late->n;) {
        const struct hd_late_file *file = &late->files[i];
        const bool tried = file->spare == spare;
        const bool written =
            tried && hd_file_try_write_atomic(file->path, file->data, file->bytes, why) == HD_OK;
        if (written)
            hd_log(HD_LOG_WARN, "%s is written now", file->path);
        else if (tried && last)
            hd_log(HD_LOG_WARN, "%s, and is lost", why);
        if (written || (tried && last))
            release(late, i);
        else
            i++;
    }
}

void hd_late_files_write(struct hd_late_files *late)
{
    write_kind(late, false, false);
    write_kind(late, true, false);
}

void hd_late_files_end(struct hd_late_files *late)
{
    write_kind(late, false, true);
    write_kind(late, true, true);
    hd_free(late->files);
}
