/* SPDX-License-Identifier: Apache-2.0 */
/* Runs task bodies without an executor. A world is what one shard has: a configuration, and the
 * values that its steps' ports ask for. A test of several shards has a world for each, with its own
 * copy of what is global. Worlds are closed when the test ends. One thread.
 *
 *     static const struct step collect = {.verb = &hd_verb_collect}, push = {.verb =
 * &hd_verb_push_replay};
 *
 *     struct world *w = world_make(0, 2);
 *     world_set(w, "policy.nstep=%d; env.type=cartpole", 3);
 *     world_open(w, &collect, &push, NULL);
 *     world_run(w, &collect, 0);
 */
#pragma once

#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 16, MAX_VALUES = 32, MAX_SETS = 32, MAX_NAME = 32 };

/* A step of a graph. A port's value has the port's name; `ports` names in words what is different:
 * "port=value", or "port" alone for an optional port that is not left out. */
struct step {
    const struct hd_verb *verb;
    const char *ports;
    const char *options; /* "{loss: ppo}" */
};

/* An instance, with a guard zone behind it. */
struct value {
    struct hd_spec spec;
    void *data;
};

struct world {
    struct hd_setup setup; /* from world_open or world_declare on; its diag collects mistakes */
    int64_t shard;         /* -1: values are on rank 0, for steps without shards */
    int64_t update;        /* for the context of steps */
    bool first_item_first; /* the items of a step have no order: or else the last comes first */
    const char *role;      /* of values: "collector" unless set before they are declared */
    double bucket_mb;      /* of values, set before they are declared */
    int n_values, n_sets;
    struct value values[MAX_VALUES];
    char message[HD_MESSAGE_BYTES]; /* of the body that failed last */
    char names[MAX_VALUES][MAX_NAME], *sets[MAX_SETS];
    struct hd_document *document; /* of options */
    struct world *next;
};

/* -- Making worlds ------------------------------------------------------------------------------
 */

/* Returns the world of shard `shard` of `shards`. */
struct world *world_make(int64_t shard, int64_t shards);

/* Sets configuration keys, "key=value; key=value", which by default are those of a small net for
 * cartpole. */
void world_set(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Declares a value that no port describes well enough, and resolves it: with name and type, perhaps
 * `of` and placement, and the options of its declaration, or NULL. It has no instance before
 * world_open. */
struct value *world_declare(struct world *w, struct hd_spec spec, const char *options);

/* Adds steps, ended by NULL, in the order of a graph, and declares the values that they need and
 * the world does not have yet, by the types of their ports. Parameters and results of collectives
 * are global; what is `of` parameters is of its step's port `policy`. */
void world_add(struct world *w, ...) __attribute__((sentinel));

/* Makes the first version of every value. */
void world_init(struct world *w);

/* Adds steps, if any, and makes the first version of every value. */
#define world_open(w, ...) (world_add(w, __VA_ARGS__), world_init(w))

/* Closes a world before the test ends; checks the guard zones. */
void world_close(struct world *w);
void worlds_close(void);
FIXTURE(NULL, worlds_close)

/* -- Running steps ------------------------------------------------------------------------------
 */

/* Returns the place in program order of a step's task. */
struct hd_context world_at(struct world *w, const struct step *step, int64_t iteration);

/* Fills the views of a step's ports. */
void world_view(struct world *w, const struct step *step, int bucket, struct hd_view *views);

/* Prepares the task object of a step, and releases it. */
void *world_prepare(struct world *w, const struct step *step);
void world_release(const struct step *step, void *args);

/* Runs a prepared step, bucket by bucket, until its body returns another status than HD_AGAIN, and
 * returns that. Scratch, work memory and what the step writes hold rubbish before. */
int world_run_prepared(struct world *w, const struct step *step, struct hd_context where,
                       const void *args);

/* Prepare, run and release a step, which must succeed. */
void world_run_at(struct world *w, const struct step *step, struct hd_context where);
void world_run(struct world *w, const struct step *step, int64_t iteration);

/* Expects that the body of a step fails, and returns its message. */
const char *world_fail(struct world *w, const struct step *step, int64_t iteration);

/* Expects that a step cannot be declared or prepared, and returns the mistake (the last one in the
 * order of their places). */
const char *world_mistake(struct world *w, const struct step *step);

/* Runs a collective of n shards, each of which then has the result. */
void worlds_combine(struct world *const *worlds, int n, const struct step *collective);

/* -- Values -------------------------------------------------------------------------------------
 */

/* Returns a value by its name. */
struct value *world_get(const struct world *w, const char *name);

/* The arguments by which functions of a type take an instance. */
#define INSTANCE(w, name) &world_get(w, name)->spec, world_get(w, name)->data

/* Returns the net of parameters. */
const struct hd_net *world_net(const struct world *w, const char *params);

/* Computes the outputs of the net `params` for n observations. */
void world_forward(const struct world *w, const char *params, const struct hd_obs_norm *norm,
                   const void *obs, int64_t n, float *out);

/* Returns a field of a value. */
double world_field(const struct world *w, const char *value, const char *field);

/* Returns the hash of all values. */
uint64_t world_hash(const struct world *w);

/* Memory with a guard zone, which is checked when it is released. */
void *guarded_alloc(int64_t bytes);
void guarded_free(void *memory, int64_t bytes);

/* Make an instance of a value that has none, and destroy it. */
void value_init(struct value *value, const struct hd_setup *setup, int64_t shard);
void value_fini(struct value *value);

/* Destroys a value with its instance, if it has one. */
void value_release(struct value *value);

/* Fills an instance with zeros, so that scalars have no entries. */
void value_clear(struct value *value);

uint64_t value_hash(const struct value *value);

/* Saves an instance, loads it into another one and expects equal hashes; the value then is that
 * instance, so that whatever follows tests it too. */
void value_save_load(struct value *value);
