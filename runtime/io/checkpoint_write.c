/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint_internal.h"
#include "runtime/io/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Handing over ------------------------------------------------------------------------------ */

static void clear(struct hd_checkpoint_writer *c)
{
    for (int64_t i = 0; i < c->n_files; i++) {
        hd_free(c->files[i].name);
        free(c->files[i].data);
    }
    c->n_files = 0;
    json_decref(c->metadata);
    c->metadata = NULL;
}

void hd_checkpoint_writer_abandon(struct hd_checkpoint_writer *c)
{
    if (c)
        atomic_store(&c->abandoned, true);
}

bool hd_checkpoint_writer_is_idle(struct hd_checkpoint_writer *c)
{
    return !c->started || atomic_load(&c->finished);
}

/* After success, the journals' blocks are where this checkpoint put them; else where they were. */
static void finish_write(struct hd_checkpoint_writer *c)
{
    for (int64_t i = 0; i < c->n_journals; i++) {
        struct journal *journal = &c->journals[i];
        if (c->written && journal->begun)
            memcpy(journal->blocks, journal->pending, (size_t)journal->n * sizeof *journal->blocks);
        journal->begun = false;
    }
    clear(c);
}

bool hd_checkpoint_writer_wait(struct hd_checkpoint_writer *c)
{
    if (c->started) {
        pthread_join(c->thread, NULL);
        c->started = false;
        finish_write(c);
    }
    return c->written;
}

int hd_checkpoint_writer_begin(struct hd_checkpoint_writer *c, int64_t iteration)
{
    hd_checkpoint_writer_wait(c);
    c->iteration = iteration;
    c->failed = false;
    return HD_OK;
}

static int add_file(struct hd_checkpoint_writer *c, const char *name, void *data, int64_t bytes,
                    bool journal)
{
    int status = hd_grow((void **)&c->files, &c->files_capacity, c->n_files + 1, sizeof *c->files);
    char *name_copy = status == HD_OK ? hd_strdup(name) : NULL;
    if (!name_copy) {
        free(data);
        c->failed = true;
        return HD_ERR_NOMEM;
    }
    c->files[c->n_files++] = (struct file){name_copy, data, bytes, journal};
    return HD_OK;
}

int hd_checkpoint_writer_add(struct hd_checkpoint_writer *c, const char *name, void *data,
                             int64_t bytes)
{
    return add_file(c, name, data, bytes, false);
}

static struct journal *find_or_add_journal(struct hd_checkpoint_writer *c, const char *name,
                                           int64_t bytes)
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
    c->n_journals++; /* released with the others even when memory was missing */
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

/* Marks the blocks that have changed, and returns their bytes. */
static int64_t find_new(const struct hd_checkpoint_writer *c, struct journal *journal,
                        const char *data)
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

int hd_checkpoint_writer_add_journal(struct hd_checkpoint_writer *c, const char *name,
                                     const void *data, int64_t bytes)
{
    struct journal *journal = find_or_add_journal(c, name, bytes);
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

/* -- Files ------------------------------------------------------------------------------------- */

static char *path_of(const struct hd_checkpoint_writer *c, const struct file *file)
{
    if (file->journal)
        return hd_format("%s/journal/%s.%" PRId64, c->state, file->name, c->iteration);
    return hd_format("%s/iteration_%" PRId64 ".part/%s", c->state, c->iteration, file->name);
}

static int write_rank_files(const struct hd_checkpoint_writer *c)
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

/* -- The ranks' lists -------------------------------------------------------------------------- */

/* Tells rank 0 what this rank has written; an empty list says that writing failed. */
static int write_list(const struct hd_checkpoint_writer *c, int status)
{
    char *path = hd_checkpoint_format_list_path(c, c->rank);
    json_t *list = status == HD_OK ? hd_checkpoint_list_files(c) : json_object();
    int written = path && list ? hd_checkpoint_write_json(path, list) : HD_ERR_NOMEM;
    json_decref(list);
    hd_free(path);
    return written;
}

/* Waits until rank 0 renames the folder, which is success, or removes it. */
static bool wait_for_rename(const struct hd_checkpoint_writer *c)
{
    char *part = hd_checkpoint_format_path(c->state, c->iteration, ".part");
    char *whole = hd_checkpoint_format_path(c->state, c->iteration, "");
    bool written = false;
    while (part && whole && !(written = access(whole, F_OK) == 0) && access(part, F_OK) == 0 &&
           !atomic_load(&c->abandoned))
        usleep(HD_CHECKPOINT_POLL_US);
    written = written || (whole && access(whole, F_OK) == 0);
    hd_free(part);
    hd_free(whole);
    return written;
}

static void *write_checkpoint(void *arg)
{
    struct hd_checkpoint_writer *c = arg;
    int status = write_rank_files(c);
    if (c->rank == 0)
        c->written = hd_checkpoint_join(c, status);
    else
        c->written = write_list(c, status) == HD_OK && wait_for_rename(c) && status == HD_OK;
    atomic_store(&c->finished, true);
    return NULL;
}

void hd_checkpoint_writer_submit(struct hd_checkpoint_writer *c, json_t *metadata)
{
    c->metadata = metadata;
    atomic_store(&c->finished, false);
    c->started = pthread_create(&c->thread, NULL, write_checkpoint, c) == 0;
    if (!c->started) { /* without a thread, this one writes */
        write_checkpoint(c);
        finish_write(c);
    }
}

/* -- Creation and release ---------------------------------------------------------------------- */

int hd_checkpoint_writer_create(const char *dir, int rank, int ranks, int keep, int64_t from,
                                struct hd_checkpoint_writer **checkpoints_p)
{
    struct hd_checkpoint_writer *c = hd_alloc(1, sizeof *c);
    if (!c)
        return HD_ERR_NOMEM;
    *c = (struct hd_checkpoint_writer){.rank = rank, .ranks = ranks, .keep = keep};
    c->state = hd_format("%s/ckpt/state", dir);
    if (!c->state) {
        hd_free(c);
        return HD_ERR_NOMEM;
    }
    if (rank == 0)
        hd_checkpoint_remove_unfinished(c, from);
    *checkpoints_p = c;
    return HD_OK;
}

void hd_checkpoint_writer_destroy(struct hd_checkpoint_writer *c)
{
    if (!c)
        return;
    hd_checkpoint_writer_wait(c);
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
