/* SPDX-License-Identifier: Apache-2.0 */
/* Finds how long the tasks of simulated ranks take. */
#include "runner/simulate/model/cluster_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

/* A time of the task's kind, drawn by the rank and the number of the node: equal in every
 * simulation. */
double hd_rank_draw_time(const struct hd_rank *rank, int node)
{
    const struct hd_node_time *time = &rank->times[node];
    const uint64_t bits = hd_hash_mix((uint64_t)rank->number, (uint64_t)node);
    const double share = (double)(bits >> 11) * 0x1p-53;
    return time->times ? hd_task_times_get(time->times, share) * time->factor : time->factor;
}

/* -- On a host --------------------------------------------------------------------------------- */

static int fail_unknown(const char *name)
{
    return hd_fail(HD_ERR_INPUT,
                   "the calibration has no time of %s: calibrate longer (--updates), with the same "
                   "config",
                   name);
}

/* The engine's own tasks take time in proportion to their volume. The volume alone tells the time
 * of those that a single rank does not have. */
static int find_host_time(const struct hd_cluster *cluster, const struct hd_submission *submission,
                          const struct hd_submitted *node, struct hd_node_time *time)
{
    const char *name = submission->names[node->name];
    time->times = hd_calibration_find(cluster->calibration, name, node->stage, node->bucket);
    time->factor = cluster->scale;
    if (time->times && time->times->volume > 0 && node->volume > 0) {
        time->factor *= (double)node->volume / (double)time->times->volume;
    } else if (!time->times) {
        if (node->volume == 0)
            return fail_unknown(name);
        time->factor *= (double)node->volume / cluster->calibration->bytes_per_s;
    }
    return HD_OK;
}

/* -- On GPUs ----------------------------------------------------------------------------------- */
/* A step on a GPU is cut in other tasks than on a host. All of its tasks for a shard in an
 * iteration together take what its tasks on a host take, divided by the GPUs' speed, and each takes
 * as much as every other. */

/* Stores in each[n_names] how many tasks of a name a shard has in an iteration, if it has any. */
static int count_each(const struct hd_submission *submission, double *each)
{
    int shards = 1;
    for (int i = 0; i < submission->n_nodes; i++)
        shards = submission->nodes[i].shard + 2 > shards ? submission->nodes[i].shard + 2 : shards;
    const int64_t n = (int64_t)submission->n_names * shards;
    int *seen = hd_alloc(n, sizeof *seen); /* 1 + iteration */
    int *pairs = hd_alloc(submission->n_names, sizeof *pairs);
    for (int i = 0; seen && pairs && i < submission->n_nodes; i++) {
        const struct hd_submitted *node = &submission->nodes[i];
        int *last = &seen[node->name * (int64_t)shards + node->shard + 1];
        each[node->name]++;
        pairs[node->name] += *last != 1 + node->iteration;
        *last = 1 + node->iteration;
    }
    for (int i = 0; seen && pairs && i < submission->n_names; i++)
        each[i] /= pairs[i] > 0 ? pairs[i] : 1;
    const int status = seen && pairs ? HD_OK : HD_ERR_NOMEM;
    hd_free(seen);
    hd_free(pairs);
    return status;
}

/* Returns the time of all tasks of a name for a shard in an iteration; 0: there are none. */
static double add_times(const struct hd_calibration *calibration, const char *name)
{
    double seconds = 0;
    for (int i = 0; i < calibration->n_times; i++)
        if (strcmp(calibration->times[i].name, name) == 0)
            seconds += calibration->times[i].mean * calibration->times[i].each;
    return seconds;
}

static int find_gpu_time(const struct hd_cluster *cluster, const struct hd_submission *submission,
                         const struct hd_submitted *node, double each, struct hd_node_time *time)
{
    const char *name = submission->names[node->name];
    const double step_s = add_times(cluster->calibration, name);
    time->factor = cluster->scale / cluster->gpu_speedup;
    if (node->copies)
        time->factor = (double)node->volume / 2 / cluster->gpu_bytes_per_s;
    else if (node->volume > 0)
        time->factor *= (double)node->volume / cluster->calibration->bytes_per_s;
    else if (step_s > 0)
        time->factor *= step_s / each;
    else
        return fail_unknown(name);
    return HD_OK;
}

/* -- Of a rank --------------------------------------------------------------------------------- */

static int find_all(const struct hd_cluster *cluster, const struct hd_submission *submission,
                    const double *each, struct hd_node_time *times)
{
    for (int i = 0; i < submission->n_nodes; i++) {
        const struct hd_submitted *node = &submission->nodes[i];
        if (node->kind != HD_SUBMITTED_TASK)
            continue;
        HD_TRY(node->home == HD_HOST
                   ? find_host_time(cluster, submission, node, &times[i])
                   : find_gpu_time(cluster, submission, node, each[node->name], &times[i]));
    }
    return HD_OK;
}

/* Ranks that submit the same share their times. */
int hd_rank_find_times(struct hd_rank *rank)
{
    const struct hd_submission *submission = rank->submission;
    const double *const *seconds = rank->simulation->cluster->seconds;
    for (struct hd_rank *other = rank->simulation->list; other < rank && !seconds; other++)
        if (other->submission == submission) {
            rank->times = other->times;
            return HD_OK;
        }
    rank->times = rank->owned_times = hd_alloc(submission->n_nodes + 1, sizeof *rank->times);
    if (rank->times && seconds) {
        for (int i = 0; i < submission->n_nodes; i++)
            rank->owned_times[i].factor = seconds[rank->number][i];
        return HD_OK;
    }
    double *each = hd_alloc(submission->n_names, sizeof *each);
    int status = rank->times && each ? count_each(submission, each) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = find_all(rank->simulation->cluster, submission, each, rank->owned_times);
    hd_free(each);
    return status;
}
