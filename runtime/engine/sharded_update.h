/* SPDX-License-Identifier: Apache-2.0 */
/* A mean over shards that is used as it is made, slice by slice (ZeRO's optimizer sharding,
 * Rajbhandari et al. 2020, on memory that all ranks see). A flat value is summed over its partials
 * and all shards in tree order and handed on, a block at a time, to a function that changes other
 * values of the same buckets; the mean is never stored.
 *
 * One rank: a task per bucket. Several: every rank does its slice (whole blocks) of every bucket,
 * reads the other ranks' operands where they lie, and copies the other slices of the results
 * afterwards.
 *
 * Per bucket, all ranks pass two sync points:
 *   A    this rank's operands are written; it no longer copies from the others' results
 *        own slice: reads all operands, changes own results
 *   B    own slice is done
 *        copies the other ranks' slices of the results that are wanted whole
 * Nothing is overwritten that another rank still reads:
 *   - Operands are read by others between A and B: who reads has passed A and not arrived at B.
 * Their owner holds them (an access) until it has passed B, so all have arrived at B.
 *   - Results are read by others after B and before their arrival at the bucket's next A: their
 *     copying changes the bucket's results, and so does A as far as dependences are concerned.
 * Their owner changes them after it has passed that next A, so all have arrived there. Nothing else
 *     may change them: the planner's promise.
 * Where the ranks' memory is apart, A and B carry what is read: A a slice of every rank's block of
 * the tree, which a task adds before, B the results. They come to the same places in this rank's
 * own image of the others' areas, so the rest is as above.
 * Sync points of neighbouring buckets are submitted A0 A1 B0 A2 B1 …, so that a rank that waits in
 * one has the next bucket's slice to do. */
#ifndef HD_RUNTIME_ENGINE_SHARDED_UPDATE_H
#define HD_RUNTIME_ENGINE_SHARDED_UPDATE_H

#include "runtime/engine/submit.h"

struct hd_sharded_update {
    const char *verb, *name;   /* of the step that uses the mean, as in hd_task */
    const char *const *labels; /* [buckets]: of the sync points; outlive the session */
    /* As in tasks/registry.h. */
    int (*update_slice)(struct hd_context *context, const struct hd_view *views, const void *args,
                        int64_t lo, int64_t hi, const float *sum, float count);
    const void *args; /* outlives the tasks */
    struct hd_context context;
    int64_t scratch_bytes; /* that `slice` needs */

    const struct hd_spec *operands; /* the flat value that is averaged */
    int n_in;                       /* instances of this rank, in shard order */
    void *const *in;
    struct hd_buffer *const *in_buffers;

    struct hd_view views[HD_VIEWS_MAX]; /* views[0]: the mean, no data */
    struct hd_buffer *buffers[HD_VIEWS_MAX];
    enum hd_mode modes[HD_VIEWS_MAX];
    bool wanted_whole[HD_VIEWS_MAX]; /* changed values that every rank needs whole */
    int n;

    struct hd_task_group *group;
};

/* Submits the exchange of all buckets: copies of *update and its arrays. Among several ranks, `in`
 * and what is wanted whole lie in the ranks' areas (hd_session_get_area), at the same places on
 * all. */
int hd_submit_sharded_update(struct hd_session *session, const struct hd_sharded_update *update);

/* Elements [*lo_p, *hi_p) of bucket [lo, hi) that `rank` of `ranks` does: whole blocks, as even as
 * can be. */
void hd_sharded_update_get_slice(int64_t lo, int64_t hi, int rank, int ranks, int64_t *lo_p,
                                 int64_t *hi_p);

/* Bytes of scratch for a `slice` that needs scratch_bytes. */
int64_t hd_sharded_update_get_scratch_bytes(int64_t scratch_bytes);

#endif
