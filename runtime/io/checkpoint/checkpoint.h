/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run, in DIR/ckpt/state below the run directory:
 *
 *   iteration_<n>/              appears whole, by one rename
 *     manifest.json             names and hashes of all files, a hash over all, and metadata of the
 *                               caller
 *     <name>                    a value of a shard or of all shards, or a rank's range of a value
 *   journal/<name>.<n>          of large values: the blocks that were new at iteration n
 *   latest                      a link to the newest
 *
 * A large value (a replay) is a journal: it is written whole once, and later the blocks that have
 * changed since; the manifest names for every block the file that has it. There are as many series
 * of journal files as checkpoints are kept, and checkpoints take turns between them, so that no two
 * that are kept share a file. A journal file is removed when no kept checkpoint needs it.
 *
 * All ranks take part, through a file system that all see. Each hands over its files and continues;
 * a thread of each rank writes them and reports to rank 0 by a message what it wrote, or why it
 * could not. Rank 0's thread joins the reports, renames the folder and tells the others. A rank
 * that fails, or does not report in time, costs this checkpoint: all ranks give it up, rank 0 warns
 * once, and the earlier checkpoints stay as they are.
 *
 * One thread at a time uses a writer, except where a function says otherwise; several may read a
 * checkpoint. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* -- Writing ----------------------------------------------------------------------------------- */

struct hd_checkpoint_writer;

struct hd_checkpoint_writer_options {
    const char *dir; /* the run directory, which exists */
    int rank, ranks;
    int keep;         /* rank 0 keeps the newest `keep` >= 1 checkpoints */
    int64_t from;     /* the run continues from this iteration's; rank 0 puts later ones aside. -1:
                         there is none */
    double timeout_s; /* a checkpoint that takes longer is given up */
    const char *run;  /* rank 0: names the run for good; checkpoints of others are left alone. NULL:
                         none are known */
    /* Sends a message, from rank 0 to `rank`, from others to rank 0, which passes it to
     * hd_checkpoint_writer_receive there. Returns a status; a failure is a rank that is gone. It is
     * called by the writing thread too. NULL with one rank. */
    int (*send)(void *arg, int rank, const void *data, int64_t bytes);
    void *arg;
};

/* Creates a writer. Rank 0 also removes what a run that died left unfinished, so no rank may begin
 * a checkpoint before rank 0 has returned. Returns HD_OK or HD_ERR_NOMEM (logged). Destroy (accepts
 * NULL) waits for the checkpoint in progress and releases it; if that does not end in time, the
 * writer is left to its thread, and no message is sent any more. */
int hd_checkpoint_writer_create(const struct hd_checkpoint_writer_options *options,
                                struct hd_checkpoint_writer **checkpoints_p);
void hd_checkpoint_writer_destroy(struct hd_checkpoint_writer *checkpoints);

/* Takes a message that rank `rank` sent. Any thread may call it from the end of create to the
 * beginning of destroy; accepts NULL. */
void hd_checkpoint_writer_receive(struct hd_checkpoint_writer *checkpoints, int rank,
                                  const void *data, int64_t bytes);

/* Returns whether no checkpoint is in progress, so that `begin` would not wait. */
bool hd_checkpoint_writer_is_idle(struct hd_checkpoint_writer *checkpoints);

/* Begins the checkpoint of an iteration, the same on all ranks, after waiting for the one before.
 * That of iteration options.from exists, so that nothing is written. If this rank is still writing
 * that one when its time is over, this rank fails the new one. Returns HD_OK. */
int hd_checkpoint_writer_begin(struct hd_checkpoint_writer *checkpoints, int64_t iteration);

/* Add a file, whose data[bytes], from malloc, the writer takes over; or a journal, whose changed
 * blocks are copied before this returns. Names have no slash. Return HD_OK or HD_ERR_NOMEM, after
 * which the checkpoint fails; data is freed in any case. */
int hd_checkpoint_writer_add(struct hd_checkpoint_writer *checkpoints, const char *name, void *data,
                             int64_t bytes);
int hd_checkpoint_writer_add_journal(struct hd_checkpoint_writer *checkpoints, const char *name,
                                     const void *data, int64_t bytes);

/* Hands all that was added to the writing thread. Rank 0 passes the metadata for the manifest,
 * which the writer takes over; other ranks pass NULL. Failures are logged as warnings. */
void hd_checkpoint_writer_submit(struct hd_checkpoint_writer *checkpoints, json_t *metadata);

/* Stops waiting for other ranks, because one of them is lost. Thread safe; accepts NULL. */
void hd_checkpoint_writer_abandon(struct hd_checkpoint_writer *checkpoints);

/* Waits for the checkpoint in progress until its time is over, and says now and then what it waits
 * for. Returns whether the newest one succeeded. */
bool hd_checkpoint_writer_wait(struct hd_checkpoint_writer *checkpoints);

/* -- Reading ----------------------------------------------------------------------------------- */

struct hd_checkpoint;

/* Opens the newest good checkpoint of a run directory, after reading all its files and comparing
 * their hashes; names a damaged one in a warning and tries the one before it. Stores NULL and
 * returns HD_OK when there is none at all. Returns HD_OK, HD_ERR_FORMAT (logged) when none is good,
 * HD_ERR_SYSTEM (logged) when something cannot be read now and may be good, or HD_ERR_NOMEM. Close
 * (accepts NULL) releases it. */
int hd_checkpoint_open(const char *dir, struct hd_checkpoint **checkpoint_p);
void hd_checkpoint_close(struct hd_checkpoint *checkpoint);

/* Returns the iteration before which it was made. */
int64_t hd_checkpoint_get_iteration(const struct hd_checkpoint *checkpoint);

/* Returns the metadata that rank 0 passed to hd_checkpoint_writer_submit. Borrowed. */
const json_t *hd_checkpoint_get_metadata(const struct hd_checkpoint *checkpoint);

/* Returns the name of the i-th file or journal whose name starts with `prefix`, or NULL. Borrowed.
 */
const char *hd_checkpoint_find_name(const struct hd_checkpoint *checkpoint, const char *prefix,
                                    int i);

/* Reads a file or journal as it was added, to be freed with hd_free; stores NULL when there is
 * none. A journal must have `journal_bytes`. Returns HD_OK, HD_ERR_FORMAT (logged) or
 * HD_ERR_NOMEM. */
enum { HD_NO_JOURNAL = -1 }; /* the name must not be that of a journal */
int hd_checkpoint_read(const struct hd_checkpoint *checkpoint, const char *name,
                       int64_t journal_bytes, void **data_p, int64_t *bytes_p);
