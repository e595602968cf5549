/* SPDX-License-Identifier: Apache-2.0 */
/* A sharded update uses a mean over shards slice by slice as it is computed (ZeRO's optimizer
 * sharding, Rajbhandari et al. 2020, on memory that all ranks see). It sums a flat value over its
 * partials and all shards in tree order and hands the sum on, a block at a time, to a function that
 * changes other values of the same buckets; the mean is never stored.
 *
 * A single rank has a task per bucket. Of several ranks, each does its slice (whole blocks) of
 * every bucket, reads the other ranks' operands where they lie, and copies the other slices of the
 * results afterwards. Called by the session's thread only.
 *
 * Per bucket, all ranks pass two sync points:
 *   A    this rank's operands are written; it no longer copies from the others' results
 *        own slice: reads all operands, changes own results
 *   B    own slice is done
 *        copies the other ranks' slices of the results that are wanted whole
 * Nothing is overwritten that another rank still reads:
 *   - Other ranks read operands between A and B: a reader has passed A and not arrived at B. The
 *     owner holds its operands (an access) until it has passed B, so all have arrived at B.
 *   - Other ranks read results after B and before they arrive at the bucket's next A, because their
 *     copying changes the bucket's results, and so does A as far as dependences are concerned. The
 *     owner changes its results after it has passed that next A, so all have arrived there. The
 *     planner promises that nothing else changes them.
 * Among several hosts, A and B carry the data: A a slice of every host's block of the tree, which a
 * task of each rank adds before for its partners (comm.h), B the results. They arrive at the same
 * offsets in the areas of the partners, as this host sees them, so the rest is as above. Where a
 * host has several ranks, these wait for each other's operands before they add them; they read them
 * until they arrive at B.
 *
 * Among many hosts, if hd_message_choose_update says so, A and B are log2 H rounds each, in which
 * pairs of ranks exchange halves (halving.h). Then a rank waits for nobody else:
 *   on host  where a host has several ranks: their operands are written; they no longer copy from
 *            this rank's results
 *            the rank adds its host's operands in the slices of its number
 *   A        round by round: sends the sums of one half of its slices, and adds those that it
 *            receives to the other
 *            own slice: changes own results
 *   B        round by round: receives results where its own values have them
 *   on host  the results of all numbers are there
 *            copies those of the other numbers
 *   - The own sum and the received one lie in the memory for the operands of two partners on other
 *     hosts. On this host nobody but this rank uses that.
 *   - The other ranks of the host read operands between the first sync point on the host and the
 *     last, which the owner has to pass before it gives up its operands.
 *   - They read results after the last one and before they arrive at the bucket's next first one.
 *     The owner changes its results, by its slice and by what it receives, after it has passed
 * that.
 *   - A message that comes before its receiver has asked for it waits in the transport.
 * Where a host has one rank, nobody else reads its operands and results.
 *
 * Sync points of neighbouring buckets are submitted A0 A1 B0 A2 B1 …, their rounds in turns, so
 * that a rank that waits in one has the next bucket's slice to do. */
#pragma once

#include "runtime/engine/collective/halving.h"
#include "runtime/engine/submit.h"

struct hd_sharded_update {
    const char *verb, *name;   /* of the step that uses the mean, as in hd_task */
    const char *const *labels; /* [buckets]: of the sync points; outlive the session */
    /* The function is the verb's (tasks/base/registry.h). */
    int (*update_slice)(struct hd_context *context, const struct hd_view *views, const void *args,
                        int64_t lo, int64_t hi, const float *sum, float count);
    const void *args; /* outlives the tasks */
    struct hd_context context;
    int64_t scratch_bytes; /* that update_slice needs */

    const struct hd_spec *operands; /* the flat value that is averaged */
    int n_in;                       /* instances of this rank, in shard order */
    const struct hd_memory *in;

    struct hd_view views[HD_VIEWS_MAX];      /* views[0]: the mean, no data */
    struct hd_access accesses[HD_VIEWS_MAX]; /* to the whole values; [0] is not used */
    bool wanted_whole[HD_VIEWS_MAX];         /* changed values that every rank needs whole */
    int n;

    struct hd_channels channels; /* of the communicator, over which the buckets go */
    struct hd_task_group *group;
};

/* Submits the updates of all buckets: copies of *update and its arrays. Among several ranks, `in`
 * and the values that are wanted whole lie in the ranks' areas (hd_session_get_area), at the same
 * offsets on all. Returns HD_OK, or HD_ERR_NOMEM or HD_ERR_SYSTEM, by which the session has failed
 * and everything submitted has ended. */
int hd_submit_sharded_update(struct hd_session *session, const struct hd_sharded_update *update);

/* Returns the elements of a bucket that `rank` does: whole blocks (halving.h). */
struct hd_elements hd_sharded_update_get_slice(const struct hd_session *session,
                                               const struct hd_spec *spec, int bucket, int rank);

/* Returns the bytes of scratch for an update_slice that needs scratch_bytes. */
int64_t hd_sharded_update_get_scratch_bytes(int64_t scratch_bytes);
