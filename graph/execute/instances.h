/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of one value on this rank: their memory, and which buffer holds which version. All
 * instances of a value rotate together. Where GPUs take part a buffer has copies: the host's, and
 * others on GPUs, each of some version. */
#ifndef HD_GRAPH_EXECUTE_INSTANCES_H
#define HD_GRAPH_EXECUTE_INSTANCES_H

#include "graph/plan/plan.h"
#include "runtime/engine/submit.h"

/* One per instance. */
struct hd_replica {
    void **data;                /* [instances] */
    struct hd_buffer **buffers; /* [instances] */
    int64_t version;            /* what they hold */
};

/* A slot of buffers: what one version of the value needs. */
struct hd_version_slot {
    struct hd_replica *replicas; /* [homes of the plan's value] */
    int64_t version;             /* what it holds, in one copy at least, or distributed */
    int64_t distributed_version; /* the version of which the GPUs' copies hold the buckets that are
                       at home there, if nothing else; -1: none */
};

struct hd_instances {
    const struct hd_graph_value *value;
    const struct hd_plan_value *plan;
    const struct hd_plan *whole; /* plan, that of which it is a bucket */
    struct hd_version_slot
        *version_slots; /* the rotation, then copies for lags, then copies for background tasks */
    int n_version_slots;
    int current;     /* slot of the current version */
    int64_t version; /* number of versions made so far */
    int background;  /* slot of the newest copy for background tasks, or -1 */
    int *starts;     /* [lag + 1]: slot with the version at the start of iteration i, at
                        i % (lag + 1) */
};

/* Allocates and initialises, on the host; `first`, if not NULL, is the value whose initial content
 * is copied. */
int hd_instances_create(struct hd_session *session, const struct hd_setup *setup,
                        const struct hd_plan *plan, int value, const struct hd_instances *first,
                        struct hd_instances *instances);
void hd_instances_destroy(struct hd_session *session, struct hd_instances *instances);

/* The slot that the next write of iteration `iteration` goes to: not one that a lagged reader still
 * needs. It becomes current. */
struct hd_version_slot *hd_instances_rotate(struct hd_instances *instances, int64_t iteration);

/* Marks the start of iteration `iteration`. Values copied for lags: returns the slot to copy the
 * current one to, or NULL when the newest copy is of this version. Others: NULL. */
struct hd_version_slot *hd_instances_start_iteration(struct hd_instances *instances,
                                                     int64_t iteration);

/* Says that slot `slot` holds the version at the start of iteration `iteration`. */
void hd_instances_set_start(struct hd_instances *instances, int64_t iteration, int slot);

/* The slot to copy the current one to for background tasks, or NULL when the newest copy is of this
 * version. */
struct hd_version_slot *hd_instances_start_background(struct hd_instances *instances);

/* The slot that a reader sees. */
struct hd_version_slot *hd_instances_get_slot(const struct hd_instances *instances,
                                              enum hd_source source, int lag, int64_t iteration);

#endif
