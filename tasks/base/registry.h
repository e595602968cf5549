/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a verb. A verb is one `const struct hd_verb` in one file: it says which ports
 * a step of it has, which task object it makes of the config, and which bodies run.
 *
 * A step of a graph becomes one task, or one for each shard or bucket. A verb may instead cut its
 * step in subtasks: the work consists of items that are independent of each other (microbatches,
 * environment groups), each item of stages that follow one another, and `finish` runs once for all
 * items.
 *
 * Threads: `declare`, `prepare`, `release` and all functions of a task object alone are called by
 * the thread that builds the graph and submits its tasks. Bodies are called by any worker, for
 * several shards, items and iterations at once: the task object is read-only to them, and whatever
 * survives a body is in the values that its ports change. The functions declared here are thread
 * safe. */
#pragma once

#include "runtime/base/on_gpu.h"
#include "runtime/value.h"

/* Says which subtasks of a step touch the value of a port. To the others its view has no data. By
 * stage 0 this means the first one behind the early stages (struct hd_subtasks). A flat value that
 * the step writes, by another scope than ITEM, is always of scope STAGE_RANGE: item i writes
 * partial i of it, each stage its own range. */
enum hd_access_scope {
    HD_SCOPE_FIRST_STAGE, /* stage 0 of every item */
    HD_SCOPE_STAGE_RANGE, /* stage 0 of every item; later stages of a flat value only the buckets
                             that overlap their stage_range, and of other values nothing */
    HD_SCOPE_ALL,         /* every stage of every item, and `finish` */
    HD_SCOPE_ITEM,  /* every stage of item i touches partial i alone, of as many partials as the
                       step has items, or all partials if it is the only item; `finish` touches
                       all */
    HD_SCOPE_FINISH /* `finish` only */
};

/* A named place of a verb for a value: {name, type, .mode = ..., further fields by name}. The
 * zeroed fields are the common case: a required value that stage 0 touches. */
struct hd_port {
    const char *name; /* for `port: value` in graphs, and for messages */
    const char *type; /* the type that the value must have; NULL: any */
    enum hd_mode mode;
    bool optional; /* a step may leave it out; its view is then absent (data and spec NULL) */
    bool none;     /* may receive a value that has no content yet (hd_type.none) */
    enum hd_access_scope scope;
    bool early;     /* the early stages read it, too */
    bool gpu_order; /* the verb's form for GPUs accepts a value in either order (hd_spec.gpu_order)
                     */
    bool divides;   /* the verb divides what it reads by its count: it may get a sum for its mean */
};

/* The subtasks of a step. */
struct hd_subtasks {
    int64_t items;      /* >= 1 */
    int stages;         /* >= 1, of each item */
    int early;          /* < stages: so many of them, the first ones, touch the ports alone that are
                           `early`, and so need not wait for the other values */
    int64_t work_bytes; /* of context->work, an item's memory from its first stage to its last and
                           in `finish`; 0: none */
    int64_t header_bytes; /* of context->header, an item's memory that `finish` sees wherever stages
                             and `finish` run; 0: none */
    bool finish_last;     /* `finish` follows the last stage of all items; else their stage 0,
                             or the first one behind the early stages */
    int64_t joint_items;  /* a stage on a GPU is one task for so many items at a time (the last one
                             perhaps for fewer), which get the work memory of the first of them and
                             leave no partial sums; 0: for each item */
    bool waits;           /* bodies may return HD_WAITS; work and header are kept meanwhile */
};

/* Says what executes a step. Verbs that compute are all HD_VERB_TASK. */
enum hd_verb_kind {
    HD_VERB_TASK,       /* `body`, and `finish` if there is one */
    HD_VERB_COLLECTIVE, /* the runtime combines the instances of port 0 into those of port 1; its
                           task object is the struct hd_rounding of the exchange, or NULL. Port 2,
                           if there is one, has for each instance what rounding took from it */
    HD_VERB_BROADCAST,  /* the runtime copies shard 0's or rank 0's instance to a global */
    HD_VERB_BARRIER,    /* the runtime waits for all ranks */
    HD_VERB_STOP        /* the submitter evaluates the step's `if:` */
};

/* An option of a step, such as `loss: dqn`. */
struct hd_option {
    const char *name;
    const char *choices; /* the texts allowed, "dqn|ppo"; NULL: any text */
    bool required;
};

/* An attribute that the submitter counts (replay.size), so that guards need not look at data. */
struct hd_counted_attribute {
    int port;              /* index of the port whose value is counted */
    const char *attribute; /* one of its type's `counted` */
    /* Returns the attribute after the step, a function of the task object and of the value's
     * attributes, in the order of its type. Attributes of earlier entries are already new. */
    int64_t (*next)(const void *args, const int64_t *counted);
};

/* A verb's form for GPUs. Its bodies queue their work on context->stream and return; they neither
 * allocate nor wait. Views show device memory; only instances of pinned types and items' headers
 * are host memory that the GPU addresses too, which a body may read itself, as it stands when the
 * body is called. Statuses are those of the CPU's bodies and HD_ERR_DEVICE. */
struct hd_gpu_verb {
    int (*body)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* Default: the verb's `finish`, if there is one, runs on a CPU. It then finds NULL in
     * context->work_buffers, and what it needs in context->headers. */
    int (*finish)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* Returns whether this config can run on a GPU. Default: true. */
    bool (*supports)(const void *args);
    /* Returns whether a stage runs on the GPU; the others run the CPU's body, with context->gpu
     * set. Default: all stages do. */
    bool (*stage)(const void *args, int stage);
    /* Default: the verb's. */
    void (*get_subtasks)(const void *args, struct hd_subtasks *subtasks_p);
    /* Returns the bytes of context->scratch, on the GPU. Default: 0. */
    int64_t (*scratch)(const void *args);
    /* Returns false for a port that tasks on GPUs (gpu true) or on the host (false) never touch,
     * although its scope says so. Default: true. */
    bool (*touches)(const void *args, int port, bool gpu);
    /* Makes what the bodies need on the calling thread's GPU, once before the first of them.
     * Returns a status (logged). Default: nothing. */
    int (*ready)(const void *args);
    /* True if what the body queues depends on the addresses of views, work, header and inputs
     * alone, so that it can be recorded once as a CUDA graph and launched again later. */
    bool graph_capturable;
    /* Writes what differs from call to call to context->inputs, input_bytes of memory that the GPU
     * addresses too, before the work that `body` queued or now queues is launched. It may look into
     * instances of pinned types and change them. Of capturable verbs. Default: nothing. */
    int (*set_inputs)(struct hd_context *context, const struct hd_view *views, const void *args);
    int64_t input_bytes;
    /* True if the CPU's `finish` is so short that the GPU's thread may call it when the work of the
     * last item has ended. It touches pinned values and headers alone. */
    bool finishes_at_end;
    /* Returns a number that stages have in common whose bodies queue the same, so that they share a
     * graph; HD_NO_GRAPH: there is nothing to do this time, and `body` is not called. It may look
     * into instances of pinned types and headers. Of capturable verbs. Default: the stage. */
    int (*get_graph)(const struct hd_context *context, const struct hd_view *views,
                     const void *args);
    /* Returns whether `body` is to be called once more for this stage, now that what it queued has
     * ended: a function of what that left in context->header. Others have had a turn by then, so
     * that long work which queues a millisecond's worth at a time may run in the background. Called
     * by any thread. Default: false. */
    bool (*again)(const struct hd_context *context, const void *args);
    /* True if a graph is only worth a GPU where this can run on it: a step of the verb that cannot
     * keeps all others on CPUs. */
    bool decides;
};

/* This is the set_inputs of verbs that draw: a body finds the step's stream at context->inputs.
 * Returns HD_OK. Thread safe. */
int hd_inputs_set_rng(struct hd_context *context, const struct hd_view *views, const void *args);

/* A verb. `args` is the task object that `prepare` made. Fields that a verb leaves zero have the
 * stated default. */
struct hd_verb {
    const char *name;   /* as graphs write it */
    uint64_t stream_id; /* selects the random stream context->rng of its steps: a random constant
                           that no other verb has, kept when the verb is renamed */
    const char *help;   /* one sentence: what a step does */
    enum hd_verb_kind kind;

    /* -- Ports and options -------------------------------------------------------------------- */
    const struct hd_port *ports; /* ended by name == NULL */
    bool many; /* a step names any number of values of any type, which all are of port 0 */
    const struct hd_option *options; /* ended by name == NULL. Default: none */
    enum hd_combine combine;         /* of a COLLECTIVE */
    bool to_rank0; /* COLLECTIVE: only rank 0 needs the result, and the step's option `op` decides
                      how to combine */

    /* -- When and where steps run ------------------------------------------------------------- */
    const struct hd_counted_attribute *counted; /* ended by attribute == NULL. Default: none */
    bool run_on_change; /* a step without `every` runs when something that it reads is new. Always
                           so for collectives and verbs with `logs` */
    bool logs;      /* bodies get context->logbook and context->timing; steps run on rank 0 only,
                       and all such tasks one after another in program order */
    bool by_bucket; /* one task per bucket of the first flat value that the step changes; all
                       flat values of the step then have the same buckets */

    /* -- From the config to a task object ----------------------------------------------------- */
    /* Completes the specs of values that the config alone does not determine, such as the fields of
     * scalars. Called for all steps in program order, repeatedly until no spec changes. Default:
     * nothing. */
    int (*declare)(const struct hd_setup *setup);
    /* Makes the task object, which the step owns. It is a function of setup alone, as the executor
     * may rebuild it at any time. On failure *args_p may be set; it is released as usual. Default:
     * no object.
     *
     * `declare` and `prepare` return HD_OK, HD_ERR_INPUT after adding mistakes of the user to
     * setup->diag, or another error (logged), which ends the run at once. */
    int (*prepare)(const struct hd_setup *setup, void **args_p);
    /* Frees a task object. Default: hd_free. */
    void (*release)(void *args);
    /* Returns the bytes of context->scratch. Default: 0. */
    int64_t (*scratch)(const void *args);

    /* -- Work on CPUs ------------------------------------------------------------------------- */
    /* Does the work of a task or subtask, given views in the order of ports (in that of the file
     * with `many`). It neither waits, allocates nor reads a clock; whatever it remembers is in
     * values. Returns HD_OK; hd_body_fail(), which ends the run with its message; another error
     * (logged); or HD_AGAIN, to be called again with context->again set once others have had a
     * turn, as long work does every few milliseconds; or hd_body_wait(), to be called so once
     * something outside is ready, such as a step in other processes, while the step keeps its
     * values and no worker. Scratch is not kept between calls. */
    int (*body)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* Says how the step is cut. `body` then runs once for each item and stage (context->item,
     * stage, work, header). Default: one item of one stage without memory of its own, and `finish`
     * in the same task. */
    void (*get_subtasks)(const void *args, struct hd_subtasks *subtasks_p);
    /* Runs once after a stage of all items (hd_subtasks.finish_last), given context->work_buffers
     * and context->headers of all of them. Returns what `body` does, but neither
     * HD_AGAIN nor HD_WAITS. Default: nothing. */
    int (*finish)(struct hd_context *context, const struct hd_view *views, const void *args);
    /* Gives the elements [*lo_p, *hi_p) of the flat value that the step writes which `stage`
     * completes. The ranges of all stages tile the value; some may be empty. Needed by steps of
     * several stages that write a flat value. */
    void (*stage_range)(const void *args, int stage, int64_t *lo_p, int64_t *hi_p);
    /* Returns the scope of a port whose scope depends on the config. Default: the port's. */
    enum hd_access_scope (*get_scope)(const void *args, int port);
    /* Returns how many doubles `stage` of each item writes to context->partial_sums. They are added
     * over the items of all shards, in the tree over (shard, item), before the next stage of any
     * item finds the sums at context->cross_shard_sums. For shard steps, and not after the last
     * stage. Default: 0. */
    int64_t (*count_cross_shard_sums)(const void *args, int stage);
    /* Verbs with by_bucket whose port 0 reads a mean may be merged with the collective that makes
     * it (a sharded update). This does what `body` does for whole blocks, elements [lo, hi) of
     * bucket views[].bucket, given their sum over all shards, sum[hi - lo], and the number of
     * samples `count` to divide it by (0: none); views[0].data is NULL. It is called for ascending
     * ranges of the bucket, the first time with context->again false, then true; on a rank without
     * a range of the bucket it is called once with lo == hi. Returns what `body` does, but not
     * HD_AGAIN or HD_WAITS. Default: never merged. */
    int (*update_slice)(struct hd_context *context, const struct hd_view *views, const void *args,
                        int64_t lo, int64_t hi, const float *sum, float count);

    const struct hd_gpu_verb *gpu; /* Default: steps run on CPUs only */
};

/* The verbs, types and config keys that a graph may use. */
struct hd_registry {
    const struct hd_type *const *types; /* ended by NULL */
    const struct hd_verb *const *verbs; /* ended by NULL */
    const struct hd_key *keys;          /* that they read; ended by path == NULL */
};

/* Return the type or verb of this name, or NULL. */
const struct hd_type *hd_registry_find_type(const struct hd_registry *registry, const char *name);
const struct hd_verb *hd_registry_find_verb(const struct hd_registry *registry, const char *name);

/* Returns the text of a step's option, or NULL if the step does not have it. Borrowed. */
const char *hd_setup_get_option(const struct hd_setup *setup, const char *name);

/* Checks that the number of config key `low` is at most that of key `high`. Returns HD_OK, or
 * HD_ERR_INPUT after adding the mistake to setup->diag, with `why`, at the place of a key that was
 * given. */
int hd_setup_check_order(const struct hd_setup *setup, const char *low, const char *high,
                         const char *why);
