/* SPDX-License-Identifier: Apache-2.0 */
/* Journals: which blocks of a large value are new in a series of checkpoints, and which file of the
 * series has the others. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Series ------------------------------------------------------------------------------------ */

/* Makes the next checkpoint of a series write all blocks. */
static void forget(const struct journal *journal, struct series *series)
{
    for (int64_t i = 0; series->blocks && i < journal->n; i++)
        series->blocks[i].iteration = -1;
    json_decref(series->files);
    series->files = NULL;
}

static bool make_series(const struct journal *journal, struct series *series)
{
    series->blocks = hd_alloc(journal->n, sizeof *series->blocks);
    forget(journal, series);
    return series->blocks != NULL;
}

static struct journal *find_or_add(struct hd_checkpoint_writer *c, const char *name, int64_t bytes)
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
    journal->series = hd_alloc(c->options.keep, sizeof *journal->series);
    if (!journal->name || !journal->series || !make_series(journal, &journal->pending)) {
        hd_free(journal->name);
        hd_free(journal->series);
        return NULL;
    }
    c->n_journals++;
    return journal;
}

static void finish(const struct hd_checkpoint_writer *c, struct journal *journal)
{
    struct series *present = &journal->series[c->turn], before = *present;
    if (c->outcome == WRITTEN && journal->begun) {
        *present = journal->pending;
        journal->pending = before;
    } else if (c->outcome == WRITTEN) {
        forget(journal, present); /* no checkpoint of the series needs its files any more */
    }
    for (int turn = 0; c->outcome == UNKNOWN && turn < c->options.keep; turn++)
        forget(journal, &journal->series[turn]); /* its files may be gone, or another's */
    journal->begun = false;
}

static void remove_file(const struct hd_checkpoint_writer *c, const struct file *file)
{
    char *path = file->journal ? hd_checkpoint_format_file(c, file) : NULL;
    if (path)
        unlink(path);
    hd_free(path);
}

void hd_checkpoint_finish_journals(struct hd_checkpoint_writer *c)
{
    for (int64_t i = 0; i < c->n_journals; i++)
        finish(c, &c->journals[i]);
    for (int64_t i = 0; c->outcome == GIVEN_UP && i < c->n_files; i++)
        remove_file(c, &c->files[i]);
    if (c->outcome == WRITTEN)
        c->turn = (c->turn + 1) % c->options.keep;
}

void hd_checkpoint_release_journals(struct hd_checkpoint_writer *c)
{
    for (int64_t i = 0; i < c->n_journals; i++) {
        struct journal *journal = &c->journals[i];
        for (int turn = 0; turn <= c->options.keep; turn++) {
            struct series *series =
                turn < c->options.keep ? &journal->series[turn] : &journal->pending;
            hd_free(series->blocks);
            json_decref(series->files);
        }
        hd_free(journal->series);
        hd_free(journal->name);
    }
    hd_free(c->journals);
}

/* -- Handing over ------------------------------------------------------------------------------ */

static int64_t block_bytes(const struct journal *journal, int64_t i)
{
    const int64_t left = journal->bytes - i * HD_JOURNAL_BLOCK;
    return left < HD_JOURNAL_BLOCK ? left : HD_JOURNAL_BLOCK;
}

/* Marks the blocks that have changed since the last checkpoint of the series, and returns their
 * bytes. */
static int64_t find_new(const struct hd_checkpoint_writer *c, struct journal *journal,
                        const char *data)
{
    const struct block *before = journal->series[c->turn].blocks;
    struct block *pending = journal->pending.blocks;
    int64_t bytes = 0;
    for (int64_t i = 0; i < journal->n; i++) {
        const int64_t length = block_bytes(journal, i);
        const uint64_t hash = hd_hash_bytes(data + i * HD_JOURNAL_BLOCK, (size_t)length);
        pending[i] = before[i];
        if (before[i].iteration >= 0 && before[i].hash == hash)
            continue;
        pending[i] = (struct block){hash, c->iteration, bytes};
        bytes += length;
    }
    return bytes;
}

int hd_checkpoint_writer_add_journal(struct hd_checkpoint_writer *c, const char *name,
                                     const void *data, int64_t bytes)
{
    if (c->skips)
        return HD_OK;
    struct journal *journal = find_or_add(c, name, bytes);
    if (!journal || journal->bytes != bytes ||
        (!journal->series[c->turn].blocks && !make_series(journal, &journal->series[c->turn])))
        return hd_checkpoint_fail_nomem(c);
    journal->begun = true;
    const int64_t fresh = find_new(c, journal, data);
    if (fresh == 0)
        return HD_OK;
    char *copy = malloc((size_t)fresh);
    if (!copy)
        return hd_checkpoint_fail_nomem(c);
    const struct block *pending = journal->pending.blocks;
    for (int64_t i = 0; i < journal->n; i++)
        if (pending[i].iteration == c->iteration)
            memcpy(copy + pending[i].at, (const char *)data + i * HD_JOURNAL_BLOCK,
                   (size_t)block_bytes(journal, i));
    return hd_checkpoint_add_file(c, name, copy, fresh, true);
}
