/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs and types a graph may use. One file per verb: ports, counters, placement, body. */
#ifndef HD_TASKS_REGISTRY_H
#define HD_TASKS_REGISTRY_H

#include "runtime/value.h"

/* Which tasks of a step in subtasks touch a port's value. */
enum hd_access_scope {
    HD_SCOPE_FIRST_STAGE, /* stage 0 of every item */
    HD_SCOPE_STAGE_RANGE, /* stage 0; and later stages, flat values only in the buckets that overlap
                      their stage_range (all buckets when the verb has none). A flat value that the
                      step writes, unless by items, is always so. */
    HD_SCOPE_ALL,         /* every stage of every item, and `finish` */
    HD_SCOPE_ITEM,  /* every stage of item i, partial i of a value of as many partials as the step
                      has  items; `finish`, all partials */
    HD_SCOPE_FINISH /* `finish` only */
};

struct hd_port {
    const char *name; /* name of the port, for `port: value` and errors */
    const char *type; /* required type of the value; NULL: any */
    enum hd_mode mode;
    bool optional;
    bool none; /* may receive a value whose initial version is none */
    enum hd_access_scope scope;
};

/* How a step is cut: `items` that are independent of one another, each in `stages` that follow one
 * another. Item i writes partial i of the flat value that the step writes. */
struct hd_subtasks {
    int64_t items;
    int stages;
    int64_t work_bytes; /* per item, kept from its first stage to its last and `finish`; 0: none */
    int64_t header_bytes; /* per item, for what `finish` takes from stages that run on a GPU: memory
                           that both see; 0: none */
    bool finish_last;     /* `finish` runs after the last stage of all items, not after stage 0 */
};

enum hd_verb_kind {
    HD_VERB_TASK,
    HD_VERB_COLLECTIVE, /* one read port, one written port, `combine` */
    HD_VERB_BROADCAST,  /* copies shard 0's or rank 0's instance to a global */
    HD_VERB_BARRIER,
    HD_VERB_STOP
};

/* A verb's step-specific option: `loss: dqn`. */
struct hd_option {
    const char *name;
    const char *choices; /* "dqn|ppo"; NULL: any text */
    bool required;
};

/* Attributes that the submitter counts (replay.size), as a function of configuration alone. */
struct hd_counted_attribute {
    int port;              /* index of the port whose value is counted */
    const char *attribute; /* one of its type's `counted` */
    /* Its next value; counted[…]: all attributes of the value, in the order of its type, those
     * counted by earlier entries of the verb's `counted` being new already. */
    int64_t (*next)(const void *args, const int64_t *counted);
};

/* A verb on a GPU. Bodies queue their work on context->stream and return; they are given device
 * memory, but for values that are small enough to stay in host memory that both see: what they
 * hold when the body is called may be read by the body itself. */
struct hd_gpu_verb {
    int (*body)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* NULL: the verb's `finish`, if it has one, runs on a CPU and takes nothing from
     * `work_buffers`. */
    int (*finish)(struct hd_context *context, const struct hd_view *views, const void *args);
    bool (*supports)(const void *args);         /* NULL: with every config */
    bool (*stage)(const void *args, int stage); /* which stages run on a GPU; NULL: all */
    void (*get_subtasks)(const void *args, struct hd_subtasks *subtasks_p); /* NULL: the verb's */
    int64_t (*scratch)(const void *args); /* bytes on the GPU; NULL: 0 */
    /* Whether tasks on GPUs, or on the host, touch a port, where scopes alone do not tell; NULL:
     * they do. */
    bool (*touches)(const void *args, int port, bool gpu);
    /* Makes what the bodies need on the present GPU, before the first of them; NULL: nothing. */
    int (*ready)(const void *args);
    /* A function of the views' and work's addresses alone: what the body queues is recorded and
     * played again the next time. */
    bool graph_capturable;
};

#if HD_CUDA
#define HD_ON_GPU(verb) (&(verb))
#else
#define HD_ON_GPU(verb) NULL
#endif

struct hd_verb {
    const char *name;
    uint64_t stream_id; /* which random numbers its steps draw: a constant that no other verb has,
                           drawn once and kept when the verb is renamed */
    enum hd_verb_kind kind;
    enum hd_combine combine;         /* COLLECTIVE */
    bool to_rank0;                   /* COLLECTIVE: the result is wanted on rank 0 only, combined as
                                        the step's option `op` says */
    const struct hd_port *ports;     /* ended by name == NULL */
    bool many;                       /* any number of values of any type for ports[0] */
    const struct hd_option *options; /* ended by name == NULL; or NULL */
    const struct hd_counted_attribute *counted; /* ended by attribute == NULL; or NULL */
    bool by_bucket; /* one task per part of the first written or updated flat value; every flat port
                     then has the same buckets */
    bool run_on_change; /* a step without `every` runs whenever something that it reads is new, as
                     those of collectives and of verbs with `logs` do */
    bool logs; /* sees the logbook and timings; all such tasks run one after another, in program
                  order, on rank 0 only */
    /* Completes specs that the config alone does not determine (fields of scalars): called for all
     * steps in program order until no spec changes. */
    int (*declare)(const struct hd_setup *setup);
    /* Builds the task object from the config; owned by the step, released by `release` (default:
     * hd_free). It must be a pure function of setup: executors may rebuild it at any time. Mistakes
     * go to setup->diag. Default: no object. */
    int (*prepare)(const struct hd_setup *setup, void **args_p);
    void (*release)(void *args);
    int64_t (*scratch)(const void *args); /* bytes; default 0 */
    /* CPU body: views in order of ports (or of the file, for `many`). 0 or hd_body_fail(). Called
     * from any worker; never blocks, allocates or reads a clock. */
    int (*body)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* The following may be NULL. A step in subtasks calls `body` once per item and stage
     * (context->item, stage, work), then `finish` once after stage 0, or the last, of all items
     * (context->work_buffers). Subtasks are a function of args alone; NULL: one item, one stage, no
     * work memory. With one item of one stage, one task runs body and finish. */
    void (*get_subtasks)(const void *args, struct hd_subtasks *subtasks_p);
    /* Elements [*lo_p, *hi_p) of the flat value that the step writes which `stage` finishes; stages
     * tile it, some may be empty. Needed by a step of several stages that writes such a value. */
    void (*stage_range)(const void *args, int stage, int64_t *lo_p, int64_t *hi_p);
    int (*finish)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* The scope of a port where it depends on the task object; default: the port's. */
    enum hd_access_scope (*get_scope)(const void *args, int port);
    /* How many doubles `stage` of every item partials at context->partial_sums, to be added up over
     * all items of all shards, in the tree over (shard, item), before any item's next stage finds
     * the sums at context->cross_shard_sums; 0: none. For shard steps; not after the last stage. */
    int64_t (*count_cross_shard_sums)(const void *args, int stage);
    /* by_bucket verbs whose first port reads a mean: what `body` does, on whole blocks [lo, hi) of
     * the bucket views[].bucket, with the mean given as `sum` (hi - lo floats, for element lo on)
     * and the number of samples `count` to divide by (0: do not divide). views[0].data is NULL.
     * Called for ascending ranges of the bucket, of which this rank perhaps has none (then once
     * with lo == hi); context->again is false in the first of these calls and true in the others.
     */
    int (*update_slice)(struct hd_context *context, const struct hd_view *views, const void *args,
                        int64_t lo, int64_t hi, const float *sum, float count);
    const struct hd_gpu_verb *gpu; /* NULL: runs on CPUs only */
    const char *help;              /* one sentence */
};

struct hd_registry {
    const struct hd_type *const *types; /* NULL-ended */
    const struct hd_verb *const *verbs; /* NULL-ended */
    const struct hd_key *keys;          /* config keys of env.* and policy.* that they read */
};

/* By name; NULL when there is none. */
const struct hd_type *hd_registry_find_type(const struct hd_registry *registry, const char *name);
const struct hd_verb *hd_registry_find_verb(const struct hd_registry *registry, const char *name);

/* Text of a step's option, or NULL when absent. */
const char *hd_setup_get_option(const struct hd_setup *setup, const char *name);

#endif
