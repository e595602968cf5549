/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/secret.h"

#include "runtime/base/input/input.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* randombytes and generichash need no sodium_init to be right; it makes them fast and thread safe,
 * and ends the process if the system has no random numbers. */
void hd_secret_draw(uint8_t secret_p[HD_SECRET_BYTES])
{
    if (sodium_init() < 0)
        abort();
    randombytes_buf(secret_p, HD_SECRET_BYTES);
}

static int count_kinds(const char *text, size_t bytes)
{
    bool seen[UCHAR_MAX + 1] = {false};
    int n = 0;
    for (size_t i = 0; i < bytes; i++) {
        n += !seen[(unsigned char)text[i]];
        seen[(unsigned char)text[i]] = true;
    }
    return n;
}

/* Line ends at the end do not count, so that a file and $(cat FILE) are the same secret. */
static int derive(const char *from, const char *text, size_t bytes,
                  uint8_t secret_p[HD_SECRET_BYTES])
{
    if (bytes < HD_SECRET_TEXT_MIN)
        return hd_fail(HD_ERR_INPUT,
                       "%s holds %zu bytes, expected at least %d random ones; this makes some: "
                       "head -c 32 /dev/urandom | base64",
                       from, bytes, HD_SECRET_TEXT_MIN);
    while (bytes > 0 && text[bytes - 1] == '\n')
        bytes--;
    if (count_kinds(text, bytes) < HD_SECRET_KINDS_MIN)
        return hd_fail(
            HD_ERR_INPUT,
            "%s holds %d different bytes, which anybody can guess, expected random ones; "
            "this makes some: head -c 32 /dev/urandom | base64",
            from, count_kinds(text, bytes));
    crypto_generichash(secret_p, HD_SECRET_BYTES, (const unsigned char *)text, bytes, NULL, 0);
    return HD_OK;
}

static int check_file(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return hd_fail(HD_ERR_INPUT, "the secret %s cannot be read: %m", path);
    if (info.st_uid != geteuid())
        return hd_fail(HD_ERR_INPUT,
                       "the secret %s belongs to user %u, expected user %u, who runs this program",
                       path, info.st_uid, geteuid());
    if (info.st_mode & 077)
        return hd_fail(HD_ERR_INPUT,
                       "the secret %s is open to other users (mode %03o): chmod 600 %s", path,
                       info.st_mode & 0777, path);
    return HD_OK;
}

static int read_file(const char *path, uint8_t secret_p[HD_SECRET_BYTES])
{
    char text[HD_SECRET_FILE_MAX + 1], why[HD_INPUT_WHY];
    const int fd = hd_input_open(path, HD_INPUT_NAMED, why);
    if (fd < 0)
        return hd_fail(HD_ERR_INPUT, "the secret %s %s", path, why);
    int status = check_file(fd, path);
    const ssize_t bytes = status == HD_OK ? read(fd, text, sizeof text) : 0;
    close(fd);
    HD_TRY(status);
    if (bytes < 0 || bytes > HD_SECRET_FILE_MAX)
        return hd_fail(HD_ERR_INPUT, "the secret %s: %s", path,
                       bytes < 0 ? strerror(errno) : "more than 4096 bytes");
    status = derive(path, text, (size_t)bytes, secret_p);
    sodium_memzero(text, sizeof text);
    return status;
}

/* All ranks of a node read one open file, so none may move its offset. */
static int read_descriptor(const char *text, uint8_t secret_p[HD_SECRET_BYTES])
{
    uint8_t secret[HD_SECRET_BYTES];
    char *end;
    const long fd = strtol(text, &end, 10);
    if (*end != '\0' || fd < 3 || fd > 1 << 20 ||
        pread((int)fd, secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return hd_fail(HD_ERR_INPUT,
                       "HD_SECRET_FD=%.40s in the environment: expected a descriptor from which "
                       "this rank can read a secret",
                       text);
    close((int)fd);
    unsetenv("HD_SECRET_FD");
    memcpy(secret_p, secret, sizeof secret);
    return HD_OK;
}

int hd_secret_read(const char *file, bool *found_p, uint8_t secret_p[HD_SECRET_BYTES])
{
    const char *fd = getenv("HD_SECRET_FD"), *text = getenv("HEDDLE_SECRET"),
               *named = getenv("HEDDLE_SECRET_FILE");
    if (fd && *fd)
        HD_TRY(read_descriptor(fd, secret_p));
    else if (file)
        HD_TRY(read_file(file, secret_p));
    else if (text && *text)
        HD_TRY(derive("HEDDLE_SECRET", text, strlen(text), secret_p));
    else if (named && *named)
        HD_TRY(read_file(named, secret_p));
    else {
        *found_p = false;
        return HD_OK;
    }
    *found_p = true;
    return HD_OK;
}

int hd_secret_share(const uint8_t secret[HD_SECRET_BYTES], int *fd_p)
{
    int fd = memfd_create("heddle-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, secret, HD_SECRET_BYTES) != HD_SECRET_BYTES ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return hd_fail(HD_ERR_SYSTEM, "cannot hand the ranks a secret: %s", strerror(error));
    }
    *fd_p = fd;
    return HD_OK;
}
