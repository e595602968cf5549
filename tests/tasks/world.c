/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tasks/world.h"

#include "runtime/base/config/yaml.h"
#include "runtime/base/hash.h"
#include "runtime/base/tree.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"
#include "tests/kernels/net/forward_rows.h"

#include <math.h>
#include <stdarg.h>

enum { RUBBISH = 0xA5, MOST_ITEMS = 64 };

/* Closed when the test ends. */
static struct world *worlds;

/* -- Values -------------------------------------------------------------------------------------
 */

static struct value *find(const struct world *w, const char *name)
{
    for (int i = 0; i < w->n_values; i++)
        if (strcmp(w->names[i], name) == 0)
            return (struct value *)&w->values[i];
    return NULL;
}

struct value *world_get(const struct world *w, const char *name)
{
    struct value *value = find(w, name);
    ck_assert_msg(value != NULL, "no value '%s'", name);
    return value;
}

const struct hd_net *world_net(const struct world *w, const char *params)
{
    return hd_params_get_net(&world_get(w, params)->spec);
}

void world_forward(const struct world *w, const char *params, const struct hd_obs_norm *norm,
                   const void *obs, int64_t n, float *out)
{
    const struct hd_net *net = world_net(w, params);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, n, 1));
    forward_rows(net, world_get(w, params)->data, norm, obs, n, work, out);
    hd_free(work);
}

double world_field(const struct world *w, const char *value, const char *field)
{
    const struct value *of = world_get(w, value);
    const int number = hd_value_find_field(&of->spec, field);
    ck_assert_msg(number >= 0, "'%s' has no %s", value, field);
    return of->spec.type->field(&of->spec, of->data, number);
}

uint64_t world_hash(const struct world *w)
{
    uint64_t hash = 0;
    for (int i = 0; i < w->n_values; i++)
        hash = hd_hash_mix(hash, value_hash(&w->values[i]));
    return hash;
}

/* -- Configurations -----------------------------------------------------------------------------
 */

struct world *world_make(int64_t shard, int64_t shards)
{
    struct world *w = hd_alloc(1, sizeof *w);
    ck_assert_ptr_nonnull(w);
    *w = (struct world){.setup = {.location = {"graph.yaml", 1, 1}, .shards = shards, .seed = 1234},
                        .shard = shard,
                        .role = "collector",
                        .next = worlds};
    worlds = w;
    world_set(w, "policy.model.obs_shape=4; policy.model.action_shape=2; "
                 "policy.model.encoder_hidden_size_list=[16,8]");
    return w;
}

void world_set(struct world *w, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    ck_assert_ptr_null(w->setup.config);
    va_start(arguments, format);
    ck_assert_int_lt(vsnprintf(text, sizeof text, format, arguments), (int)sizeof text);
    va_end(arguments);
    for (char *set = text, *end; set; set = end) {
        if ((end = strstr(set, "; "))) {
            *end = '\0';
            end += 2;
        }
        ck_assert_int_lt(w->n_sets, MAX_SETS);
        w->sets[w->n_sets++] = hd_format("%s", set);
    }
}

static void configure(struct world *w)
{
    const struct hd_key *schema = hd_task_keys;
    struct hd_set sets[MAX_SETS] = {{0}};
    struct hd_config *config;
    if (w->setup.config)
        return;
    for (int i = 0; i < w->n_sets; i++)
        sets[i].text = w->sets[i];
    ck_assert_int_eq(hd_diag_create(&w->setup.diag), HD_OK);
    const int status = hd_config_create(&schema, 1, NULL, sets, w->n_sets, w->setup.diag, &config);
    hd_diag_report(w->setup.diag);
    ck_assert_int_eq(status, HD_OK);
    w->setup.config = config;
    ck_assert_int_eq(hd_document_create(&w->document), HD_OK);
}

static const struct hd_node *parse(const struct world *w, const char *options)
{
    struct hd_node *node = NULL;
    if (options)
        ck_assert_int_eq(
            hd_node_parse(w->document, w->setup.location, options, w->setup.diag, &node), HD_OK);
    return node;
}

/* -- Steps and their ports ----------------------------------------------------------------------
 */

static int find_port(const struct hd_verb *verb, const char *name)
{
    int i = 0;
    while (verb->ports[i].name && strcmp(verb->ports[i].name, name) != 0)
        i++;
    ck_assert_msg(verb->ports[i].name != NULL, "%s has no port %s", verb->name, name);
    return i;
}

/* Stores the name of each port's value, "" for an absent port, and returns the number of ports. */
static int bind(const struct step *step, char names[MAX_PORTS][MAX_NAME])
{
    const struct hd_port *ports = step->verb->ports;
    char port[MAX_NAME], value[MAX_NAME];
    int n = 0, length;
    for (; ports[n].name; n++)
        snprintf(names[n], MAX_NAME, "%s", ports[n].optional ? "" : ports[n].name);
    for (const char *word = step->ports; word && sscanf(word, " %31[^= ]%n", port, &length) == 1;) {
        word += length;
        const bool named = sscanf(word, "=%31s%n", value, &length) == 1;
        word += named ? length : 0;
        snprintf(names[find_port(step->verb, port)], MAX_NAME, "%s", named ? value : port);
    }
    return n;
}

/* Stores the values of a step's ports, NULL for absent ports, and returns their number. */
static int get_values(const struct world *w, const struct step *step,
                      struct value *values[MAX_PORTS])
{
    char names[MAX_PORTS][MAX_NAME];
    const int n = bind(step, names);
    for (int i = 0; i < n; i++)
        values[i] = names[i][0] ? world_get(w, names[i]) : NULL;
    return n;
}

static bool is_collective(const struct step *step)
{
    return step->verb->kind == HD_VERB_COLLECTIVE;
}

struct value *world_declare(struct world *w, struct hd_spec spec, const char *options)
{
    configure(w);
    ck_assert_int_lt(w->n_values, MAX_VALUES);
    char *name = w->names[w->n_values];
    snprintf(name, MAX_NAME, "%s", spec.name);
    spec.name = name;
    spec.role = w->role;
    spec.location = w->setup.location;
    spec.bucket_mb = w->bucket_mb;
    spec.buckets = spec.partials = 1;
    struct value *value = &w->values[w->n_values++];
    *value = (struct value){.spec = spec};
    struct hd_setup setup = w->setup;
    setup.options = parse(w, options);
    if (spec.type->resolve)
        ck_assert_int_eq(spec.type->resolve(&value->spec, &setup), HD_OK);
    return value;
}

static bool is_global(const struct hd_type *type)
{
    return type == &hd_type_params || type == &hd_type_adam_state || type == &hd_type_temperature ||
           type == &hd_type_dataset;
}

static bool is_of_params(const struct hd_type *type)
{
    return type == &hd_type_grad || type == &hd_type_adam_state ||
           type == &hd_type_batch_norm_stats;
}

/* Declares what is at a step's ports: parameters, or else the rest. */
static void declare_values(struct world *w, const struct step *step, bool params)
{
    const struct hd_port *ports = step->verb->ports;
    char names[MAX_PORTS][MAX_NAME];
    const int n = bind(step, names);
    for (int i = 0; i < n; i++) {
        struct hd_spec spec = {.name = names[i]};
        if (!names[i][0] || find(w, names[i]))
            continue;
        if (is_collective(step)) {
            spec.type = world_get(w, names[0])->spec.type;
            spec.of = world_get(w, names[0])->spec.of;
        } else {
            ck_assert_msg(ports[i].type != NULL, "'%s' is not declared", names[i]);
            spec.type = hd_registry_find_type(hd_registry_get_builtin(), ports[i].type);
        }
        if ((spec.type == &hd_type_params) != params)
            continue;
        if (is_of_params(spec.type) && !spec.of)
            spec.of = &world_get(w, names[find_port(step->verb, "policy")])->spec;
        spec.placement = is_collective(step) || is_global(spec.type) ? HD_GLOBAL
                         : w->shard < 0                              ? HD_RANK0
                                                                     : HD_SHARD;
        world_declare(w, spec, NULL);
    }
}

/* The setup of a step; the caller provides specs[]. */
static struct hd_setup get_setup(const struct world *w, const struct step *step,
                                 struct hd_spec *specs[MAX_PORTS])
{
    struct value *values[MAX_PORTS];
    struct hd_setup setup = w->setup;
    setup.verb = step->verb->name;
    setup.specs = specs;
    setup.n_specs = get_values(w, step, values);
    setup.options = parse(w, step->options);
    for (int i = 0; i < setup.n_specs; i++)
        specs[i] = values[i] ? &values[i]->spec : NULL;
    return setup;
}

static void add(struct world *w, const struct step *step)
{
    struct hd_spec *specs[MAX_PORTS];
    declare_values(w, step, true);
    declare_values(w, step, false);
    const struct hd_setup setup = get_setup(w, step, specs);
    if (step->verb->declare)
        ck_assert_int_eq(step->verb->declare(&setup), HD_OK);
}

void world_add(struct world *w, ...)
{
    va_list steps;
    configure(w);
    va_start(steps, w);
    for (const struct step *step; (step = va_arg(steps, const struct step *));)
        add(w, step);
    va_end(steps);
}

void world_init(struct world *w)
{
    for (int i = 0; i < w->n_values; i++)
        value_init(&w->values[i], &w->setup, w->shard < 0 ? 0 : w->shard);
}

void world_close(struct world *w)
{
    struct world **link = &worlds;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    for (int i = w->n_values - 1; i >= 0; i--)
        value_release(&w->values[i]);
    for (int i = 0; i < w->n_sets; i++)
        hd_free(w->sets[i]);
    hd_document_destroy(w->document);
    hd_config_destroy((struct hd_config *)w->setup.config);
    hd_diag_destroy(w->setup.diag);
    hd_free(w);
}

void worlds_close(void)
{
    while (worlds)
        world_close(worlds);
}

/* -- Bodies -------------------------------------------------------------------------------------
 */

struct hd_context world_at(struct world *w, const struct step *step, int64_t iteration)
{
    struct value *values[MAX_PORTS];
    int64_t shard = -1;
    for (int i = get_values(w, step, values) - 1; i >= 0; i--)
        if (values[i] && values[i]->spec.placement == HD_SHARD)
            shard = w->shard;
    return (struct hd_context){.rng = hd_rng_make(w->setup.seed, 77, shard, iteration, 0),
                               .seed = w->setup.seed,
                               .iteration = iteration,
                               .update = w->update,
                               .shard = shard,
                               .shards = w->setup.shards,
                               .ranks = 1,
                               .message = w->message};
}

void world_view(struct world *w, const struct step *step, int bucket, struct hd_view *views)
{
    struct value *values[MAX_PORTS];
    const int n = get_values(w, step, values);
    memset(views, 0, MAX_PORTS * sizeof *views);
    for (int i = 0; i < n; i++)
        if (values[i])
            views[i] = (struct hd_view){
                .data = values[i]->data, .spec = &values[i]->spec, .bucket = bucket};
}

void *world_prepare(struct world *w, const struct step *step)
{
    struct hd_spec *specs[MAX_PORTS];
    const struct hd_setup setup = get_setup(w, step, specs);
    void *args = NULL;
    if (step->verb->prepare)
        ck_assert_int_eq(step->verb->prepare(&setup, &args), HD_OK);
    return args;
}

void world_release(const struct step *step, void *args)
{
    if (step->verb->release)
        step->verb->release(args);
    else
        hd_free(args);
}

/* A body in the course of its calls. */
struct call {
    const struct hd_verb *verb;
    const void *args;
    int64_t scratch; /* bytes */
    bool first_item_first;
    struct hd_context context;
    struct hd_view views[MAX_PORTS];
    void *work_buffers[MOST_ITEMS], *headers[MOST_ITEMS];
};

/* Scratch keeps nothing from one call to the next. */
static void *spoil_scratch(struct call *call)
{
    return memset(call->context.scratch, RUBBISH, (size_t)call->scratch);
}

/* Calls the body, and returns HD_AGAIN where it is to be called again. */
static int call_body(struct call *call)
{
    struct hd_context *context = &call->context;
    const int status = call->verb->body(context, call->views, call->args);
    while (status == HD_WAITS && !context->ready(context->ready_arg, 0))
        ;
    return status == HD_WAITS ? HD_AGAIN : status;
}

/* Runs a stage of all items, which take turns while they return HD_AGAIN. */
static int run_items(struct call *call)
{
    struct hd_context *context = &call->context;
    int statuses[MOST_ITEMS], status = HD_OK;
    bool again = true;
    for (context->again = false; status == HD_OK && again; context->again = true) {
        again = false;
        for (int64_t i = 0; status == HD_OK && i < context->items; i++) {
            const int64_t item = call->first_item_first ? i : context->items - 1 - i;
            if (context->again && statuses[item] != HD_AGAIN)
                continue;
            context->item = item;
            context->work = call->work_buffers[item];
            context->header = call->headers[item];
            spoil_scratch(call);
            statuses[item] = call_body(call);
            again = again || statuses[item] == HD_AGAIN;
            status = statuses[item] == HD_AGAIN ? HD_OK : statuses[item];
        }
    }
    return status;
}

static int finish(struct call *call)
{
    call->context.work = call->context.header = NULL;
    call->context.work_buffers = call->work_buffers;
    call->context.headers = call->headers;
    spoil_scratch(call);
    return call->verb->finish(&call->context, call->views, call->args);
}

/* Runs every item and stage of a step, then `finish`. */
static int run_subtasks(struct call *call)
{
    struct hd_context *context = &call->context;
    struct hd_subtasks subtasks;
    int status = HD_OK;
    call->verb->get_subtasks(call->args, &subtasks);
    ck_assert_int_le(subtasks.items, MOST_ITEMS);
    context->items = subtasks.items;
    for (int64_t i = 0; i < subtasks.items; i++) {
        call->work_buffers[i] = guarded_alloc(subtasks.work_bytes);
        memset(call->work_buffers[i], RUBBISH, (size_t)subtasks.work_bytes);
        call->headers[i] = guarded_alloc(subtasks.header_bytes);
        memset(call->headers[i], RUBBISH, (size_t)subtasks.header_bytes);
    }
    for (context->stage = 0; status == HD_OK && context->stage < subtasks.stages; context->stage++)
        status = run_items(call);
    if (status == HD_OK && call->verb->finish)
        status = finish(call);
    for (int64_t i = 0; i < subtasks.items; i++) {
        guarded_free(call->work_buffers[i], subtasks.work_bytes);
        guarded_free(call->headers[i], subtasks.header_bytes);
    }
    return status;
}

static int run_bucket(struct call *call)
{
    int status;
    call->context.scratch = guarded_alloc(call->scratch);
    do {
        spoil_scratch(call);
        status = call->verb->get_subtasks ? run_subtasks(call) : call_body(call);
        call->context.again = true;
    } while (status == HD_AGAIN);
    guarded_free(call->context.scratch, call->scratch);
    return status;
}

/* The old content of a written value may be anything, but for what moments derive from theirs. */
static void spoil(const struct hd_view *view)
{
    if (view->spec->type == &hd_type_moments) {
        const struct hd_moments of = hd_moments_get(view->spec, view->data);
        *of.count = *of.mean = *of.squares = NAN;
    } else {
        memset(view->data, 0xFF, (size_t)view->spec->bytes);
    }
}

int world_run_prepared(struct world *w, const struct step *step, struct hd_context where,
                       const void *args)
{
    struct call call = {.verb = step->verb,
                        .args = args,
                        .scratch = step->verb->scratch ? step->verb->scratch(args) : 0,
                        .first_item_first = w->first_item_first};
    int status = HD_OK, buckets = 1;
    world_view(w, step, 0, call.views);
    while (step->verb->ports[where.n_views].name)
        where.n_views++;
    for (int i = 0; i < where.n_views; i++) {
        const struct hd_view *view = &call.views[i];
        if (view->data && step->verb->by_bucket && view->spec->buckets > buckets)
            buckets = view->spec->buckets;
        else if (view->data && !step->verb->by_bucket && step->verb->ports[i].mode == HD_WRITE)
            spoil(view);
    }
    for (int bucket = buckets - 1; status == HD_OK && bucket >= 0; bucket--) {
        world_view(w, step, bucket, call.views);
        call.context = where;
        status = run_bucket(&call);
    }
    return status;
}

void world_run_at(struct world *w, const struct step *step, struct hd_context where)
{
    void *args = world_prepare(w, step);
    const int status = world_run_prepared(w, step, where, args);
    world_release(step, args);
    ck_assert_msg(status == HD_OK, "%s: status %d: %s", step->verb->name, status, w->message);
}

void world_run(struct world *w, const struct step *step, int64_t iteration)
{
    world_run_at(w, step, world_at(w, step, iteration));
}

const char *world_fail(struct world *w, const struct step *step, int64_t iteration)
{
    void *args = world_prepare(w, step);
    w->message[0] = '\0';
    ck_assert_int_eq(world_run_prepared(w, step, world_at(w, step, iteration), args), HD_ERR_TASK);
    world_release(step, args);
    return w->message;
}

const char *world_mistake(struct world *w, const struct step *step)
{
    struct hd_spec *specs[MAX_PORTS];
    const struct hd_setup setup = get_setup(w, step, specs);
    void *args = NULL;
    int status = step->verb->declare ? step->verb->declare(&setup) : HD_OK;
    if (status == HD_OK)
        status = step->verb->prepare(&setup, &args);
    ck_assert_int_eq(status, HD_ERR_INPUT);
    world_release(step, args);
    return hd_diag_get_line(w->setup.diag, hd_diag_count(w->setup.diag) - 1);
}

/* -- Collectives --------------------------------------------------------------------------------
 */

enum { MOST_LEVELS = 8 };

struct reduce {
    struct world *const *worlds;
    const char *value;
    int bucket;
    enum hd_combine how;
    void *levels[MOST_LEVELS];
};

static void *pack(void *arg, int64_t i, int level)
{
    const struct reduce *reduce = arg;
    const struct value *value = world_get(reduce->worlds[i], reduce->value);
    value->spec.type->reduction->pack(&value->spec, reduce->bucket, value->data,
                                      reduce->levels[level]);
    return reduce->levels[level];
}

static void *fold(void *arg, int level, void *left, void *right)
{
    const struct reduce *reduce = arg;
    const struct hd_spec *spec = &world_get(reduce->worlds[0], reduce->value)->spec;
    (void)level;
    spec->type->reduction->combine(spec, reduce->bucket, reduce->how, left, right);
    return left;
}

void worlds_combine(struct world *const *list, int n, const struct step *collective)
{
    char names[MAX_PORTS][MAX_NAME];
    bind(collective, names);
    struct reduce reduce = {.worlds = list, .value = names[0], .how = collective->verb->combine};
    const struct hd_spec *spec = &world_get(list[0], names[0])->spec;
    const struct hd_reduction *reduction = spec->type->reduction;
    for (reduce.bucket = 0; reduce.bucket < spec->buckets; reduce.bucket++) {
        for (int i = 0; i < MOST_LEVELS; i++)
            reduce.levels[i] = hd_alloc(1, (size_t)reduction->bytes(spec, reduce.bucket) + 64);
        const void *sum = hd_tree_reduce(0, n, pack, fold, &reduce);
        for (int i = 0; i < n; i++) {
            struct value *to = world_get(list[i], names[1]);
            reduction->unpack(&to->spec, reduce.bucket, reduce.how, sum, to->data);
        }
        for (int i = 0; i < MOST_LEVELS; i++)
            hd_free(reduce.levels[i]);
    }
}
