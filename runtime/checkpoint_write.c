/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint_internal.h"
#include "runtime/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_US = 2000, DIRECTORY_MODE = 0777 };

/* What is to be written to one path. */
struct file {
    char *name; /* of the file or journal */
    void *data;
    int64_t bytes;
    bool journal; /* new blocks of one */
};

/* Where a block's present content is. */
struct block {
    uint64_t hash;
    int64_t iteration; /* of the journal file; -1: never written */
    int64_t at;        /* bytes into it */
};

struct journal {
    char *name;
    int64_t bytes, n;
    struct block *blocks;  /* of the last checkpoint that came to be */
    struct block *pending; /* of the one under way */
    bool begun;
};

struct hd_checkpoints {
    char *state;
    int rank, ranks, keep;
    int64_t iteration; /* of the one under way */
    struct file *files;
    int64_t n_files, files_capacity;
    struct journal *journals;
    int64_t n_journals, journals_capacity;
    json_t *head;
    bool failed; /* while it was being handed over */
    bool started;
    pthread_t thread;
    atomic_bool finished, abandoned;
    bool written; /* read after the thread was joined */
};

/* -- Handing over ---------------------------------------------------------------------------------
 */

static void clear(struct hd_checkpoints *c)
{
    for (int64_t i = 0; i < c->n_files; i++) {
        hd_free(c->files[i].name);
        free(c->files[i].data);
    }
    c->n_files = 0;
    json_decref(c->head);
    c->head = NULL;
}

void hd_checkpoints_abandon(struct hd_checkpoints *c)
{
    if (c)
        atomic_store(&c->abandoned, true);
}

bool hd_checkpoints_idle(struct hd_checkpoints *c)
{
    return !c->started || atomic_load(&c->finished);
}

/* What the journals have where is what the last good checkpoint says. */
bool hd_checkpoints_wait(struct hd_checkpoints *c)
{
    if (!c->started)
        return c->written;
    pthread_join(c->thread, NULL);
    c->started = false;
    for (int64_t i = 0; i < c->n_journals; i++) {
        struct journal *journal = &c->journals[i];
        if (c->written && journal->begun)
            memcpy(journal->blocks, journal->pending, (size_t)journal->n * sizeof *journal->blocks);
        journal->begun = false;
    }
    clear(c);
    return c->written;
}

int hd_checkpoints_begin(struct hd_checkpoints *c, int64_t iteration)
{
    hd_checkpoints_wait(c);
    c->iteration = iteration;
    c->failed = false;
    return HD_OK;
}

static int add_file(struct hd_checkpoints *c, const char *name, void *data, int64_t bytes,
                    bool journal)
{
    int status = hd_grow((void **)&c->files, &c->files_capacity, c->n_files + 1, sizeof *c->files);
    char *own = status == HD_OK ? hd_strdup(name) : NULL;
    if (!own) {
        free(data);
        c->failed = true;
        return HD_ERR_NOMEM;
    }
    c->files[c->n_files++] = (struct file){own, data, bytes, journal};
    return HD_OK;
}

int hd_checkpoints_add(struct hd_checkpoints *c, const char *name, void *data, int64_t bytes)
{
    return add_file(c, name, data, bytes, false);
}

static struct journal *journal_of(struct hd_checkpoints *c, const char *name, int64_t bytes)
{
    for (int64_t i = 0; i < c->n_journals; i++)
        if (strcmp(c->journals[i].name, name) == 0)
            return &c->journals[i];
    if (hd_grow((void **)&c->journals, &c->journals_capacity, c->n_journals + 1,
                sizeof *c->journals) != HD_OK)
        return NULL;
    struct journal *journal = &c->journals[c->n_journals];
    const int64_t n = (bytes + HD_JOURNAL_BLOCK - 1) / HD_JOURNAL_BLOCK;
    *journal = (struct journal){.name = hd_strdup(name), .bytes = bytes, .n = n};
    journal->blocks = hd_alloc(n, sizeof *journal->blocks);
    journal->pending = hd_alloc(n, sizeof *journal->pending);
    c->n_journals++; /* released with the others, whatever is missing */
    if (!journal->name || !journal->blocks || !journal->pending)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        journal->blocks[i].iteration = -1;
    return journal;
}

static int64_t block_bytes(const struct journal *journal, int64_t i)
{
    const int64_t left = journal->bytes - i * HD_JOURNAL_BLOCK;
    return left < HD_JOURNAL_BLOCK ? left : HD_JOURNAL_BLOCK;
}

/* Marks the blocks that are new, and returns their bytes. */
static int64_t find_new(const struct hd_checkpoints *c, struct journal *journal, const char *data)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < journal->n; i++) {
        const int64_t length = block_bytes(journal, i);
        const uint64_t hash = hd_hash_bytes(data + i * HD_JOURNAL_BLOCK, (size_t)length);
        journal->pending[i] = journal->blocks[i];
        if (journal->blocks[i].iteration >= 0 && journal->blocks[i].hash == hash)
            continue;
        journal->pending[i] = (struct block){hash, c->iteration, bytes};
        bytes += length;
    }
    return bytes;
}

int hd_checkpoints_add_journal(struct hd_checkpoints *c, const char *name, const void *data,
                               int64_t bytes)
{
    struct journal *journal = journal_of(c, name, bytes);
    if (!journal || journal->bytes != bytes) {
        c->failed = true;
        return HD_ERR_NOMEM;
    }
    journal->begun = true;
    const int64_t fresh = find_new(c, journal, data);
    if (fresh == 0)
        return HD_OK;
    char *copy = malloc((size_t)fresh);
    if (!copy) {
        c->failed = true;
        return HD_ERR_NOMEM;
    }
    for (int64_t i = 0; i < journal->n; i++)
        if (journal->pending[i].iteration == c->iteration)
            memcpy(copy + journal->pending[i].at, (const char *)data + i * HD_JOURNAL_BLOCK,
                   (size_t)block_bytes(journal, i));
    return add_file(c, name, copy, fresh, true);
}

/* -- Files ----------------------------------------------------------------------------------------
 */

static char *path_of(const struct hd_checkpoints *c, const struct file *file)
{
    if (file->journal)
        return hd_format("%s/journal/%s.%" PRId64, c->state, file->name, c->iteration);
    return hd_format("%s/iteration_%" PRId64 ".part/%s", c->state, c->iteration, file->name);
}

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    close(fd);
    return 0;
}

/* What the manifest says of this rank's files. */
static json_t *list_files(const struct hd_checkpoints *c)
{
    json_t *files = json_object(), *journals = json_object(), *journal_files = json_object();
    for (int64_t i = 0; i < c->n_files; i++) {
        const struct file *file = &c->files[i];
        char name[256];
        snprintf(name, sizeof name, file->journal ? "%s.%" PRId64 : "%s", file->name, c->iteration);
        json_object_set_new(
            file->journal ? journal_files : files, name,
            json_pack("{s:I, s:o}", "bytes", (json_int_t)file->bytes, "hash",
                      hd_checkpoint_hash_text(hd_hash_bytes(file->data, (size_t)file->bytes))));
    }
    for (int64_t i = 0; i < c->n_journals; i++) {
        const struct journal *journal = &c->journals[i];
        json_t *runs = json_array(); /* [first block, blocks, iteration of the file, place in it] */
        for (int64_t first = 0, end; journal->begun && first < journal->n; first = end) {
            const struct block *at = &journal->pending[first];
            for (end = first + 1;
                 end < journal->n && journal->pending[end].iteration == at->iteration &&
                 journal->pending[end].at == at->at + (end - first) * (int64_t)HD_JOURNAL_BLOCK;)
                end++;
            json_array_append_new(runs, json_pack("[I, I, I, I]", (json_int_t)first,
                                                  (json_int_t)(end - first),
                                                  (json_int_t)at->iteration, (json_int_t)at->at));
        }
        if (journal->begun)
            json_object_set_new(
                journals, journal->name,
                json_pack("{s:I, s:O}", "bytes", (json_int_t)journal->bytes, "blocks", runs));
        json_decref(runs);
    }
    return json_pack("{s:o, s:o, s:o}", "files", files, "journals", journals, "journal_files",
                     journal_files);
}

static int write_json(const char *path, json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS);
    int status = text ? hd_file_write_atomic(path, text, (int64_t)strlen(text)) : HD_ERR_NOMEM;
    free(text);
    return status;
}

static int write_rank_files(const struct hd_checkpoints *c)
{
    if (c->failed)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < c->n_files; i++) {
        char *path = path_of(c, &c->files[i]);
        int status =
            path ? hd_file_write_atomic(path, c->files[i].data, c->files[i].bytes) : HD_ERR_NOMEM;
        hd_free(path);
        HD_TRY(status);
    }
    return HD_OK;
}

/* -- The ranks' lists -----------------------------------------------------------------------------
 */

static char *list_path(const struct hd_checkpoints *c, int rank)
{
    return hd_format("%s/iteration_%" PRId64 ".part/.rank%d", c->state, c->iteration, rank);
}

/* Says what this rank has written; an empty list: it could not. */
static int leave_list(const struct hd_checkpoints *c, int status)
{
    char *path = list_path(c, c->rank);
    json_t *list = status == HD_OK ? list_files(c) : json_object();
    int left = path && list ? write_json(path, list) : HD_ERR_NOMEM;
    json_decref(list);
    hd_free(path);
    return left;
}

static json_t *await_list(const struct hd_checkpoints *c, int rank)
{
    char *path = list_path(c, rank);
    json_t *list = NULL;
    while (path && !(list = json_load_file(path, 0, NULL)) && access(path, F_OK) != 0 &&
           !atomic_load(&c->abandoned))
        usleep(POLL_US);
    if (path)
        unlink(path);
    hd_free(path);
    return list;
}

/* -- Clearing away --------------------------------------------------------------------------------
 */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char *inside = hd_format("%s/%s", path, entry->d_name);
        if (inside && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(inside);
        hd_free(inside);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

static void remove_iteration(const char *state, int64_t iteration, const char *suffix)
{
    char *path = hd_checkpoint_path(state, iteration, suffix);
    if (path)
        remove_folder(path);
    hd_free(path);
}

/* Adds the journal files that the checkpoint of an iteration needs. */
static void note_needed(const char *state, int64_t iteration, json_t *needed)
{
    char *path = hd_checkpoint_path(state, iteration, "/manifest.json");
    json_t *manifest = path ? json_load_file(path, 0, NULL) : NULL;
    json_object_update(needed, json_object_get(manifest, "journal_files"));
    json_decref(manifest);
    hd_free(path);
}

static void remove_journals(const struct hd_checkpoints *c, json_t *needed)
{
    char *folder_path = hd_format("%s/journal", c->state);
    DIR *folder = folder_path ? opendir(folder_path) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || !dot || json_object_get(needed, entry->d_name) ||
            strtoll(dot + 1, NULL, 10) > c->iteration)
            continue;
        char *path = hd_format("%s/%s", folder_path, entry->d_name);
        if (path)
            unlink(path);
        hd_free(path);
    }
    if (folder)
        closedir(folder);
    hd_free(folder_path);
}

/* Checkpoints beyond the newest, and the journal files that only these needed. */
static void remove_old(const struct hd_checkpoints *c)
{
    int64_t *iterations;
    const int n = hd_checkpoint_list(c->state, &iterations);
    json_t *needed = json_object();
    for (int i = 0; i < n; i++)
        if (i < n - c->keep)
            remove_iteration(c->state, iterations[i], "");
        else
            note_needed(c->state, iterations[i], needed);
    if (n > 0) {
        remove_journals(c, needed);
        hd_free(iterations);
    }
    json_decref(needed);
}

static void clear_unfinished(struct hd_checkpoints *c, int64_t from)
{
    DIR *folder = opendir(c->state);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char *path = hd_format("%s/%s", c->state, entry->d_name);
        const size_t length = strlen(entry->d_name);
        int64_t iteration;
        if (!path || sscanf(entry->d_name, "iteration_%" SCNd64, &iteration) != 1)
            ;
        else if ((length > 5 && strcmp(entry->d_name + length - 5, ".part") == 0) ||
                 iteration > from)
            remove_folder(path);
        hd_free(path);
    }
    if (folder)
        closedir(folder);
}

/* -- Rank 0 joins the lists -----------------------------------------------------------------------
 */

/* The journal files that the lists name; those of earlier checkpoints are in their manifests. */
static void add_older_journals(const struct hd_checkpoints *c, json_t *manifest)
{
    json_t *known = json_object(), *now = json_object_get(manifest, "journal_files");
    int64_t *iterations;
    const int n = hd_checkpoint_list(c->state, &iterations);
    for (int i = 0; i < n; i++)
        note_needed(c->state, iterations[i], known);
    if (n > 0)
        hd_free(iterations);
    const char *name;
    json_t *journal, *run;
    size_t at;
    json_object_foreach(json_object_get(manifest, "journals"), name, journal)
    {
        json_array_foreach(json_object_get(journal, "blocks"), at, run)
        {
            char file[256];
            snprintf(file, sizeof file, "%s.%" JSON_INTEGER_FORMAT, name,
                     json_integer_value(json_array_get(run, 2)));
            if (!json_object_get(now, file))
                json_object_set(now, file, json_object_get(known, file));
        }
    }
    json_decref(known);
}

static int write_manifest(const struct hd_checkpoints *c, json_t *manifest)
{
    char *path = hd_checkpoint_path(c->state, c->iteration, ".part/manifest.json");
    json_object_set_new(manifest, "format", json_string("heddle checkpoint 1"));
    json_object_set_new(manifest, "iteration", json_integer(c->iteration));
    json_object_set(manifest, "head", c->head);
    add_older_journals(c, manifest);
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_hash_text(hd_checkpoint_manifest_hash(manifest)));
    int status = path ? write_json(path, manifest) : HD_ERR_NOMEM;
    hd_free(path);
    return status;
}

/* A link that is always there: the new one takes the old one's place. */
static void point_latest(const struct hd_checkpoints *c)
{
    char *beside = hd_format("%s/.latest", c->state), *latest = hd_format("%s/latest", c->state);
    char *target = hd_format("iteration_%" PRId64, c->iteration);
    if (beside && latest && target) {
        unlink(beside);
        if (symlink(target, beside) == 0 && rename(beside, latest) != 0)
            unlink(beside);
    }
    hd_free(beside);
    hd_free(latest);
    hd_free(target);
}

static int make_visible(const struct hd_checkpoints *c)
{
    char *part = hd_checkpoint_path(c->state, c->iteration, ".part");
    char *whole = hd_checkpoint_path(c->state, c->iteration, "");
    int status = part && whole ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        int error = sync_folder(part);
        if (error == 0 && rename(part, whole) != 0)
            error = errno;
        if (error == 0)
            error = sync_folder(c->state);
        if (error != 0)
            status = hd_fail(HD_ERR_SYSTEM, "%s cannot be made: %s", whole, strerror(error));
    }
    hd_free(part);
    hd_free(whole);
    return status;
}

static bool join_lists(const struct hd_checkpoints *c, int status)
{
    json_t *manifest = status == HD_OK ? list_files(c) : NULL;
    int culprit = status == HD_OK ? -1 : 0;
    for (int rank = 1; rank < c->ranks; rank++) {
        json_t *list = await_list(c, rank), *part;
        const char *name;
        if (json_object_size(list) == 0 && culprit < 0)
            culprit = rank;
        json_object_foreach(list, name, part)
            json_object_update(json_object_get(manifest, name), part);
        json_decref(list);
    }
    if (culprit < 0)
        status = write_manifest(c, manifest);
    if (culprit < 0 && status == HD_OK)
        status = make_visible(c);
    json_decref(manifest);
    if (culprit < 0 && status == HD_OK) {
        point_latest(c);
        remove_old(c);
        return true;
    }
    remove_iteration(c->state, c->iteration, ".part");
    if (!atomic_load(&c->abandoned))
        hd_log(HD_LOG_WARN,
               "the checkpoint of iteration %" PRId64
               " could not be written by rank %d; training goes on, earlier checkpoints stay",
               c->iteration, culprit < 0 ? 0 : culprit);
    return false;
}

/* The others learn from the folder how it ended. */
static bool await_end(const struct hd_checkpoints *c)
{
    char *part = hd_checkpoint_path(c->state, c->iteration, ".part");
    char *whole = hd_checkpoint_path(c->state, c->iteration, "");
    bool written = false;
    while (part && whole && !(written = access(whole, F_OK) == 0) && access(part, F_OK) == 0 &&
           !atomic_load(&c->abandoned))
        usleep(POLL_US);
    written = written || (whole && access(whole, F_OK) == 0);
    hd_free(part);
    hd_free(whole);
    return written;
}

static void *write_checkpoint(void *arg)
{
    struct hd_checkpoints *c = arg;
    int status = write_rank_files(c);
    if (c->rank == 0)
        c->written = join_lists(c, status);
    else
        c->written = leave_list(c, status) == HD_OK && await_end(c) && status == HD_OK;
    atomic_store(&c->finished, true);
    return NULL;
}

void hd_checkpoints_write(struct hd_checkpoints *c, json_t *head)
{
    c->head = head;
    atomic_store(&c->finished, false);
    c->started = pthread_create(&c->thread, NULL, write_checkpoint, c) == 0;
    if (!c->started) /* no thread to be had: here, then */
        write_checkpoint(c);
}

/* -- Making and releasing ------------------------------------------------------------------------
 */

int hd_checkpoints_create(const char *dir, int rank, int ranks, int keep, int64_t from,
                          struct hd_checkpoints **checkpoints_p)
{
    struct hd_checkpoints *c = hd_alloc(1, sizeof *c);
    if (!c)
        return HD_ERR_NOMEM;
    *c = (struct hd_checkpoints){.rank = rank, .ranks = ranks, .keep = keep};
    c->state = hd_format("%s/ckpt/state", dir);
    if (!c->state) {
        hd_free(c);
        return HD_ERR_NOMEM;
    }
    if (rank == 0)
        clear_unfinished(c, from);
    *checkpoints_p = c;
    return HD_OK;
}

void hd_checkpoints_destroy(struct hd_checkpoints *c)
{
    if (!c)
        return;
    hd_checkpoints_wait(c);
    clear(c);
    for (int64_t i = 0; i < c->n_journals; i++) {
        hd_free(c->journals[i].name);
        hd_free(c->journals[i].blocks);
        hd_free(c->journals[i].pending);
    }
    hd_free(c->journals);
    hd_free(c->files);
    hd_free(c->state);
    hd_free(c);
}
