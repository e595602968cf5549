/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/temp_dir.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns 0, or an errno: there is no room for so many bytes. */
static int try_room(const char *dir, int64_t bytes)
{
    const int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) /* this file system has no files without a name */
        return errno == EOPNOTSUPP ? 0 : errno;
    const int error = bytes > 0 ? posix_fallocate(fd, 0, bytes) : 0;
    close(fd);
    return error;
}

int hd_temp_dir_make(int64_t bytes, char **path_p)
{
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    char *path = hd_format("%s/heddle-XXXXXX", parent);
    if (!path)
        return HD_ERR_NOMEM;
    const bool made = mkdtemp(path) != NULL;
    errno = made ? try_room(path, bytes) : errno;
    if (errno == 0) {
        *path_p = path;
        return HD_OK;
    }
    hd_fail(HD_ERR_SYSTEM,
            "there has to be room for a temporary folder of %lld bytes in %s: %m (set TMPDIR to "
            "another folder)",
            (long long)bytes, parent);
    if (made)
        hd_temp_dir_remove(path);
    else
        hd_free(path);
    return HD_ERR_SYSTEM;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

void hd_temp_dir_remove(char *path)
{
    enum { FOLDERS_OPEN = 16 };
    if (path && nftw(path, remove_entry, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS) != 0)
        hd_log(HD_LOG_WARN, "%s cannot be removed: %m", path);
    hd_free(path);
}
