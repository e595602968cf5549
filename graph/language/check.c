/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a graph, after it has been parsed. */
#include "graph/language/check.h"

#include "graph/language/flow.h"
#include "graph/language/names.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

struct checker {
    struct hd_graph *graph;
    struct hd_diag *diag;
    bool changed; /* by a verb's declare */
};

static struct hd_graph_value *get_value(const struct checker *checker, const struct hd_ref *ref)
{
    return ref->value == HD_NO_VALUE ? NULL : &checker->graph->values[ref->value];
}

static const char *name_placement(enum hd_placement placement)
{
    return placement == HD_SHARD ? "shard" : placement == HD_GLOBAL ? "global" : "rank0";
}

/* -- Values ------------------------------------------------------------------------------------ */

static int resolve_values(struct checker *checker)
{
    struct hd_graph *graph = checker->graph;
    for (int i = 0; i < graph->n_values; i++) {
        struct hd_spec *spec = &graph->values[i].spec;
        struct hd_setup setup = {.config = graph->config,
                                 .diag = checker->diag,
                                 .location = spec->location,
                                 .shards = graph->shards,
                                 .seed = graph->seed,
                                 .options = graph->values[i].node};
        if (spec->init && spec->init->type != spec->type)
            hd_diag_add_error(checker->diag, spec->location,
                              "'%s' of type %s cannot start as '%s' of type %s", spec->name,
                              spec->type->name, spec->init->name, spec->init->type->name);
        if (spec->init && spec->init->placement == HD_SHARD && spec->placement != HD_SHARD)
            hd_diag_add_error(checker->diag, spec->location,
                              "'%s' (%s) cannot start as '%s', which has an instance per shard",
                              spec->name, name_placement(spec->placement), spec->init->name);
        int status = spec->type->resolve ? spec->type->resolve(spec, &setup) : HD_OK;
        if (status != HD_OK && status != HD_ERR_INPUT)
            return status;
    }
    return hd_diag_count(checker->diag) ? HD_ERR_INPUT : HD_OK;
}

static void note_use(const struct checker *checker, const struct hd_step *step,
                     const struct hd_ref *ref)
{
    struct hd_graph_value *value = get_value(checker, ref);
    value->written |= ref->mode == HD_WRITE;
    value->updated |= ref->mode == HD_UPDATE;
    if (value->first_use.line == 0)
        value->first_use = step->location;
}

static bool is_flat_memory(const struct hd_type *type)
{
    return !type->snapshot && !type->fini;
}

/* -- Placement --------------------------------------------------------------------------------- */

static bool is_combinable_by(const struct hd_reduction *reduction, enum hd_combine how)
{
    return reduction->hows == 0 || (reduction->hows >> how & 1);
}

static int report_combine(const struct checker *checker, const struct hd_step *step,
                          const struct hd_spec *from)
{
    char known[64] = "";
    for (int how = 0; hd_combine_names[how]; how++)
        if (is_combinable_by(from->type->reduction, (enum hd_combine)how))
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     known[0] ? ", " : "", hd_combine_names[how]);
    const struct hd_node *op = hd_node_get(step->options, "op");
    return hd_diag_add_error(checker->diag, op ? op->location : step->location,
                             "values of type %s ('%s') combine by %s, not by %s", from->type->name,
                             from->name, known, hd_combine_names[step->combine]);
}

static int check_collective(struct checker *checker, struct hd_step *step)
{
    const struct hd_spec *from = &get_value(checker, &step->refs[0])->spec;
    const struct hd_spec *to = &get_value(checker, &step->refs[1])->spec;
    step->placement = HD_GLOBAL;
    if (from->type != to->type)
        return hd_diag_add_error(checker->diag, step->location,
                                 "%s: '%s' is of type %s, but '%s' is of type %s", step->verb->name,
                                 from->name, from->type->name, to->name, to->type->name);
    if (from->of != to->of)
        return hd_diag_add_error(checker->diag, step->location,
                                 "%s: '%s' is made of '%s', but '%s' of '%s'", step->verb->name,
                                 from->name, from->of ? from->of->name : "nothing", to->name,
                                 to->of ? to->of->name : "nothing");
    const enum hd_placement wanted = step->verb->to_rank0 ? HD_RANK0 : HD_GLOBAL;
    if (to->placement != wanted)
        return hd_diag_add_error(checker->diag, step->refs[1].location,
                                 "%s writes a %s value, but '%s' is %s", step->verb->name,
                                 name_placement(wanted), to->name, name_placement(to->placement));
    if (step->verb->kind == HD_VERB_COLLECTIVE && from->placement != HD_SHARD)
        return hd_diag_add_error(checker->diag, step->refs[0].location,
                                 "%s combines shards, but '%s' is %s", step->verb->name, from->name,
                                 name_placement(from->placement));
    if (step->verb->kind == HD_VERB_COLLECTIVE && !from->type->reduction)
        return hd_diag_add_error(checker->diag, step->refs[0].location,
                                 "values of type %s ('%s') cannot be combined", from->type->name,
                                 from->name);
    if (step->verb->kind == HD_VERB_COLLECTIVE &&
        !is_combinable_by(from->type->reduction, step->combine))
        return report_combine(checker, step, from);
    if (step->verb->kind == HD_VERB_BROADCAST && from->placement == HD_GLOBAL)
        return hd_diag_add_error(checker->diag, step->refs[0].location,
                                 "'%s' is global: every rank has it already", from->name);
    if (step->verb->kind == HD_VERB_BROADCAST && from->partials != to->partials)
        return hd_diag_add_error(checker->diag, step->location,
                                 "'%s' is made of %lld partials, '%s' of %lld%s", from->name,
                                 (long long)from->partials, to->name, (long long)to->partials,
                                 from->type->flat ? ": add them up (mean, sum)" : "");
    if (step->verb->kind == HD_VERB_BROADCAST && !from->type->reduction &&
        !is_flat_memory(from->type))
        return hd_diag_add_error(checker->diag, step->refs[0].location,
                                 "values of type %s ('%s') cannot be sent to other ranks",
                                 from->type->name, from->name);
    return HD_OK;
}

static int check_placement(struct checker *checker, struct hd_step *step)
{
    const struct hd_ref *shard = NULL, *rank0 = NULL, *changed_global = NULL;
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value == HD_NO_VALUE)
            continue;
        enum hd_placement placement = get_value(checker, ref)->spec.placement;
        if (placement == HD_SHARD)
            shard = shard ? shard : ref;
        else if (placement == HD_RANK0)
            rank0 = rank0 ? rank0 : ref;
        else if (ref->mode != HD_READ)
            changed_global = changed_global ? changed_global : ref;
    }
    bool on_rank0 = rank0 || step->verb->logs;
    if (shard && (on_rank0 || step->verb->kind == HD_VERB_STOP))
        return hd_diag_add_error(
            checker->diag, shard->location,
            "%s cannot see shard value '%s': combine the shards first, by sum, "
            "mean, max or broadcast",
            step->verb->name, get_value(checker, shard)->spec.name);
    if (rank0 && step->verb->kind == HD_VERB_STOP)
        return hd_diag_add_error(checker->diag, rank0->location,
                                 "stop must decide alike on all ranks, but '%s' is on rank 0 only: "
                                 "broadcast it first",
                                 get_value(checker, rank0)->spec.name);
    if (changed_global && (shard || on_rank0))
        return hd_diag_add_error(checker->diag, changed_global->location,
                                 "%s is a %s step and cannot change the global value '%s': only a "
                                 "collective changes placement",
                                 step->verb->name, shard ? "shard" : "rank0",
                                 get_value(checker, changed_global)->spec.name);
    step->placement = shard ? HD_SHARD : on_rank0 ? HD_RANK0 : HD_GLOBAL;
    return HD_OK;
}

/* -- Steps ------------------------------------------------------------------------------------- */

static void check_duplicates(struct checker *checker, const struct hd_step *step, int i)
{
    for (int j = 0; j < i; j++)
        if (step->refs[i].value == step->refs[j].value && step->refs[i].value != HD_NO_VALUE &&
            (step->refs[i].mode != HD_READ || step->refs[j].mode != HD_READ))
            hd_diag_add_error(checker->diag, step->refs[i].location,
                              "%s names '%s' more than once; only reads may share a value",
                              step->verb->name, get_value(checker, &step->refs[i])->spec.name);
}

/* A step that goes bucket by bucket needs values of as many buckets: it takes bucket b of each. */
static void check_buckets(struct checker *checker, const struct hd_step *step)
{
    const struct hd_spec *first = NULL;
    for (int i = 0; step->verb->by_bucket && i < step->n_refs; i++) {
        const struct hd_graph_value *value = get_value(checker, &step->refs[i]);
        if (!value || !value->spec.type->flat)
            continue;
        if (first && first->buckets != value->spec.buckets)
            hd_diag_add_error(checker->diag, step->refs[i].location,
                              "%s goes bucket by bucket, but '%s' has %d buckets and '%s' %d",
                              step->verb->name, first->name, first->buckets, value->spec.name,
                              value->spec.buckets);
        first = first ? first : &value->spec;
    }
}

static int check_step(struct checker *checker, struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value == HD_NO_VALUE)
            continue;
        check_duplicates(checker, step, i);
        note_use(checker, step, ref);
    }
    if (step->verb->kind == HD_VERB_COLLECTIVE || step->verb->kind == HD_VERB_BROADCAST)
        check_collective(checker, step);
    else
        check_placement(checker, step);
    check_buckets(checker, step);
    return 0;
}

static void check_values(struct checker *checker)
{
    for (int i = 0; i < checker->graph->n_values; i++) {
        const struct hd_graph_value *value = &checker->graph->values[i];
        if (value->slots > 1 && value->updated)
            hd_diag_add_error(checker->diag, value->spec.location,
                              "'%s' is updated in place, so it cannot rotate through %d slots",
                              value->spec.name, value->slots);
        if (value->first_use.line == 0)
            hd_diag_add_error(checker->diag, value->spec.location, "no step names the value '%s'",
                              value->spec.name);
    }
}

static int fill_setup(struct checker *checker, struct hd_step *step)
{
    struct hd_graph *graph = checker->graph;
    struct hd_spec **specs = hd_graph_alloc(graph, step->n_refs + 1, sizeof *specs);
    if (!specs)
        return HD_ERR_NOMEM;
    for (int i = 0; i < step->n_refs; i++)
        specs[i] =
            step->refs[i].value == HD_NO_VALUE ? NULL : &get_value(checker, &step->refs[i])->spec;
    step->setup = (struct hd_setup){.config = graph->config,
                                    .diag = checker->diag,
                                    .location = step->location,
                                    .shards = graph->shards,
                                    .seed = graph->seed,
                                    .verb = step->verb->name,
                                    .specs = specs,
                                    .n_specs = step->n_refs,
                                    .options = step->options};
    return 0;
}

static int64_t count_known_bytes(const struct hd_graph *graph)
{
    int64_t bytes = 0;
    for (int i = 0; i < graph->n_values; i++)
        bytes += graph->values[i].spec.bytes;
    return bytes;
}

static int declare_step(struct checker *checker, struct hd_step *step)
{
    if (!step->verb->declare)
        return 0;
    int64_t before = count_known_bytes(checker->graph);
    int status = step->verb->declare(&step->setup);
    checker->changed |= count_known_bytes(checker->graph) != before;
    return status == HD_ERR_INPUT ? 0 : status;
}

/* Calls visit for each step that is no repeat, until one returns a status other than 0, which is
 * then returned. */
static int visit_steps(struct checker *checker,
                       int (*visit)(struct checker *checker, struct hd_step *step))
{
    for (int i = 0; i < checker->graph->total_steps; i++)
        if (checker->graph->all_steps[i]->verb)
            HD_TRY(visit(checker, checker->graph->all_steps[i]));
    return HD_OK;
}

/* Asks all verbs until nothing changes: a read may come before the write that gives its value
 * fields. */
static int declare_all(struct checker *checker)
{
    do {
        checker->changed = false;
        HD_TRY(visit_steps(checker, declare_step));
    } while (checker->changed && hd_diag_count(checker->diag) == 0);
    for (int i = 0; i < checker->graph->n_values; i++) {
        const struct hd_spec *spec = &checker->graph->values[i].spec;
        if (spec->bytes <= 0)
            hd_diag_add_error(checker->diag, spec->location,
                              "'%s' has no content: no step that writes it says what it holds",
                              spec->name);
    }
    return HD_OK;
}

static void check_condition(struct checker *checker, const struct hd_step *step)
{
    const int *slots;
    int64_t n = hd_expr_get_slots(step->condition, &slots);
    for (int64_t i = 0; i < n; i++) {
        const struct hd_slot *slot = &checker->graph->slots[slots[i]];
        bool listed = slot->kind != HD_SLOT_FIELD;
        for (int j = 0; j < step->n_refs; j++)
            listed |= step->refs[j].value == slot->value;
        if (!listed)
            hd_diag_add_error(checker->diag, hd_node_get(step->options, "if")->location,
                              "the condition looks at '%s': list '%s' under `reads`", slot->name,
                              checker->graph->values[slot->value].spec.name);
    }
}

/* Steps of one verb draw different random numbers: the stream is the verb's stream_id and the
 * step's ordinal among the steps of that verb, so that steps of other verbs may come and go. */
static int assign_stream(struct checker *checker, struct hd_step *step)
{
    uint64_t before = 0; /* steps of the same verb */
    for (int i = 0; i < step->index; i++)
        before += checker->graph->all_steps[i]->verb == step->verb;
    step->stream = hd_hash_mix(step->verb->stream_id, before);
    return 0;
}

static int finish_step(struct checker *checker, struct hd_step *step)
{
    if (step->verb->kind == HD_VERB_STOP) {
        int status = hd_graph_parse_expression(checker->graph, hd_node_get(step->options, "if"),
                                               true, checker->diag, &step->condition);
        if (status == HD_ERR_NOMEM)
            return status;
        if (status == HD_OK)
            check_condition(checker, step);
    }
    if (!step->verb->prepare)
        return 0;
    int status = step->verb->prepare(&step->setup, &step->args);
    return status == HD_ERR_INPUT ? 0 : status;
}

int hd_graph_check(struct hd_graph *graph, struct hd_diag *diag)
{
    struct checker checker = {.graph = graph, .diag = diag};
    HD_TRY(resolve_values(&checker));
    HD_TRY(visit_steps(&checker, check_step));
    check_values(&checker);
    HD_TRY(hd_graph_check_flow(graph, diag));
    if (hd_diag_count(diag) > 0)
        return HD_ERR_INPUT;
    HD_TRY(visit_steps(&checker, fill_setup));
    HD_TRY(declare_all(&checker));
    if (hd_diag_count(diag) > 0)
        return HD_ERR_INPUT;
    HD_TRY(visit_steps(&checker, assign_stream));
    HD_TRY(visit_steps(&checker, finish_step));
    return hd_diag_count(diag) ? HD_ERR_INPUT : HD_OK;
}
