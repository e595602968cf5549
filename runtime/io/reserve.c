/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/reserve.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* File i is DIR/.reserve/<i>/file: its folder becomes that of the file where there is none, because
 * a full disk may have no room for a folder either. */
struct hd_reserve {
    char *folder;
    int n;
};

static char *folder_of(const struct hd_reserve *reserve, int i)
{
    return hd_format("%s/%d", reserve->folder, i);
}

/* Makes a file of so many bytes. Returns an error number, 0: none. */
static int allocate(const char *path, int64_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    const int error = posix_fallocate(fd, 0, bytes);
    close(fd);
    return error;
}

static void reserve_one(const struct hd_reserve *reserve, int i, int64_t bytes)
{
    char why[HD_FILE_WHY], *path = hd_format("%s/%d/file", reserve->folder, i);
    if (!path)
        return;
    if (hd_path_try_make_parents(path, why) != HD_OK) {
        hd_log(HD_LOG_WARN, "%s: the results have no room reserved", why);
    } else {
        const int error = allocate(path, bytes);
        if (error != 0)
            hd_log(HD_LOG_WARN, "%s has no room for the results, %lld bytes: %s", path,
                   (long long)bytes, strerror(error));
        if (error != 0)
            unlink(path);
    }
    hd_free(path);
}

int hd_reserve_create(const char *dir, const int64_t *bytes, int n, struct hd_reserve **reserve_p)
{
    struct hd_reserve *reserve = hd_alloc(1, sizeof *reserve);
    if (!reserve)
        return HD_ERR_NOMEM;
    *reserve = (struct hd_reserve){.folder = hd_format("%s/.reserve", dir), .n = n};
    if (!reserve->folder) {
        hd_free(reserve);
        return HD_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++)
        reserve_one(reserve, i, bytes[i]);
    *reserve_p = reserve;
    return HD_OK;
}

void hd_reserve_destroy(struct hd_reserve *reserve)
{
    if (!reserve)
        return;
    for (int i = 0; i < reserve->n; i++) {
        char *folder = folder_of(reserve, i);
        if (folder)
            hd_folder_remove(folder);
        hd_free(folder);
    }
    rmdir(reserve->folder);
    hd_free(reserve->folder);
    hd_free(reserve);
}

/* Fills the reserved file, which may be longer. */
static bool fill(const char *reserved, const void *data, int64_t bytes)
{
    const int fd = open(reserved, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int64_t done = 0;
    for (ssize_t n = 1; fd >= 0 && done < bytes && n > 0; done += n > 0 ? n : 0)
        n = pwrite(fd, (const char *)data + done, (size_t)(bytes - done), done);
    const bool filled = fd >= 0 && done == bytes && ftruncate(fd, bytes) == 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return filled;
}

/* Moves the filled file to `path`, in a folder of its own if `path` has none yet. */
static bool move(const char *folder, const char *reserved, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = hd_format("%.*s", (int)(slash - path), path);
    char *named = hd_format("%s/%s", folder, slash + 1);
    bool moved = rename(reserved, path) == 0;
    if (!moved && parent && named && errno == ENOENT && rename(reserved, named) == 0)
        moved = rename(folder, parent) == 0;
    hd_free(parent);
    hd_free(named);
    return moved;
}

int hd_reserve_write(struct hd_reserve *reserve, int i, const char *path, const void *data,
                     int64_t bytes)
{
    char *folder = folder_of(reserve, i);
    char *reserved = folder ? hd_format("%s/file", folder) : NULL;
    const bool written = reserved && fill(reserved, data, bytes) && move(folder, reserved, path);
    hd_free(reserved);
    hd_free(folder);
    return written ? HD_OK : hd_file_write_atomic(path, data, bytes);
}
