/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run at the start of an iteration, or at the stop step that ended it
 * (hd_binder.place), as checkpoints hold it: the content of the values that somebody may still
 * read, and what the submitter counts and remembers. All of it is a function of the program, not of
 * ranks, windows, buffers or GPUs, so a run with another number of ranks may go on from it. Called
 * by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_STATE_H
#define HD_GRAPH_EXECUTE_STATE_H

#include "graph/execute/guards.h"
#include "runtime/io/checkpoint/checkpoint.h"

/* Save and restore the state as execute.h says of hd_executor_save and hd_executor_restore, whose
 * status they return. */
int hd_state_save(const struct hd_guards *guards, struct hd_checkpoint_writer *checkpoints,
                  json_t **state_p);
int hd_state_restore(struct hd_guards *guards, const struct hd_checkpoint *checkpoint,
                     const json_t *state);

#endif
