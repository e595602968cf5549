/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/base/files.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_MODE = 0777, FILE_MODE = 0666, TRIES = 100000 };

/* Says why an operation on a file failed, by errno. */
static int fail_quietly(char why[HD_FILE_WHY], const char *path, const char *what)
{
    snprintf(why, HD_FILE_WHY, "%.*s %s: %s", HD_FILE_WHY - 128, path, what, strerror(errno));
    return HD_ERR_SYSTEM;
}

int hd_path_try_make_parents(const char *path, char why[HD_FILE_WHY])
{
    char *copy = hd_strdup(path);
    if (!copy)
        return HD_ERR_NOMEM;
    int status = HD_OK;
    for (char *slash = copy; status == HD_OK && (slash = strchr(slash, '/')); slash++) {
        if (slash == copy) /* the root */
            continue;
        *slash = '\0';
        if (mkdir(copy, DIRECTORY_MODE) != 0 && errno != EEXIST)
            status = fail_quietly(why, copy, "cannot be made");
        *slash = '/';
    }
    hd_free(copy);
    return status;
}

int hd_path_make_parents(const char *path)
{
    char why[HD_FILE_WHY];
    const int status = hd_path_try_make_parents(path, why);
    return status == HD_ERR_SYSTEM ? hd_fail(status, "directory %s", why) : status;
}

bool hd_folder_exists(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    errno = EEXIST;
    return S_ISDIR(about.st_mode);
}

bool hd_folder_remove(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        unlinkat(dirfd(folder), entry->d_name, 0); /* not "." and "..", which are no files */
    if (folder)
        closedir(folder);
    return rmdir(path) == 0;
}

int hd_folder_sync(const char *path, char why[HD_FILE_WHY])
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int status =
        fd >= 0 && fsync(fd) == 0 ? HD_OK : fail_quietly(why, path, "cannot be kept");
    if (fd >= 0)
        close(fd);
    return status;
}

bool hd_folder_is_empty(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    const struct dirent *entry;
    int entries = 0;
    while ((entry = readdir(directory)))
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return entries == 0;
}

int hd_path_check_unused(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0 || hd_folder_is_empty(path))
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%s exists and is not an empty directory: remove it or name another", path);
}

/* Tells where a run directory could not be made, for the reason of errno. */
static int report_unmade(const char *wanted)
{
    const int reason = errno;
    char here[PATH_MAX] = "";
    const bool relative = wanted[0] != '/' && getcwd(here, sizeof here);
    return hd_fail(HD_ERR_SYSTEM,
                   "the run directory %s%s%s cannot be made: %s; --dir names another", here,
                   relative ? "/" : "", wanted, strerror(reason));
}

static int create_exact(const char *wanted)
{
    if (mkdir(wanted, DIRECTORY_MODE) == 0)
        return HD_OK;
    if (errno != EEXIST)
        return report_unmade(wanted);
    return hd_path_check_unused(wanted);
}

static int create_numbered(const char *wanted, char **dir_p)
{
    for (int i = 0; i < TRIES; i++) {
        char *name = i == 0 ? hd_strdup(wanted) : hd_format("%s_%d", wanted, i);
        if (!name)
            return HD_ERR_NOMEM;
        if (mkdir(name, DIRECTORY_MODE) == 0) {
            *dir_p = name;
            return HD_OK;
        }
        int error = errno;
        hd_free(name);
        errno = error;
        if (error != EEXIST)
            return report_unmade(wanted);
    }
    return hd_fail(HD_ERR_SYSTEM, "%s and %d numbered directories exist: clean up", wanted, TRIES);
}

/* Returns a copy without slashes at the end, which would make "name/" and then "name/_1". */
static char *trim(const char *path)
{
    char *copy = hd_strdup(path);
    for (size_t n = copy ? strlen(copy) : 0; n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    return copy;
}

int hd_rundir_create(const char *wanted, bool exact, char **dir_p)
{
    if (*wanted == '\0')
        return hd_fail(HD_ERR_INPUT, "a run directory needs a name");
    char *name = trim(wanted);
    if (!name)
        return HD_ERR_NOMEM;
    int status = hd_path_make_parents(name);
    if (status == HD_OK)
        status = exact ? create_exact(name) : create_numbered(name, dir_p);
    if (status == HD_OK && exact)
        *dir_p = name;
    else
        hd_free(name);
    return status;
}

int hd_rundir_lock(const char *dir, int *fd_p)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be opened: %m", dir);
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
        close(fd);
        return hd_fail(HD_ERR_INPUT,
                       "another run is writing into %s: stop it, or name another --dir", dir);
    }
    if (!locked) /* not all file systems can */
        hd_log(HD_LOG_WARN, "%s cannot be locked, so nothing keeps a second run from it: %m", dir);
    *fd_p = fd;
    return HD_OK;
}

static atomic_int_fast64_t blocks_written;

int64_t hd_file_count_blocks(void)
{
    return atomic_load(&blocks_written);
}

static bool write_block(int fd, const char *data, int64_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, (size_t)bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        bytes -= n;
    }
    return true;
}

/* A block is on the disk before the next is written, so that a slow one is seen to go on. */
static bool write_all(int fd, const char *data, int64_t bytes)
{
    enum { BLOCK = 16 << 20 };
    for (int64_t at = 0; at < bytes; at += BLOCK) {
        const int64_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        if (!write_block(fd, data + at, n))
            return false;
        if (n == BLOCK) /* what it cannot say, the sync at the end says */
            sync_file_range(fd, at, n, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        atomic_fetch_add(&blocks_written, 1);
    }
    return true;
}

/* Opens a file without a name, so that a process that dies leaves nothing; where the file system
 * has no such files, a new one called `beside`, never one that somebody else put there. */
static int open_unnamed(const char *beside, bool *named_p)
{
    const char *slash = strrchr(beside, '/');
    char *folder = slash ? hd_format("%.*s/", (int)(slash - beside), beside) : hd_strdup(".");
    int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, FILE_MODE) : -1;
    hd_free(folder);
    *named_p = fd < 0;
    if (fd >= 0)
        return fd;
    unlink(beside); /* left by a process that died and had our pid, as in containers */
    return open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
}

static bool give_name(int fd, const char *beside)
{
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
    unlink(beside);
    return linkat(AT_FDCWD, unnamed, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0;
}

static int write_and_rename(const char *path, const char *beside, const void *data, int64_t bytes,
                            char why[HD_FILE_WHY])
{
    bool named;
    int fd = open_unnamed(beside, &named);
    if (fd < 0)
        return fail_quietly(why, path, "cannot be made");
    bool done = write_all(fd, data, bytes) && fsync(fd) == 0 && (named || give_name(fd, beside)) &&
                rename(beside, path) == 0;
    int status = HD_OK;
    if (!done) {
        status = fail_quietly(why, path, "cannot be written");
        unlink(beside);
    }
    close(fd);
    return status;
}

int hd_file_try_write_atomic(const char *path, const void *data, int64_t bytes,
                             char why[HD_FILE_WHY])
{
    snprintf(why, HD_FILE_WHY, "no memory");
    HD_TRY(hd_path_try_make_parents(path, why));
    char *beside = hd_format("%s.%d.tmp", path, (int)getpid());
    if (!beside)
        return HD_ERR_NOMEM;
    int status = write_and_rename(path, beside, data, bytes, why);
    hd_free(beside);
    return status;
}

int hd_file_write_atomic(const char *path, const void *data, int64_t bytes)
{
    char why[HD_FILE_WHY];
    const int status = hd_file_try_write_atomic(path, data, bytes, why);
    return status == HD_ERR_SYSTEM ? hd_fail(status, "%s", why) : status;
}

/* -- Drafts ------------------------------------------------------------------------------------ */

static int open_draft(struct hd_file_draft *draft, const char *path)
{
    char why[HD_FILE_WHY];
    draft->path = hd_strdup(path);
    draft->beside = hd_format("%s.%d.tmp", path, (int)getpid());
    if (!draft->path || !draft->beside)
        return HD_ERR_NOMEM;
    HD_TRY(hd_path_make_parents(path));
    const int fd = open_unnamed(draft->beside, &draft->named);
    draft->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (draft->file)
        return HD_OK;
    const int status = fail_quietly(why, path, "cannot be made");
    if (fd >= 0)
        close(fd);
    return hd_fail(status, "%s", why);
}

int hd_file_draft_open(const char *path, struct hd_file_draft *draft_p)
{
    *draft_p = (struct hd_file_draft){0};
    const int status = open_draft(draft_p, path);
    if (status != HD_OK)
        hd_file_draft_discard(draft_p);
    return status;
}

int hd_file_draft_publish(struct hd_file_draft *draft)
{
    char why[HD_FILE_WHY];
    const int fd = fileno(draft->file);
    if (!ferror(draft->file) && fflush(draft->file) == 0 && fsync(fd) == 0 &&
        (draft->named || give_name(fd, draft->beside)) && rename(draft->beside, draft->path) == 0) {
        draft->named = false;
        return HD_OK;
    }
    const int status = fail_quietly(why, draft->path, "cannot be written");
    unlink(draft->beside);
    return hd_fail(status, "%s", why);
}

void hd_file_draft_discard(struct hd_file_draft *draft)
{
    if (draft->file) {
        fclose(draft->file);
        if (draft->named)
            unlink(draft->beside);
    }
    hd_free(draft->path);
    hd_free(draft->beside);
    *draft = (struct hd_file_draft){0};
}

int hd_file_read(const char *path, enum hd_input from, char **content_p, int64_t *bytes_p)
{
    struct stat about = {0};
    char why[HD_INPUT_WHY];
    const int fd = hd_input_open(path, from, why);
    if (fd < 0)
        return hd_fail(HD_ERR_INPUT, "%s %s", path, why);
    int64_t done = 0;
    ssize_t n = fstat(fd, &about);
    char *content = hd_alloc(about.st_size + 1, 1);
    while (content && n >= 0 && done < about.st_size) {
        n = read(fd, content + done, (size_t)(about.st_size - done));
        if (n == 0)
            break;
        done += n > 0 ? n : 0;
    }
    int status = content ? HD_OK : HD_ERR_NOMEM;
    if (n < 0)
        status = hd_fail(HD_ERR_INPUT, "%s cannot be read: %m", path);
    close(fd);
    if (status != HD_OK) {
        hd_free(content);
        return status;
    }
    *content_p = content;
    if (bytes_p)
        *bytes_p = done;
    return HD_OK;
}
