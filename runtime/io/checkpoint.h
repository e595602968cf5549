/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run, in DIR/ckpt/state below the run directory:
 *
 *   iteration_<n>/              appears whole, by one rename
 *     manifest.json             what is in it, a hash of every file and one over all, and a head
 *                               that is the writer's own
 *     <name>                    a value of a shard, or of all; a value that ranks share, by ranges
 *   journal/<name>.<n>          of large values: the blocks that were new at iteration n
 *   latest                      a link to the newest
 *
 * A large value (a replay) is written whole once; later checkpoints add the blocks that have
 * changed since, and name for every block the file that has it. A journal file goes when no
 * checkpoint that is kept needs it.
 *
 * All ranks take part, through a file system that all see. Each hands over its files and goes on; a
 * thread of each rank writes them, and rank 0's waits for the others, joins the lists and renames.
 * Whatever fails leaves the checkpoints before as they are. */
#ifndef HD_RUNTIME_IO_CHECKPOINT_H
#define HD_RUNTIME_IO_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* -- Writing ------------------------------------------------------------------------------------
 */

struct hd_checkpoint_writer;

/* For the run directory `dir`, which exists; rank 0 keeps the newest `keep` >= 1. Rank 0 clears
 * away what a run that died left unfinished, and checkpoints after iteration `from` (-1: all), so
 * no rank may begin one before rank 0 has been here. Released by destroy (accepts NULL), which
 * waits for what is being written. Errors: HD_ERR_NOMEM. */
int hd_checkpoint_writer_create(const char *dir, int rank, int ranks, int keep, int64_t from,
                                struct hd_checkpoint_writer **checkpoints_p);
void hd_checkpoint_writer_destroy(struct hd_checkpoint_writer *checkpoints);

/* Whether nothing is being written, so that `begin` would not wait. */
bool hd_checkpoint_writer_is_idle(struct hd_checkpoint_writer *checkpoints);

/* Begins the checkpoint of an iteration, the same on all ranks; waits for the one before. */
int hd_checkpoint_writer_begin(struct hd_checkpoint_writer *checkpoints, int64_t iteration);

/* A file, whose data[bytes], from malloc, is freed when it is written; or a journal, of which what
 * is new is copied before this returns. Names have no slash. Errors: HD_ERR_NOMEM (then `write`
 * reports a failed checkpoint; data is freed). */
int hd_checkpoint_writer_add(struct hd_checkpoint_writer *checkpoints, const char *name, void *data,
                             int64_t bytes);
int hd_checkpoint_writer_add_journal(struct hd_checkpoint_writer *checkpoints, const char *name,
                                     const void *data, int64_t bytes);

/* Hands all that was added to the thread that writes it. Rank 0's head is kept with it (taken
 * over; NULL on others). Failures are logged as warnings. */
void hd_checkpoint_writer_submit(struct hd_checkpoint_writer *checkpoints, json_t *metadata);

/* Waits for other ranks no more: one of them is lost. */
void hd_checkpoint_writer_abandon(struct hd_checkpoint_writer *checkpoints);

/* Waits for it. Whether it can be gone on from. */
bool hd_checkpoint_writer_wait(struct hd_checkpoint_writer *checkpoints);

/* -- Reading ------------------------------------------------------------------------------------
 */

struct hd_checkpoint;

/* The newest good checkpoint of a run directory, all of whose files were read and fit their hashes;
 * a damaged one is named in a warning and the one before it tried. NULL in *checkpoint_p and HD_OK:
 * there is none at all. Errors (logged): HD_ERR_FORMAT when none is good, HD_ERR_NOMEM. Released by
 * close (accepts NULL). */
int hd_checkpoint_open(const char *dir, struct hd_checkpoint **checkpoint_p);
void hd_checkpoint_close(struct hd_checkpoint *checkpoint);

/* Before which iteration it was made. */
int64_t hd_checkpoint_get_iteration(const struct hd_checkpoint *checkpoint);

/* What was given as `metadata`. Borrowed. */
const json_t *hd_checkpoint_get_metadata(const struct hd_checkpoint *checkpoint);

/* The name of file or journal number i that starts with `prefix`, or NULL. Borrowed. */
const char *hd_checkpoint_find_name(const struct hd_checkpoint *checkpoint, const char *prefix,
                                    int i);

/* A file or journal as it was added, to be freed with hd_free; NULL in *data_p: there is none.
 * Errors (logged): HD_ERR_FORMAT, HD_ERR_SYSTEM, HD_ERR_NOMEM. */
int hd_checkpoint_read(const struct hd_checkpoint *checkpoint, const char *name, void **data_p,
                       int64_t *bytes_p);

#endif
