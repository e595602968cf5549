/* SPDX-License-Identifier: Apache-2.0 */
/* Runs task bodies without an executor: a configuration from --set options, values, and one call
 * that prepares a verb, runs its body and releases the task object. One thread. */
#ifndef HD_TESTS_TASKS_VALUES_H
#define HD_TESTS_TASKS_VALUES_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PORTS = 12, GUARD_BYTES = 64 };

struct value {
    struct hd_spec spec;
    void *data;
};

/* A setup for cartpole with the options sets[n]; its diag collects mistakes. */
static inline struct hd_setup setup_open(const char *const *sets, int n)
{
    static const struct hd_set base[] = {{"policy.model.obs_shape=4", NULL},
                                         {"policy.model.action_shape=2", NULL},
                                         {"policy.model.encoder_hidden_size_list=[16,8]", NULL}};
    enum { BASE = sizeof base / sizeof base[0] };
    struct hd_set all[32];
    ck_assert_int_le(n, 32 - BASE);
    for (int i = 0; i < BASE + n; i++)
        all[i] = i < BASE ? base[i] : (struct hd_set){sets[i - BASE], NULL};
    const struct hd_key *schema = hd_task_keys;
    struct hd_diag *diag;
    struct hd_config *config;
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
    int status = hd_config_create(&schema, 1, NULL, all, BASE + n, diag, &config);
    hd_diag_report(diag);
    ck_assert_int_eq(status, HD_OK);
    return (struct hd_setup){.config = config,
                             .diag = diag,
                             .location = {"graph.yaml", 1, 1},
                             .shards = 2,
                             .seed = 1234};
}

static inline void setup_close(struct hd_setup *setup)
{
    hd_config_destroy((struct hd_config *)setup->config);
    hd_diag_destroy(setup->diag);
}

/* Resolves and allocates without a first version. Memory has a guard zone behind it. */
static inline void value_resolve_at(struct value *value, const struct hd_setup *setup,
                                    const struct hd_type *type, const char *name, const char *role,
                                    enum hd_placement placement)
{
    *value = (struct value){.spec = {.name = name,
                                     .type = type,
                                     .placement = placement,
                                     .role = role,
                                     .location = setup->location,
                                     .buckets = 1,
                                     .partials = 1}};
    if (type->resolve)
        ck_assert_int_eq(type->resolve(&value->spec, setup), HD_OK);
}

static inline void value_resolve(struct value *value, const struct hd_setup *setup,
                                 const struct hd_type *type, const char *name, const char *role)
{
    value_resolve_at(value, setup, type, name, role, HD_SHARD);
}

static inline void value_init(struct value *value, const struct hd_setup *setup, int64_t shard)
{
    value->data = hd_alloc(1, (size_t)value->spec.bytes + GUARD_BYTES);
    memset((char *)value->data + value->spec.bytes, 0xA5, GUARD_BYTES);
    ck_assert_int_eq(hd_value_init(&value->spec, setup, shard, value->data), HD_OK);
}

static inline void value_open(struct value *value, const struct hd_setup *setup,
                              const struct hd_type *type, const char *name, const char *role)
{
    value_resolve(value, setup, type, name, role);
    value_init(value, setup, 0);
}

static inline void value_close(struct value *value)
{
    for (int i = 0; i < GUARD_BYTES && value->data; i++)
        ck_assert_uint_eq(((unsigned char *)value->data)[value->spec.bytes + i], 0xA5);
    if (value->data)
        hd_value_fini(&value->spec, value->data);
    hd_free(value->data);
    if (value->spec.type->release)
        value->spec.type->release(&value->spec);
    else
        hd_free(value->spec.shape);
}

static inline uint64_t value_hash(const struct value *value)
{
    return hd_value_hash(&value->spec, value->data);
}

/* Saves the value, loads it into another instance and expects equal hashes; the value then is that
 * instance, so that whatever follows tests it too. */
static inline void value_save_load(struct value *value)
{
    struct value copy = *value;
    copy.data = hd_alloc(1, (size_t)copy.spec.bytes + GUARD_BYTES);
    memset((char *)copy.data + copy.spec.bytes, 0xA5, GUARD_BYTES);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(hd_value_save(&value->spec, value->data, file), HD_OK);
    rewind(file);
    ck_assert_int_eq(hd_value_load(&copy.spec, copy.data, file), HD_OK);
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
    ck_assert_uint_eq(value_hash(&copy), value_hash(value));
    hd_value_fini(&value->spec, value->data);
    hd_free(value->data);
    value->data = copy.data;
}

static inline int count_ports(const struct hd_verb *verb)
{
    int n = 0;
    while (verb->ports[n].name)
        n++;
    return n;
}

/* Returns the setup of a step of `verb` on values[ports of the verb] (NULL: absent); the caller
 * provides specs[]. */
static inline struct hd_setup step_setup(const struct hd_verb *verb, const struct hd_setup *setup,
                                         struct value *const *values, struct hd_spec **specs)
{
    struct hd_setup step = *setup;
    step.verb = verb->name;
    step.specs = specs;
    step.n_specs = count_ports(verb);
    for (int i = 0; i < step.n_specs; i++)
        specs[i] = values[i] ? &values[i]->spec : NULL;
    return step;
}

/* Items have no order: run_subtasks takes the last first, or else the first. */
static bool first_item_first;

/* Runs a stage of all items, which take turns while they return HD_AGAIN. Scratch keeps nothing
 * from one call to the next. */
static inline int run_items(const struct hd_verb *verb, struct hd_context *context,
                            const struct hd_view *views, const void *args, int64_t scratch,
                            void *const *work_buffers, void *const *headers)
{
    enum { MOST_ITEMS = 64 };
    int statuses[MOST_ITEMS], status = HD_OK;
    bool again = true;
    ck_assert_int_le(context->items, MOST_ITEMS);
    for (context->again = false; status == HD_OK && again; context->again = true) {
        again = false;
        for (int64_t i = 0; status == HD_OK && i < context->items; i++) {
            const int64_t item = first_item_first ? i : context->items - 1 - i;
            if (context->again && statuses[item] != HD_AGAIN)
                continue;
            context->item = item;
            context->work = work_buffers[item];
            context->header = headers[item];
            memset(context->scratch, 0xA5, (size_t)scratch);
            statuses[item] = verb->body(context, views, args);
            again = again || statuses[item] == HD_AGAIN;
            status = statuses[item] == HD_AGAIN ? HD_OK : statuses[item];
        }
    }
    return status;
}

/* Runs every item and stage of a step, then `finish`. Work memory has a guard zone behind it. */
static inline int run_subtasks(const struct hd_verb *verb, struct hd_context *context,
                               const struct hd_view *views, const void *args, int64_t scratch)
{
    enum { MOST_ITEMS = 64 };
    void *work_buffers[MOST_ITEMS], *headers[MOST_ITEMS];
    struct hd_subtasks subtasks;
    int status = HD_OK;
    verb->get_subtasks(args, &subtasks);
    ck_assert_int_le(subtasks.items, MOST_ITEMS);
    context->items = subtasks.items;
    for (int64_t i = 0; i < subtasks.items; i++) {
        work_buffers[i] = hd_alloc(1, (size_t)subtasks.work_bytes + GUARD_BYTES);
        memset(work_buffers[i], 0xA5, (size_t)subtasks.work_bytes + GUARD_BYTES);
        headers[i] = hd_alloc(1, (size_t)subtasks.header_bytes + GUARD_BYTES);
        memset(headers[i], 0xA5, (size_t)subtasks.header_bytes + GUARD_BYTES);
    }
    for (context->stage = 0; status == HD_OK && context->stage < subtasks.stages; context->stage++)
        status = run_items(verb, context, views, args, scratch, work_buffers, headers);
    context->work = context->header = NULL;
    context->work_buffers = work_buffers;
    context->headers = headers;
    memset(context->scratch, 0xA5, (size_t)scratch);
    if (status == HD_OK && verb->finish)
        status = verb->finish(context, views, args);
    for (int64_t i = 0; i < subtasks.items; i++) {
        for (int j = 0; j < GUARD_BYTES; j++) {
            ck_assert_uint_eq(((unsigned char *)work_buffers[i])[subtasks.work_bytes + j], 0xA5);
            ck_assert_uint_eq(((unsigned char *)headers[i])[subtasks.header_bytes + j], 0xA5);
        }
        hd_free(work_buffers[i]);
        hd_free(headers[i]);
    }
    return status;
}

/* Runs a prepared body until it returns another status than HD_AGAIN, and returns that; `context`
 * is the place in program order. */
static inline int run_body(const struct hd_verb *verb, struct value *const *values,
                           const struct hd_context *where, const void *args, char *message)
{
    struct hd_view views[MAX_PORTS] = {{0}};
    struct hd_context context = *where;
    int64_t scratch = verb->scratch ? verb->scratch(args) : 0;
    context.n_views = count_ports(verb);
    context.scratch = hd_alloc(1, (size_t)scratch + GUARD_BYTES);
    context.message = message;
    for (int i = 0; i < context.n_views; i++)
        if (values[i])
            views[i] = (struct hd_view){.data = values[i]->data, .spec = &values[i]->spec};
    int status;
    do {
        memset(context.scratch, 0xA5, (size_t)scratch + GUARD_BYTES);
        status = verb->get_subtasks ? run_subtasks(verb, &context, views, args, scratch)
                                    : verb->body(&context, views, args);
        context.again = true;
        for (int i = 0; i < GUARD_BYTES; i++)
            ck_assert_uint_eq(((unsigned char *)context.scratch)[scratch + i], 0xA5);
    } while (status == HD_AGAIN);
    hd_free(context.scratch);
    return status;
}

static inline void *prepare(const struct hd_verb *verb, const struct hd_setup *setup,
                            struct value *const *values)
{
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(verb, setup, values, specs);
    void *args = NULL;
    if (verb->prepare)
        ck_assert_int_eq(verb->prepare(&step, &args), HD_OK);
    return args;
}

static inline void unprepare(const struct hd_verb *verb, void *args)
{
    if (verb->release)
        verb->release(args);
    else
        hd_free(args);
}

/* Prepares, runs and releases; the body must succeed. */
static inline void run(const struct hd_verb *verb, const struct hd_setup *setup,
                       struct value *const *values, const struct hd_context *where)
{
    char message[HD_MESSAGE_BYTES] = "";
    void *args = prepare(verb, setup, values);
    ck_assert_msg(run_body(verb, values, where, args, message) == HD_OK, "%s", message);
    unprepare(verb, args);
}

/* A shard step's place in program order. */
static inline struct hd_context at(const struct hd_setup *setup, int64_t shard, int64_t iteration)
{
    return (struct hd_context){.rng = hd_rng_make(setup->seed, 77, shard, iteration, 0),
                               .seed = setup->seed,
                               .iteration = iteration,
                               .shard = shard,
                               .shards = setup->shards,
                               .ranks = 1};
}

#endif
