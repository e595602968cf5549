/* SPDX-License-Identifier: Apache-2.0 */
/* Values, which a graph names and which survive tasks. A value is declared once (hd_spec), has one
 * instance per shard, or one in all, and each instance is one block of memory described by its
 * type. Task bodies see instances as views. No StarPU here: the same bodies run under any executor.
 *
 * Threads: functions may be called from any thread, for different instances at once. */
#pragma once

#include "runtime/base/config/config_read.h"
#include "runtime/base/numbers.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

enum { HD_IDENTITY_TEXT = 160 };

enum hd_placement {
    HD_SHARD,  /* one instance per shard */
    HD_GLOBAL, /* equal on every rank by construction */
    HD_RANK0   /* on rank 0 only */
};

enum hd_mode {
    HD_READ,
    HD_WRITE, /* a new version; old content does not matter and may be anything */
    HD_UPDATE /* a new version made from the old, in place */
};

struct hd_type;
struct hd_tensor_data; /* runtime/io/base/safetensors.h */
enum { HD_TENSORS_MAX = 16 };

/* One declared value. graph/ makes it, its type completes it; read-only once there is a plan. */
struct hd_spec {
    const char *name;
    const struct hd_type *type;
    enum hd_placement placement;
    const struct hd_spec *of;    /* the value named by `of:`, or NULL */
    const struct hd_spec *init;  /* the value whose initial content is copied, or NULL */
    const struct hd_node *start; /* `init: {file: ...}`: the map; NULL: none, or no longer needed */
    const char *role;            /* `role:` of the declaration, or NULL */
    struct hd_source_location location;
    void *shape;      /* the type's own description; its `release` frees it */
    int64_t bytes;    /* of one instance; 0 until known */
    int64_t elements; /* flat types: number of floats; else 0 */
    double bucket_mb; /* `bucket_mb:` in MiB, 0: one bucket */
    int buckets;      /* >= 1; buckets are whole blocks of HD_BLOCK elements */
    int64_t partials; /* >= 1: an instance is [partials][bytes / partials], each partial memory of
                       its own as far as tasks are concerned; flat types: each partial starts with
                       its floats, and the value is the sum of its partials */
    bool gpu_order;   /* flat types: the floats are in the order in which a GPU computes them. The
                         plan decides it (hd_type.set_gpu_order), of values that only GPUs touch */
};

/* The surroundings in which a type completes a spec and a verb prepares a step. */
struct hd_setup {
    const struct hd_config *config;
    struct hd_diag *diag;
    struct hd_source_location location; /* of the declaration or step */
    int64_t shards;                     /* S */
    uint64_t seed;
    const char *verb;       /* name of the step's verb, or NULL */
    struct hd_spec **specs; /* of the step's ports, in order of the verb's ports (NULL: absent);
                               verbs with `many` ports: in order of the file */
    int n_specs;
    const struct hd_node *options; /* the step's map, for the verb's own options */
};

/* A rank's operand of a sum, in a GPU's memory; count NULL: it has none. */
struct hd_operand {
    const float *floats, *count;
};

/* A reduction combines instances of different shards or ranks: it packs a vector per instance and
 * bucket, combines vectors pairwise in a fixed tree, and unpacks the result into an instance.
 * `bucket` counts from 0. Vectors are 64-byte aligned and padded to whole 64 bytes by the caller.
 */
enum hd_combine { HD_SUM, HD_MEAN, HD_MAX, HD_MIN };
extern const char *const hd_combine_names[]; /* "sum", ..., ended by NULL */
struct hd_reduction {
    int64_t (*bytes)(const struct hd_spec *spec, int bucket); /* of the vector */
    void (*pack)(const struct hd_spec *spec, int bucket, const void *data, void *vector);
    /* into += other, element by element; associative use only in tree order */
    void (*combine)(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                    const void *other);
    void (*unpack)(const struct hd_spec *spec, int bucket, enum hd_combine how, const void *vector,
                   void *data);
    unsigned hows; /* sum of 1 << HD_..., the ways that make sense; 0: all */
    /* Combines, on a GPU, the n_in >= 1 instances in[] into out, to the bit as pack, combine in
     * tree order and unpack do. Queues on `stream`; all memory is that GPU's. Returns HD_OK or
     * HD_ERR_DEVICE. NULL: the host's functions only. */
    int (*reduce_on_gpu)(const struct hd_spec *spec, int bucket, enum hd_combine how, int n_in,
                         const void *const *in, const struct hd_spec *out_spec, void *out,
                         void *stream);
    bool graph_capturable; /* what reduce_on_gpu queues depends on its arguments alone, so that it
                              can be recorded once as a CUDA graph and launched again later */
    /* Flat types, whose vectors are floats and a count: adds, on a GPU, the operands' floats in
     * tree order to to[n] and their counts to *total, by which it divides a mean; without counts,
     * the floats alone. `to` may be an operand, `total` no operand's count. Returns HD_OK or
     * HD_ERR_DEVICE. */
    int (*add_on_gpu)(enum hd_combine how, const struct hd_operand *operands, int n_operands,
                      int64_t n, float *to, float *total, void *stream);
    /* Returns the address of a bucket's count in an instance of one partial; NULL: it has none, and
     * a mean cannot be rounded (struct hd_rounding). */
    float *(*count)(const struct hd_spec *spec, int bucket, void *data);
};

/* An instance on a GPU has the host's first `common` bytes, then data that the GPU derives from
 * them for itself, as the host may have derived data of its own behind them. */
struct hd_device_form {
    /* Returns whether GPUs compute with instances; steps that touch others run on CPUs. NULL: they
     * do. */
    bool (*supports)(const struct hd_spec *spec);
    int64_t (*common)(const struct hd_spec *spec);
    int64_t (*bytes)(const struct hd_spec *spec); /* of an instance on a GPU */
    int (*ready)(const struct hd_spec *spec);     /* prepares the present GPU for renew_on_gpu */
    /* Renew the derived data after the common bytes have changed, on the GPU by `stream` (of flat
     * types, after elements [lo, hi) have), on the host at once. */
    int (*renew_on_gpu)(const struct hd_spec *spec, void *data, int64_t lo, int64_t hi,
                        void *stream);
    int (*renew_on_host)(const struct hd_spec *spec, void *data);
};

/* A type of value. NULL functions have the stated default, which suits plain memory: a type whose
 * instance holds no pointers and whose unused bytes stay zero needs none of them. Functions that
 * return int return HD_OK or a status (logged). */
struct hd_type {
    const char *name;
    const char *size_key; /* the config key that decides most on the size, for messages; or NULL */
    bool none;  /* the initial version is `none`: there is no content until a step makes it */
    bool given; /* the initial version is as good as any: a step may read it before another
                   one has changed the value, or though none does */
    bool starts_from_file; /* it may have `init: {file: ...}` */
    bool used_by_updates;  /* a step that updates a value is interested in it, so that no other one
                              need read it */
    bool flat; /* spec->elements floats at the instance's start; may be cut in buckets */
    const char *const *counted; /* names of attributes that the submitter counts, NULL-ended; or
                                   NULL */
    /* Completes spec->shape, bytes, elements from the config; called in order of declaration, after
     * the types of `of` and `init`. May leave bytes = 0 when a verb must `declare` more. */
    int (*resolve)(struct hd_spec *spec, const struct hd_setup *setup);
    void (*release)(struct hd_spec *spec); /* frees spec->shape; default: hd_free(shape) */
    /* Fills zeroed memory with the initial version of instance `shard` (0 for others). Default:
     * leaves it zeroed. */
    int (*init)(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                void *data);
    void (*fini)(const struct hd_spec *spec, void *data); /* default: nothing */
    /* Makes dst, an initialised instance, equal to src. Default: memcpy. */
    int (*snapshot)(const struct hd_spec *spec, void *dst, const void *src);
    /* Flat types: makes elements [lo, hi) of dst, and data derived from them, equal to src's. If
     * dst is src, others may read the floats meanwhile: only the data are derived. Default: memcpy
     * of the floats. */
    int (*copy_range)(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                      const void *src);
    /* Flat types: finds the bytes of an instance that belong to elements [lo, hi) of a bucket, in
     * ranges i = 0, 1, …: returns the bytes of range i and stores its offset in *at_p; -1: there
     * are no more. Bytes that belong to the bucket as a whole are in all its ranges. Default: the
     * floats. */
    int64_t (*get_byte_range)(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi, int i,
                              int64_t *at_p);
    /* Default: the bytes as they are. */
    int (*save)(const struct hd_spec *spec, const void *data, FILE *file);
    int (*load)(const struct hd_spec *spec, void *data, FILE *file);
    /* Checks an instance that was read from a checkpoint, in which any bits may be: whatever a body
     * uses as an index, a count or a size is in range, and what is finite in every run is finite.
     * Returns HD_OK, or HD_ERR_FORMAT with a sentence in `message` (not logged). Every type says
     * what it accepts; hd_value_accept is any bits. */
    int (*check)(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE]);
    uint64_t (*hash)(const struct hd_spec *spec, const void *data); /* default: of the bytes; flat:
                                                                       of the floats by blocks */
    /* Stores the arrays of an instance as named tensors, at most HD_TENSORS_MAX, borrowed, for
     * files that people read. Returns their number. NULL: none. */
    int (*tensors)(const struct hd_spec *spec, const void *data, struct hd_tensor_data *tensors_p);
    /* Says which file of what content the value stands on, data or code, in a few words, "" for
     * none; all ranks have to have the same. Returns HD_OK or an error (logged). NULL: none. */
    int (*identify)(const struct hd_spec *spec, char text[HD_IDENTITY_TEXT]);
    const struct hd_reduction *reduction; /* or NULL: shards of it cannot be combined */
    bool pinned; /* bodies for GPUs look into instances themselves: they stay in host memory */
    const struct hd_device_form *device; /* or NULL: an instance on a GPU is a copy, byte by byte */
    /* Flat types with a reduction: returns the samples in a bucket of a partial. A type that has it
     * is combined by adding its floats one by one, and a mean is the sum divided by the sum of
     * these; so it may be combined block by block, without a vector. Or NULL. */
    float (*weight)(const struct hd_spec *spec, int bucket, const void *data, int64_t partial);
    /* Flat types: sets spec->gpu_order, and spec->bytes for that order. NULL: there is no such
     * order. */
    void (*set_gpu_order)(struct hd_spec *spec, bool gpu_order);
    /* Named numbers for expressions ("eval_result.mean") and logs: fields are counted from 0; name
     * NULL past the end. */
    const char *(*field_name)(const struct hd_spec *spec, int field);
    double (*field)(const struct hd_spec *spec, const void *data, int field);
};

/* Call the type's function or do its default; `data` is memory of spec->bytes. Those that return
 * int return HD_OK or a status (logged). */
int hd_value_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                  void *data);
void hd_value_fini(const struct hd_spec *spec, void *data);
int hd_value_snapshot(const struct hd_spec *spec, void *dst, const void *src);
int hd_value_copy_range(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                        const void *src);
int64_t hd_value_get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi,
                                int i, int64_t *at_p);
int hd_value_save(const struct hd_spec *spec, const void *data, FILE *file);
int hd_value_load(const struct hd_spec *spec, void *data, FILE *file);
uint64_t hd_value_hash(const struct hd_spec *spec, const void *data);

/* Checks an instance as its type says; a type without `check` accepts any bits. Returns HD_OK, or
 * HD_ERR_FORMAT with a sentence in `message` (not logged). */
int hd_value_check(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE]);

/* This is the `check` of a type whose bodies only compute with its numbers. Returns HD_OK. */
int hd_value_accept(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE]);

/* Return the bytes of an instance on a GPU, and how many of them are the host's. */
int64_t hd_value_get_device_bytes(const struct hd_spec *spec);
int64_t hd_value_get_common_bytes(const struct hd_spec *spec);

/* Write and read `bytes` of an instance, for a type's `save` and `load`. Return HD_OK,
 * HD_ERR_SYSTEM, or HD_ERR_FORMAT when the file is too short (logged). */
int hd_value_write(const struct hd_spec *spec, const void *data, size_t bytes, FILE *file);
int hd_value_read(const struct hd_spec *spec, void *data, size_t bytes, FILE *file);

/* These are `bytes` and `pack` for the reduction of a type whose vector is the instance as it is.
 */
int64_t hd_value_get_vector_bytes(const struct hd_spec *spec, int bucket);
void hd_value_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector);

/* Returns the index of a named field (no status), or -1. */
int hd_value_find_field(const struct hd_spec *spec, const char *name);

/* Stores the elements [*lo_p, *hi_p) of bucket `bucket` of a flat value. */
void hd_spec_get_bucket(const struct hd_spec *spec, int bucket, int64_t *lo_p, int64_t *hi_p);

/* A task body's view of one port. */
struct hd_view {
    void *data;                 /* the instance; NULL: an absent optional port */
    void *host;                 /* its copy on the host, which is pinned where GPUs take part: for
                                   values that a step writes on either side */
    const struct hd_spec *spec; /* NULL likewise */
    int bucket;                 /* verbs that run by buckets: the bucket; else 0 */
    int64_t version;            /* 0: the initial one */
    bool fresh;                 /* a newer version than this step last read */
};

/* Time spent in the bodies of a verb on this rank, for log only: outside the bit contract. */
struct hd_timing {
    const char *verb;
    int64_t count, busy_ns;
};

struct hd_logbook;

/* A task body is given this beside its views. Bodies read no clock and keep nothing. */
/* Says how far a long task is, for the watchdog and for reports of hangs. */
struct hd_task_progress {
    atomic_int_fast64_t count;     /* grows with each step of an env, and each call of a body */
    atomic_int_fast64_t env, step; /* that the task is at; -1: none */
};

struct hd_context {
    struct hd_rng rng; /* this step's stream at (shard, iteration, repeat_index) */
    uint64_t seed;     /* of the run, for streams of one's own */
    int64_t iteration, repeat_index;
    int64_t update;  /* counter `update` when the task was submitted */
    int64_t shard;   /* -1: not a shard step */
    int64_t shards;  /* S */
    int rank, ranks; /* for messages only */
    /* Steps in subtasks (struct hd_subtasks); 0, 0, 0 and 1 for others. */
    int64_t item;
    int64_t joint_items; /* items that this stage is for, from `item` on (struct hd_subtasks) */
    int stage;
    int64_t items;
    void *work; /* bodies: this item's memory; finish: NULL. 64-byte aligned, the same in all stages
                   of the item, undefined before stage 0; NULL when the step wants none */
    void *const *work_buffers; /* finish: [items], every item's memory; else NULL */
    void *header; /* likewise, the item's `header_bytes`, which `finish` sees wherever it runs */
    void *const *headers; /* steps in subtasks: [items] */
    double
        *partial_sums; /* what this stage adds to a sum over all items of all shards; else NULL */
    const double *cross_shard_sums; /* the sums of what the stage before has added; else NULL */
    bool again; /* the last call returned HD_AGAIN or HD_WAITS, or asked for this one */
    /* This waits up to `seconds`, 0: not at all, and returns whether a body that has returned
     * HD_WAITS (hd_body_wait) is to be called again. Any thread calls it, one at a time. */
    bool (*ready)(void *arg, double seconds);
    void *ready_arg;
    bool gpu;       /* the step is in its form for GPUs, this stage of it perhaps not */
    int64_t lo, hi; /* verbs with by_bucket, on a GPU: the elements to change */
    int n_views;
    void *inputs;  /* on a GPU: what the verb's set_inputs has written; else NULL */
    void *scratch; /* at least verb->scratch bytes, 64-byte aligned, content undefined */
    void *stream;  /* CUDA stream, NULL on a CPU; `scratch` is then the GPU's memory */
    struct hd_logbook *logbook;     /* rank 0, verbs with `logs`; else NULL */
    const struct hd_timing *timing; /* verbs with `logs`; ended by verb == NULL */
    char *message;                  /* a sentence about a failure, see hd_body_fail */
    /* Writes the arrays that the views show to a file for people, with the sentence `why`; or NULL.
     * Thread safe. */
    void (*dump_views)(const struct hd_context *context, const struct hd_view *views,
                       const char *why);
    void *dump_arg;
    struct hd_task_progress *progress; /* NULL: nobody watches */
};

/* Says which step of which env a body does now, from each step anew. Thread safe. */
static inline void hd_context_note_step(const struct hd_context *context, int64_t env, int64_t step)
{
    if (!context->progress)
        return;
    atomic_store_explicit(&context->progress->env, env, memory_order_relaxed);
    atomic_store_explicit(&context->progress->step, step, memory_order_relaxed);
    atomic_fetch_add_explicit(&context->progress->count, 1, memory_order_relaxed);
}

enum {
    HD_MESSAGE_BYTES = 512,
    HD_SHARD_TEXT = 32,
    HD_NO_GRAPH = -1 /* nothing to queue on a GPU */
};

/* Returns " (shard 3)" for messages, or "" for -1, in `text`. Thread safe. */
const char *hd_shard_describe(int64_t shard, char text[HD_SHARD_TEXT]);

/* Has the body, which returns the result, called again once ready(arg, ...) holds (struct
 * hd_context). Until then no worker is occupied. Returns HD_WAITS. */
static inline int hd_body_wait(struct hd_context *context, bool (*ready)(void *arg, double seconds),
                               void *arg)
{
    context->ready = ready;
    context->ready_arg = arg;
    return HD_WAITS;
}

/* Fails the task: keeps the sentence for the session's error latch and returns HD_ERR_TASK. */
int hd_body_fail(struct hd_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
