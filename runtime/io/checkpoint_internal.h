/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and hashes that writing and reading checkpoints share. */
#ifndef HD_RUNTIME_IO_CHECKPOINT_INTERNAL_H
#define HD_RUNTIME_IO_CHECKPOINT_INTERNAL_H

#include "runtime/io/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HD_CHECKPOINT_POLL_US = 2000 };

enum { HD_JOURNAL_BLOCK = 65536 }; /* bytes; the last block of a value may be shorter */

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

struct hd_checkpoint_writer {
    char *state;
    int rank, ranks, keep;
    int64_t iteration; /* of the one under way */
    struct file *files;
    int64_t n_files, files_capacity;
    struct journal *journals;
    int64_t n_journals, journals_capacity;
    json_t *metadata;
    bool failed; /* while it was being handed over */
    bool started;
    pthread_t thread;
    atomic_bool finished, abandoned;
    bool written; /* read after the thread was joined */
};

/* "<state>/iteration_<n><suffix>", to be freed with hd_free; NULL: no memory. */
char *hd_checkpoint_format_path(const char *state, int64_t iteration, const char *suffix);

/* The iterations that have a checkpoint, ascending, to be freed with hd_free; their number, or -1:
 * no memory. */
int hd_checkpoint_list_iterations(const char *state, int64_t **iterations_p);

/* A hash as text, and of a manifest but for its own hash. */
json_t *hd_checkpoint_format_hash(uint64_t hash);
uint64_t hd_checkpoint_hash_manifest(json_t *manifest);

/* What the manifest says of this rank's files, owned by the caller; and where other ranks leave it
 * for rank 0, to be freed with hd_free. */
json_t *hd_checkpoint_list_files(const struct hd_checkpoint_writer *c);
char *hd_checkpoint_format_list_path(const struct hd_checkpoint_writer *c, int rank);
int hd_checkpoint_write_json(const char *path, json_t *json);

/* Rank 0, whose own files were written with `status`: waits for the others' lists and makes the
 * checkpoint visible. Whether it did; a failure is logged. */
bool hd_checkpoint_join(const struct hd_checkpoint_writer *c, int status);

/* Rank 0: removes what was not finished, and checkpoints after iteration `from`. */
void hd_checkpoint_clear_unfinished(struct hd_checkpoint_writer *c, int64_t from);

#endif
