/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's state, and what its files share with the reader. The training thread uses a writer
 * until hd_checkpoint_writer_submit starts the writing thread, and again after it has joined that
 * thread; only `finished` and `abandoned` pass between the two meanwhile. */
#ifndef HD_RUNTIME_IO_CHECKPOINT_INTERNAL_H
#define HD_RUNTIME_IO_CHECKPOINT_INTERNAL_H

#include "runtime/io/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HD_CHECKPOINT_POLL_US = 2000 }; /* pause between looks at what other ranks have written */

enum { HD_JOURNAL_BLOCK = 65536 }; /* bytes; the last block of a value may be shorter */

/* Data to be written to one path. */
struct file {
    char *name; /* of the file or journal */
    void *data;
    int64_t bytes;
    bool journal; /* data are the new blocks of a journal */
};

/* The journal file that holds the newest content of a block. */
struct block {
    uint64_t hash;
    int64_t iteration; /* of the journal file; -1: never written */
    int64_t at;        /* offset in it, in bytes */
};

struct journal {
    char *name;
    int64_t bytes, n;
    struct block *blocks;  /* [n], of the last checkpoint that succeeded */
    struct block *pending; /* [n], of the one in progress */
    bool begun;            /* the checkpoint in progress holds it */
};

struct hd_checkpoint_writer {
    char *state; /* DIR/ckpt/state */
    int rank, ranks, keep;
    int64_t iteration; /* of the one in progress */
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

/* -- checkpoint_manifest.c --------------------------------------------------------------------- */

/* Returns "<state>/iteration_<n><suffix>", to be freed with hd_free; NULL without memory. */
char *hd_checkpoint_format_path(const char *state, int64_t iteration, const char *suffix);

/* Returns the path where rank `rank` leaves the list of its files for rank 0, to be freed with
 * hd_free; NULL without memory. */
char *hd_checkpoint_format_list_path(const struct hd_checkpoint_writer *c, int rank);

/* Lists the iterations that have a checkpoint, ascending, to be freed with hd_free. Returns their
 * number, or -1 without memory (an error that hd_grow logs); it stores no list when it is not > 0.
 */
int hd_checkpoint_list_iterations(const char *state, int64_t **iterations_p);

/* Returns a hash as JSON text, owned by the caller. */
json_t *hd_checkpoint_format_hash(uint64_t hash);

/* Returns the hash of a manifest without the entry of the hash itself. */
uint64_t hd_checkpoint_hash_manifest(json_t *manifest);

/* Returns the manifest's entries for this rank's files and journals, owned by the caller. */
json_t *hd_checkpoint_list_files(const struct hd_checkpoint_writer *c);

/* Writes JSON atomically. Returns HD_OK, HD_ERR_SYSTEM (logged) or HD_ERR_NOMEM. */
int hd_checkpoint_write_json(const char *path, json_t *json);

/* Adds to `needed` the entries of the journal files that the checkpoint of an iteration needs. */
void hd_checkpoint_add_journal_files(const char *state, int64_t iteration, json_t *needed);

/* Completes the manifest, which holds all ranks' entries, and writes it. Returns HD_OK,
 * HD_ERR_SYSTEM (logged) or HD_ERR_NOMEM. */
int hd_checkpoint_write_manifest(const struct hd_checkpoint_writer *c, json_t *manifest);

/* -- checkpoint_join.c ------------------------------------------------------------------------- */

/* Rank 0, whose own files were written with `status`: waits for the others' lists and makes the
 * checkpoint visible. Returns whether it did; logs a failure. */
bool hd_checkpoint_join(const struct hd_checkpoint_writer *c, int status);

/* -- checkpoint_remove.c ----------------------------------------------------------------------- */

/* Rank 0: removes what earlier runs left unfinished, and checkpoints after iteration `from`. */
void hd_checkpoint_remove_unfinished(const struct hd_checkpoint_writer *c, int64_t from);

/* Rank 0: removes all checkpoints but the newest c->keep, and the journal files that no kept one
 * needs. */
void hd_checkpoint_remove_old(const struct hd_checkpoint_writer *c);

/* Removes the folder hd_checkpoint_format_path(state, iteration, suffix). */
void hd_checkpoint_remove_iteration(const char *state, int64_t iteration, const char *suffix);

#endif
