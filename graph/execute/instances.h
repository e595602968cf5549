/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of one value on this rank: their memory, and which version slot holds which
 * version. All instances of a value rotate together. Where GPUs take part a slot has replicas, the
 * host's and others on GPUs, each of some version. Called by the session's thread only. */
#pragma once

#include "graph/plan/plan.h"
#include "runtime/engine/submit.h"

/* The memory of all instances at one home. */
struct hd_replica {
    struct hd_memory *memory; /* [instances] */
    int64_t version;          /* what they hold; -1: nothing */
};

/* The memory that one version of the value needs. */
struct hd_version_slot {
    struct hd_replica *replicas; /* [homes of the plan's value] */
    int64_t version;             /* held by at least one replica */
};

struct hd_instances {
    struct hd_session *session;
    const struct hd_plan *plan;
    const struct hd_plan_value *planned; /* the value's part of the plan */
    const struct hd_graph_value *value;
    struct hd_version_slot *version_slots; /* the rotation, then snapshots for lagged readers, then
                                              snapshots for background tasks */
    int n_version_slots;
    int current;     /* slot of the current version */
    int64_t version; /* number of versions made so far */
    int background;  /* slot of the newest snapshot for background tasks, or -1 */
    int *starts;     /* [lag + 1]: slot with the version at the start of iteration i, at
                        i % (lag + 1) */
};

/* Allocates the instances of a value and initialises them on the host; `first`, if not NULL, is the
 * value whose initial content is copied, or whose memory is used (hd_plan_value.alias); it is
 * destroyed before. Session and plan outlive the instances. The caller calls
 * hd_instances_destroy, after a failure too. Returns HD_OK, HD_ERR_NOMEM or the error of the type's
 * `init` (logged). */
int hd_instances_create(struct hd_session *session, const struct hd_setup *setup,
                        const struct hd_plan *plan, int value, const struct hd_instances *first,
                        struct hd_instances *instances);
void hd_instances_destroy(struct hd_instances *instances);

/* Makes current, and returns, the slot that the next write of iteration `iteration` goes to: one
 * that no lagged reader still needs. */
struct hd_version_slot *hd_instances_rotate(struct hd_instances *instances, int64_t iteration);

/* Marks the start of iteration `iteration`. Returns the slot into which the current version must be
 * copied for lagged readers, or NULL if the newest snapshot is of this version or the value needs
 * none. */
struct hd_version_slot *hd_instances_start_iteration(struct hd_instances *instances,
                                                     int64_t iteration);

/* Records that slot `slot` holds the version at the start of iteration `iteration`. */
void hd_instances_set_start(struct hd_instances *instances, int64_t iteration, int slot);

/* Returns the slot into which the current version must be copied for background tasks, or NULL if
 * the newest snapshot is of this version. */
struct hd_version_slot *hd_instances_start_background(struct hd_instances *instances);

/* Returns the slot that a reader of iteration `iteration` sees; `lag` matters for HD_FROM_LAG. */
struct hd_version_slot *hd_instances_get_slot(const struct hd_instances *instances,
                                              enum hd_source source, int lag, int64_t iteration);
