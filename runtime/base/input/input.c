/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *hd_input_get_kind(mode_t mode)
{
    return S_ISREG(mode)    ? "a regular file"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* Without a writer, or without anybody who reads, only the open of a regular file cannot wait. */
static int flags_of(enum hd_input from)
{
    return O_RDONLY | O_CLOEXEC | (from == HD_INPUT_COMMAND ? 0 : O_NONBLOCK | O_NOCTTY) |
           (from == HD_INPUT_RUN ? O_NOFOLLOW : 0);
}

static bool is_accepted(mode_t mode, enum hd_input from)
{
    return S_ISREG(mode) || (from == HD_INPUT_COMMAND && !S_ISDIR(mode));
}

int hd_input_open(const char *path, enum hd_input from, char why[HD_INPUT_WHY])
{
    struct stat is = {0};
    const int fd = open(path, flags_of(from));
    if (fd >= 0 && fstat(fd, &is) == 0 && is_accepted(is.st_mode, from))
        return fd;
    int reason = errno;
    if (reason == ELOOP && from == HD_INPUT_RUN)
        snprintf(why, HD_INPUT_WHY, "is a symbolic link, which is not followed in a run directory");
    else if (fd < 0 || is.st_mode == 0)
        snprintf(why, HD_INPUT_WHY, "cannot be read: %s", strerror(reason));
    else
        snprintf(why, HD_INPUT_WHY, "is %s, expected a regular file",
                 hd_input_get_kind(is.st_mode));
    if (is.st_mode != 0)
        reason = S_ISDIR(is.st_mode) ? EISDIR : EINVAL;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return -1;
}

FILE *hd_input_open_stream(const char *path, enum hd_input from, char why[HD_INPUT_WHY])
{
    const int fd = hd_input_open(path, from, why);
    FILE *stream = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (fd >= 0 && !stream) {
        const int reason = errno;
        snprintf(why, HD_INPUT_WHY, "cannot be read: %s", strerror(reason));
        close(fd);
        errno = reason;
    }
    return stream;
}

bool hd_input_check(const char *path, enum hd_input from, char why[HD_INPUT_WHY])
{
    const int fd = hd_input_open(path, from, why);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
