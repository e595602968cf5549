/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's state, and what its files share with the reader. The training thread uses a writer
 * until hd_checkpoint_writer_submit starts the writing thread, and again after that thread has
 * finished; only what `lock` guards passes between them and the thread that receives messages. */
#pragma once

#include "runtime/io/base/files.h"
#include "runtime/io/checkpoint/checkpoint.h"

#include <pthread.h>

#define HD_CHECKPOINT_FORMAT "heddle checkpoint 2"

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

/* A journal as one series of checkpoints has it. */
struct series {
    struct block *blocks; /* [n], of its last checkpoint */
    json_t *files;        /* the manifest's entries for the files that have them, or NULL */
};

struct journal {
    char *name;
    int64_t bytes, n;
    struct series *series; /* [keep] */
    struct series pending; /* of the checkpoint in progress */
    bool begun;            /* the checkpoint in progress holds it */
};

enum outcome {
    GIVEN_UP, /* all ranks know that it does not exist */
    WRITTEN,
    UNKNOWN /* rank 0 did not say */
};

struct hd_checkpoint_writer {
    struct hd_checkpoint_writer_options options; /* `dir` and `run` are not kept */
    char *state;                                 /* DIR/ckpt/state */
    char *run;                                   /* or NULL */
    int64_t iteration;                           /* of the one in progress */
    int64_t deadline_ns;                         /* when it is given up */
    int turn;                                    /* the series that it belongs to */
    struct file *files;
    int64_t n_files, files_capacity;
    struct journal *journals;
    int64_t n_journals, journals_capacity;
    json_t *metadata;
    char why[HD_FILE_WHY]; /* why this rank has failed it; "": it has not */
    bool exists;           /* the newest is the one that the run continues from */
    bool skips;            /* a newer one was begun that exists, or while this rank writes it */
    int64_t skipped;       /* the iteration of that one */
    bool started;
    pthread_t thread;
    enum outcome outcome; /* read after the thread has finished */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* The lock guards these. */
    json_t **messages; /* [ranks]: the newest of each other rank, or NULL */
    int awaited;       /* rank whose message the thread waits for, -1: none */
    bool finished, abandoned;
    pthread_mutex_t send_lock; /* held while a message is sent */
    bool closed;               /* guarded by it: no more messages are sent */
};

/* -- checkpoint_manifest.c --------------------------------------------------------------------- */

/* Returns "<state>/iteration_<n><suffix>", to be freed with hd_free; NULL without memory. */
char *hd_checkpoint_format_path(const char *state, int64_t iteration, const char *suffix);

/* Returns whether an entry of a folder is a directory, and no link to one, that is called
 * iteration_<n><suffix> to the last character, and stores n. Others are not ours. */
bool hd_checkpoint_parse_entry(int folder, const char *name, const char *suffix,
                               int64_t *iteration_p);

/* Lists the iterations that have a checkpoint, ascending, to be freed with hd_free; no list when
 * there are none. Returns HD_OK, HD_ERR_SYSTEM when the folder cannot be listed, with the reason in
 * `why` (not logged), or HD_ERR_NOMEM. */
int hd_checkpoint_list_iterations(const char *state, int64_t **iterations_p, int *n_p,
                                  char why[HD_FILE_WHY]);

/* Returns a hash as JSON text, owned by the caller. */
json_t *hd_checkpoint_format_hash(uint64_t hash);

/* Returns the hash of a manifest without the entry of the hash itself. */
uint64_t hd_checkpoint_hash_manifest(json_t *manifest);

/* Returns the manifest's entries for this rank's files and journals, owned by the caller. */
json_t *hd_checkpoint_list_files(struct hd_checkpoint_writer *c);

/* Returns whether errno of a file that cannot be opened or parsed (0) says that it is damaged:
 * absent, or no file. Otherwise it may be good. */
bool hd_checkpoint_is_damage(int error);

/* Reads the manifest of a checkpoint. Returns HD_OK with one whose own hash is right, owned by the
 * caller; HD_ERR_FORMAT when there is none; HD_ERR_SYSTEM when it cannot be read for now; a
 * sentence is in `why` (not logged). */
int hd_checkpoint_read_manifest(const char *state, int64_t iteration, json_t **manifest_p,
                                char why[HD_FILE_WHY]);

/* Completes the manifest, which holds all ranks' entries, and writes it. Returns HD_OK, or a status
 * with a sentence in `why`, not logged. */
int hd_checkpoint_write_manifest(const struct hd_checkpoint_writer *c, json_t *manifest,
                                 char why[HD_FILE_WHY]);

/* -- checkpoint_join.c ------------------------------------------------------------------------- */

/* Rank 0, whose own files are written, or c->why says why not: waits for the other ranks' reports,
 * makes the checkpoint visible, and tells all ranks. Warns of a failure. */
enum outcome hd_checkpoint_join(struct hd_checkpoint_writer *c);

/* Rank 0: lets the link `latest` name the checkpoint of an iteration. */
void hd_checkpoint_link_latest(const struct hd_checkpoint_writer *c, int64_t iteration);

/* Another rank: reports what it has written, or c->why, and waits for what rank 0 says. */
enum outcome hd_checkpoint_report(struct hd_checkpoint_writer *c);

/* Another rank: reports to rank 0 why it has failed the checkpoint of an iteration or, with `why`
 * empty, what it has written of the one in progress. */
void hd_checkpoint_send_report(struct hd_checkpoint_writer *c, int64_t iteration, const char *why);

/* Rank 0: tells the others whether a checkpoint exists, and its user that it does not. */
void hd_checkpoint_tell_ranks(struct hd_checkpoint_writer *c, int64_t iteration, bool written);
void hd_checkpoint_warn(int64_t iteration, int rank, const char *why);

/* -- checkpoint_journal.c ---------------------------------------------------------------------- */

/* After the checkpoint in progress has ended: if it was written, the journals' blocks are where it
 * put them, and it is the next series' turn; else its journal files are removed. */
void hd_checkpoint_finish_journals(struct hd_checkpoint_writer *c);
void hd_checkpoint_release_journals(struct hd_checkpoint_writer *c);

/* -- checkpoint_files.c ------------------------------------------------------------------------ */

/* Adds a file, whose data, from malloc, the writer takes over. Returns HD_OK or HD_ERR_NOMEM. */
int hd_checkpoint_add_file(struct hd_checkpoint_writer *c, const char *name, void *data,
                           int64_t bytes, bool journal);

/* Fails the checkpoint that is handed over, for lack of memory. Returns HD_ERR_NOMEM. */
int hd_checkpoint_fail_nomem(struct hd_checkpoint_writer *c);

/* Returns the path of a file while the checkpoint is written, to be freed with hd_free; NULL
 * without memory. */
char *hd_checkpoint_format_file(const struct hd_checkpoint_writer *c, const struct file *file);

/* Writes this rank's files, or says in c->why which one cannot be written. */
void hd_checkpoint_write_files(struct hd_checkpoint_writer *c);

/* Releases the files and the metadata. */
void hd_checkpoint_clear_files(struct hd_checkpoint_writer *c);

/* -- checkpoint_remove.c ----------------------------------------------------------------------- */

/* Rank 0: removes what earlier runs left unfinished, and puts the checkpoints after iteration
 * `from` aside, which are damaged. */
void hd_checkpoint_clean_up(const struct hd_checkpoint_writer *c, int64_t from);

/* Rank 0: of the run's checkpoints up to c->iteration removes all but the newest `keep`, and the
 * journal files that no kept one needs; of their folders what their manifests name. */
void hd_checkpoint_remove_old(const struct hd_checkpoint_writer *c);

/* Removes the folder hd_checkpoint_format_path(state, iteration, suffix). */
void hd_checkpoint_remove_iteration(const char *state, int64_t iteration, const char *suffix);
