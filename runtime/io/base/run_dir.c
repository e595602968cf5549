/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/base/run_dir.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/json_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- Names ------------------------------------------------------------------------------------- */

bool hd_run_dir_parse_name(const char *name, const char *suffix, int64_t *number_p)
{
    static const char prefix[] = "iteration_";
    const char *digits = name + sizeof prefix - 1;
    char *end;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || *digits < '0' || *digits > '9' ||
        (*digits == '0' && digits[1] >= '0' && digits[1] <= '9'))
        return false;
    errno = 0;
    *number_p = strtoll(digits, &end, 10);
    return errno == 0 && strcmp(end, suffix) == 0;
}

bool hd_run_dir_has(int folder, const char *name, mode_t type)
{
    struct stat is;
    return fstatat(folder, name, &is, AT_SYMLINK_NOFOLLOW) == 0 && (is.st_mode & S_IFMT) == type;
}

/* -- Checks ------------------------------------------------------------------------------------ */

static int refuse(const char *dir, const char *name, mode_t mode, const char *expected)
{
    return hd_fail(HD_ERR_INPUT, "%s/%s is %s, expected %s: move it out of the run directory", dir,
                   name, hd_input_get_kind(mode), expected);
}

static int check_folder(const char *dir, int fd, const char *name)
{
    struct stat is;
    if (fstatat(fd, name, &is, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? HD_OK
                   : hd_fail(HD_ERR_SYSTEM, "%s/%s cannot be read: %m", dir, name);
    return S_ISDIR(is.st_mode) ? HD_OK : refuse(dir, name, is.st_mode, "a directory");
}

/* A link at the name of weights that are written at the end. */
static int check_weights(const char *dir, int fd)
{
    const int ckpt = openat(fd, "ckpt", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = ckpt >= 0 ? fdopendir(ckpt) : NULL;
    int status = HD_OK;
    int64_t number;
    for (const struct dirent *entry; status == HD_OK && folder && (entry = readdir(folder));)
        if (hd_run_dir_parse_name(entry->d_name, "", &number) &&
            hd_run_dir_has(ckpt, entry->d_name, S_IFLNK))
            status = hd_fail(HD_ERR_INPUT,
                             "%s/ckpt/%s is a symbolic link, expected a directory: "
                             "move it out of the run directory",
                             dir, entry->d_name);
    if (folder)
        closedir(folder);
    return status;
}

int hd_run_dir_check(const char *dir)
{
    static const char *const folders[] = {"log",       "log/serial", "ckpt",
                                          "ckpt/best", "ckpt/state", "ckpt/state/journal",
                                          "video",     ".reserve",   "failed"};
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return hd_fail(HD_ERR_INPUT, "%s cannot be read: %m", dir);
    int status = HD_OK;
    for (size_t i = 0; status == HD_OK && i < sizeof folders / sizeof *folders; i++)
        status = check_folder(dir, fd, folders[i]);
    if (status == HD_OK)
        status = check_weights(dir, fd);
    close(fd);
    return status;
}

static int check_log(const char *folder, const struct stat *is, const char *name)
{
    if (!S_ISREG(is->st_mode))
        return refuse(folder, name, is->st_mode, "a log");
    if (is->st_nlink <= 1)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%s/%s has other names (hard links), under which it would be cut and written, "
                   "too: put a copy in its place",
                   folder, name);
}

/* Checks the entries of a folder of logs, and once those of the folders in it. */
static int check_logs(const char *path, bool below)
{
    DIR *folder = opendir(path);
    int status = folder || errno == ENOENT ? HD_OK : hd_fail(HD_ERR_SYSTEM, "%s: %m", path);
    for (const struct dirent *entry; status == HD_OK && folder && (entry = readdir(folder));) {
        struct stat is;
        if (entry->d_name[0] == '.')
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &is, AT_SYMLINK_NOFOLLOW) != 0) {
            status = hd_fail(HD_ERR_SYSTEM, "%s/%s cannot be read: %m", path, entry->d_name);
        } else if (!S_ISDIR(is.st_mode)) {
            status = check_log(path, &is, entry->d_name);
        } else if (!below) {
            char *inside = hd_format("%s/%s", path, entry->d_name);
            status = inside ? check_logs(inside, true) : HD_ERR_NOMEM;
            hd_free(inside);
        }
    }
    if (folder)
        closedir(folder);
    return status;
}

int hd_run_dir_check_logs(const char *dir)
{
    char *log = hd_format("%s/log", dir);
    int status = log ? hd_run_dir_check(dir) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = check_logs(log, false);
    hd_free(log);
    return status;
}

/* -- What a run left --------------------------------------------------------------------------- */

int hd_run_dir_read_result(const char *dir, json_t **result_p)
{
    char why[HD_FILE_WHY], *path = hd_format("%s/result.json", dir);
    if (!path)
        return HD_ERR_NOMEM;
    json_t *result = hd_json_file_read(path, HD_INPUT_RUN, why);
    int status = HD_OK;
    if (!result && errno != ENOENT)
        status = hd_fail(errno == 0 ? HD_ERR_FORMAT : HD_ERR_INPUT, "%s", why);
    else if (result && !json_is_object(result))
        status = hd_fail(HD_ERR_FORMAT, "%s:1: an object is expected", path);
    hd_free(path);
    if (status == HD_OK)
        *result_p = result;
    else
        json_decref(result);
    return status;
}

/* Returns the number of the last iteration of which `ckpt` has weights, or -1. */
static int64_t find_last_iteration(const char *ckpt)
{
    DIR *folder = opendir(ckpt);
    int64_t last = -1, number;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (hd_run_dir_parse_name(entry->d_name, "", &number) && number > last &&
            hd_run_dir_has(dirfd(folder), entry->d_name, S_IFDIR))
            last = number;
    if (folder)
        closedir(folder);
    return last;
}

/* Returns whether there may be a file: what cannot be looked at for a while is no reason to take
 * other weights, and to open it tells why. */
static bool may_exist(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static bool is_weights_name(const char *name)
{
    int64_t number;
    return strcmp(name, "ckpt/best/policy.safetensors") == 0 ||
           (strncmp(name, "ckpt/", 5) == 0 &&
            hd_run_dir_parse_name(name + 5, "/policy.safetensors", &number));
}

/* Stores the path of the weights that a run has named as its best in result.json, if there are. */
static int find_named_weights(const char *dir, char **weights_p)
{
    json_t *result;
    HD_TRY(hd_run_dir_read_result(dir, &result));
    const char *name = json_string_value(json_object_get(result, "weights"));
    char *named = name ? hd_format("%s/%s", dir, name) : NULL;
    int status = named || !name ? HD_OK : HD_ERR_NOMEM;
    if (name && !is_weights_name(name))
        status = hd_fail(HD_ERR_FORMAT, "%s/result.json: 'weights' names no weights of a run", dir);
    if (named && status == HD_OK && may_exist(named))
        *weights_p = named;
    else
        hd_free(named);
    json_decref(result);
    return status;
}

static int find_weights(const char *dir, char **weights_p)
{
    HD_TRY(find_named_weights(dir, weights_p));
    if (*weights_p)
        return HD_OK;
    char *best = hd_format("%s/ckpt/best/policy.safetensors", dir);
    char *ckpt = hd_format("%s/ckpt", dir);
    const int64_t last = ckpt ? find_last_iteration(ckpt) : -1;
    const bool has_best = best && may_exist(best);
    int status = best && ckpt ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK && !has_best && last < 0)
        status = hd_fail(HD_ERR_INPUT, "%s has no weights: there is no %s", dir, best);
    if (status == HD_OK)
        *weights_p = has_best
                         ? hd_strdup(best)
                         : hd_format("%s/iteration_%" PRId64 "/policy.safetensors", ckpt, last);
    hd_free(best);
    hd_free(ckpt);
    return status == HD_OK && !*weights_p ? HD_ERR_NOMEM : status;
}

/* Refuses a path of a run directory that is no file; it is freed and forgotten then. */
static int check_file(char **path)
{
    char why[HD_INPUT_WHY];
    if (!*path || hd_input_check(*path, HD_INPUT_RUN, why))
        return HD_OK;
    const int status = hd_fail(HD_ERR_INPUT, "%s %s", *path, why);
    hd_free(*path);
    *path = NULL;
    return status;
}

int hd_run_dir_find_policy(const char *dir, char **config_p, char **weights_p)
{
    HD_TRY(hd_run_dir_check(dir));
    char *config = hd_format("%s/total_config.yaml", dir), *weights = NULL;
    int status = config ? check_file(&config) : HD_ERR_NOMEM;
    if (status == HD_OK && weights_p)
        status = find_weights(dir, &weights);
    if (status == HD_OK)
        status = check_file(&weights);
    if (status != HD_OK) {
        hd_free(config);
        return status;
    }
    *config_p = config;
    if (weights_p)
        *weights_p = weights;
    return HD_OK;
}

int64_t hd_run_dir_find_last(const char *dir)
{
    char *ckpt = hd_format("%s/ckpt", dir);
    const int64_t last = ckpt ? find_last_iteration(ckpt) : -1;
    hd_free(ckpt);
    return last;
}
