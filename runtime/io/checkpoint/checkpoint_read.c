/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/json_file.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct hd_checkpoint {
    char *state;
    int64_t iteration;
    json_t *manifest;
};

/* -- Files ------------------------------------------------------------------------------------- */

/* Returns the bytes of a file by its entry in the manifest, or -1. */
static int64_t bytes_of(const json_t *about)
{
    const json_t *bytes = json_object_get(about, "bytes");
    return json_is_integer(bytes) && json_integer_value(bytes) >= 0 ? json_integer_value(bytes)
                                                                    : -1;
}

static bool fits(const json_t *about, const void *data, int64_t bytes)
{
    const char *wanted = json_string_value(json_object_get(about, "hash"));
    json_t *found = hd_checkpoint_format_hash(hd_hash_bytes(data, (size_t)bytes));
    const bool same = wanted && strcmp(wanted, json_string_value(found)) == 0;
    json_decref(found);
    return same;
}

static int64_t read_up_to(int fd, char *data, int64_t bytes)
{
    int64_t done = 0;
    errno = 0;
    while (done < bytes) {
        const ssize_t n = read(fd, data + done, (size_t)(bytes - done));
        if (n <= 0)
            break;
        done += n;
    }
    return done;
}

/* A file that is there and cannot be read may be good: a run that went on from an older checkpoint
 * would lose it. */
static int refuse_file(const char *path, const char *why)
{
    return hd_checkpoint_is_damage(errno)
               ? hd_fail(HD_ERR_FORMAT, "%s %s", path, why)
               : hd_fail(HD_ERR_SYSTEM, "%s %s; nothing was changed", path, why);
}

static int open_file(const char *path, int *fd_p, int64_t *bytes_p)
{
    struct stat is = {0};
    char why[HD_INPUT_WHY];
    const int fd = hd_input_open(path, HD_INPUT_RUN, why);
    if (fd < 0)
        return refuse_file(path, why);
    fstat(fd, &is);
    *fd_p = fd;
    *bytes_p = is.st_size;
    return HD_OK;
}

/* Reads a whole file and checks it against its entry in the manifest. */
static int read_file(const char *path, const json_t *about, void **data_p, int64_t *bytes_p)
{
    const int64_t bytes = bytes_of(about);
    int64_t found = 0;
    int fd = -1, status = HD_OK;
    char *data = NULL;
    HD_TRY(open_file(path, &fd, &found));
    if (bytes < 0 || found != bytes)
        status = hd_fail(HD_ERR_FORMAT, "%s is damaged: it has %lld bytes, not %lld", path,
                         (long long)found, (long long)bytes);
    else if (!(data = hd_alloc(bytes > 0 ? bytes : 1, 1)))
        status = HD_ERR_NOMEM;
    else if (read_up_to(fd, data, bytes) != bytes)
        status = errno ? hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m; nothing was changed", path)
                       : hd_fail(HD_ERR_FORMAT, "%s is cut short", path);
    else if (!fits(about, data, bytes))
        status = hd_fail(HD_ERR_FORMAT, "%s is damaged: its content is not what was written", path);
    close(fd);
    if (status != HD_OK) {
        hd_free(data);
        return status;
    }
    *data_p = data;
    *bytes_p = bytes;
    return HD_OK;
}

static int read_named(const struct hd_checkpoint *c, const char *name, bool journal, void **data_p,
                      int64_t *bytes_p)
{
    const json_t *about =
        json_object_get(json_object_get(c->manifest, journal ? "journal_files" : "files"), name);
    char *path = journal ? hd_format("%s/journal/%s", c->state, name)
                         : hd_format("%s/iteration_%" PRId64 "/%s", c->state, c->iteration, name);
    int status = path ? read_file(path, about, data_p, bytes_p) : HD_ERR_NOMEM;
    hd_free(path);
    return status;
}

/* -- Opening ----------------------------------------------------------------------------------- */

static bool safe_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

static int verify_files(const struct hd_checkpoint *c, bool journal)
{
    const char *name;
    json_t *about;
    json_object_foreach(json_object_get(c->manifest, journal ? "journal_files" : "files"), name,
                        about) {
        void *data;
        int64_t bytes;
        if (!safe_name(name))
            return hd_fail(HD_ERR_FORMAT, "the manifest of iteration %" PRId64 " is damaged",
                           c->iteration);
        HD_TRY(read_named(c, name, journal, &data, &bytes));
        hd_free(data);
    }
    return HD_OK;
}

static int verify(const struct hd_checkpoint *c)
{
    const char *format = json_string_value(json_object_get(c->manifest, "format"));
    if (strcmp(format, HD_CHECKPOINT_FORMAT) != 0)
        return hd_fail(HD_ERR_FORMAT,
                       "the checkpoint of iteration %" PRId64
                       " is of format '%.40s'; this program reads '%s'",
                       c->iteration, format, HD_CHECKPOINT_FORMAT);
    const int64_t iteration = json_integer_value(json_object_get(c->manifest, "iteration"));
    if (iteration != c->iteration)
        return hd_fail(HD_ERR_FORMAT, "%s/iteration_%" PRId64 " is of iteration %" PRId64, c->state,
                       c->iteration, iteration);
    HD_TRY(verify_files(c, false));
    return verify_files(c, true);
}

static int read_manifest(struct hd_checkpoint *c)
{
    char why[HD_FILE_WHY];
    const int status = hd_checkpoint_read_manifest(c->state, c->iteration, &c->manifest, why);
    if (status == HD_ERR_FORMAT)
        return hd_fail(status, "%s", why);
    return status == HD_ERR_SYSTEM ? hd_fail(status, "%s; nothing was changed", why) : status;
}

static int open_one(const char *state, int64_t iteration, struct hd_checkpoint **checkpoint_p)
{
    struct hd_checkpoint *c = hd_alloc(1, sizeof *c);
    int status = HD_ERR_NOMEM;
    if (c)
        *c = (struct hd_checkpoint){.state = hd_strdup(state), .iteration = iteration};
    if (c && c->state)
        status = read_manifest(c);
    if (status == HD_OK)
        status = verify(c);
    if (status == HD_OK)
        *checkpoint_p = c;
    else
        hd_checkpoint_close(c);
    return status;
}

/* Opens the newest good one of n iterations. */
static int open_newest(const char *state, const int64_t *iterations, int n,
                       struct hd_checkpoint **checkpoint_p)
{
    int status = n > 0 ? HD_ERR_FORMAT : HD_OK;
    while (status == HD_ERR_FORMAT && n-- > 0) {
        status = open_one(state, iterations[n], checkpoint_p);
        if (status == HD_ERR_FORMAT && n > 0)
            hd_log(HD_LOG_WARN,
                   "the checkpoint of iteration %" PRId64 " is invalid; trying %" PRId64,
                   iterations[n], iterations[n - 1]);
    }
    if (status == HD_ERR_FORMAT)
        hd_fail(HD_ERR_FORMAT, "no checkpoint in %s is good", state);
    return status;
}

int hd_checkpoint_open(const char *dir, struct hd_checkpoint **checkpoint_p)
{
    char *state = hd_format("%s/ckpt/state", dir), why[HD_FILE_WHY];
    int64_t *iterations = NULL;
    int n = 0;
    *checkpoint_p = NULL;
    if (!state)
        return HD_ERR_NOMEM;
    int status = hd_checkpoint_list_iterations(state, &iterations, &n, why);
    if (status == HD_ERR_SYSTEM) /* a folder that cannot be listed is not one without checkpoints */
        hd_fail(status, "%s; nothing was changed", why);
    if (status == HD_OK)
        status = open_newest(state, iterations, n, checkpoint_p);
    hd_free(iterations);
    hd_free(state);
    return status;
}

void hd_checkpoint_close(struct hd_checkpoint *c)
{
    if (!c)
        return;
    json_decref(c->manifest);
    hd_free(c->state);
    hd_free(c);
}

int64_t hd_checkpoint_get_iteration(const struct hd_checkpoint *c)
{
    return c->iteration;
}

const json_t *hd_checkpoint_get_metadata(const struct hd_checkpoint *c)
{
    return json_object_get(c->manifest, "metadata");
}

const char *hd_checkpoint_find_name(const struct hd_checkpoint *c, const char *prefix, int i)
{
    static const char *const lists[] = {"files", "journals"};
    const char *name;
    json_t *about;
    for (int list = 0; list < 2; list++)
        json_object_foreach(json_object_get(c->manifest, lists[list]), name, about)
            if (strncmp(name, prefix, strlen(prefix)) == 0 && i-- == 0)
                return name;
    return NULL;
}

/* -- Journals ---------------------------------------------------------------------------------- */

static int64_t number(const json_t *run, size_t i)
{
    return json_integer_value(json_array_get(run, i));
}

/* The journal file that was read last, because the next run of blocks may be in it as well. */
struct journal_file {
    int64_t iteration; /* -1: none */
    void *data;
    int64_t bytes;
};

/* Copies a run of blocks from the journal file that has them; it begins at block *next, and the one
 * after it at what *next becomes. */
static int read_run(const struct hd_checkpoint *c, const char *name, const json_t *run, char *data,
                    int64_t bytes, int64_t *next, struct journal_file *last)
{
    const int64_t first = number(run, 0), n = number(run, 1), iteration = number(run, 2),
                  from = number(run, 3), blocks = (bytes + HD_JOURNAL_BLOCK - 1) / HD_JOURNAL_BLOCK;
    if (first != *next || n <= 0 || n > blocks - first || iteration < 0 || from < 0)
        return hd_fail(HD_ERR_FORMAT, "the list of journal '%s' is damaged", name);
    if (iteration != last->iteration) {
        char file[256];
        hd_free(last->data);
        *last = (struct journal_file){.iteration = -1};
        snprintf(file, sizeof file, "%s.%" PRId64, name, iteration);
        HD_TRY(read_named(c, file, true, &last->data, &last->bytes));
        last->iteration = iteration;
    }
    const int64_t at = first * HD_JOURNAL_BLOCK;
    const int64_t length = n * HD_JOURNAL_BLOCK < bytes - at ? n * HD_JOURNAL_BLOCK : bytes - at;
    if (from > last->bytes - length)
        return hd_fail(HD_ERR_FORMAT, "journal file %s.%" PRId64 " is damaged", name, iteration);
    memcpy(data + at, (char *)last->data + from, (size_t)length);
    *next += n;
    return HD_OK;
}

static int read_journal(const struct hd_checkpoint *c, const char *name, const json_t *journal,
                        void **data_p, int64_t *bytes_p)
{
    const int64_t bytes = bytes_of(journal);
    char *data = bytes < 0 ? NULL : hd_alloc(bytes, 1);
    if (!data)
        return bytes < 0 ? hd_fail(HD_ERR_FORMAT, "the list of journal '%s' is damaged", name)
                         : HD_ERR_NOMEM;
    struct journal_file last = {.iteration = -1};
    int64_t next = 0;
    int status = HD_OK;
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(journal, "blocks"), i, run) {
        if (status == HD_OK)
            status = read_run(c, name, run, data, bytes, &next, &last);
    }
    if (status == HD_OK && next != (bytes + HD_JOURNAL_BLOCK - 1) / HD_JOURNAL_BLOCK)
        status = hd_fail(HD_ERR_FORMAT, "the list of journal '%s' ends early", name);
    hd_free(last.data);
    if (status != HD_OK) {
        hd_free(data);
        return status;
    }
    *data_p = data;
    *bytes_p = bytes;
    return HD_OK;
}

int hd_checkpoint_read(const struct hd_checkpoint *c, const char *name, int64_t journal_bytes,
                       void **data_p, int64_t *bytes_p)
{
    const json_t *journal = json_object_get(json_object_get(c->manifest, "journals"), name);
    *data_p = NULL;
    if (journal && (journal_bytes < 0 || bytes_of(journal) != journal_bytes))
        return hd_fail(HD_ERR_FORMAT, "journal '%s' has %lld bytes, not %lld", name,
                       (long long)bytes_of(journal), (long long)journal_bytes);
    if (journal)
        return read_journal(c, name, journal, data_p, bytes_p);
    if (!json_object_get(json_object_get(c->manifest, "files"), name))
        return HD_OK;
    return read_named(c, name, false, data_p, bytes_p);
}
