/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/reserve.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file is DIR/.reserve/<name>/file: its folder becomes that of the file where there is none,
 * because a full disk may have no room for a folder either. */
static char *format_folder(const char *dir, const char *name)
{
    return hd_format("%s/.reserve/%s", dir, name);
}

/* Makes a file of so many bytes. Returns an error number, 0: none. */
static int allocate(const char *path, int64_t bytes)
{
    unlink(path); /* of a run that was killed */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    const int error = posix_fallocate(fd, 0, bytes);
    close(fd);
    return error;
}

void hd_reserve_make(const char *dir, const char *name, int64_t bytes)
{
    char why[HD_FILE_WHY], *path = hd_format("%s/.reserve/%s/file", dir, name);
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

void hd_reserve_remove(const char *dir)
{
    char *folder = hd_format("%s/.reserve", dir);
    DIR *list = folder ? opendir(folder) : NULL;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        char *inside = entry->d_name[0] == '.' ? NULL : format_folder(dir, entry->d_name);
        char *file = inside ? hd_format("%s/file", inside) : NULL;
        if (file) {
            unlink(file);
            rmdir(inside); /* stays when somebody has put something into it */
        }
        hd_free(file);
        hd_free(inside);
    }
    if (list)
        closedir(list);
    if (folder)
        rmdir(folder);
    hd_free(folder);
}

/* Fills the reserved file, which may be longer. */
static bool fill(const char *reserved, const void *data, int64_t bytes)
{
    const int fd = open(reserved, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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

int hd_reserve_write(const char *dir, const char *name, const char *path, const void *data,
                     int64_t bytes)
{
    char *folder = format_folder(dir, name);
    char *reserved = folder ? hd_format("%s/file", folder) : NULL;
    const bool written = reserved && fill(reserved, data, bytes) && move(folder, reserved, path);
    hd_free(reserved);
    hd_free(folder);
    return written ? HD_OK : hd_file_write_atomic(path, data, bytes);
}
