/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a graph, whose steps have their verbs and ports. The first iteration is followed in
 * program order: what has content at a place then has it in later ones. */
#include "graph/language/flow.h"

#include "runtime/base/status.h"

#include <string.h>

/* Says whether a value has content at a place of the first iteration. */
enum content { NONE, PERHAPS, SURE };

/* One step's use of a value. */
struct use {
    const struct hd_step *step; /* NULL: there is none */
    const struct hd_ref *ref;
};

/* Holds what the steps do with a value. Those whose guard is a constant zero only use it. */
struct role {
    struct use change, read; /* the first of each */
    struct use update;       /* the last */
    bool used;               /* some step wants to know what is in it */
    bool logged;             /* a step shows it in logs */
    int guards;              /* around the present step that look at its attributes */
};

struct flow {
    struct hd_graph *graph;
    struct hd_diag *diag;
    struct role *roles;    /* [n_values] */
    enum content *content; /* [n_values] */
};

static bool never_runs(const struct hd_step *step)
{
    double value;
    return step->when && hd_expr_is_constant(step->when, &value) && value == 0;
}

/* Reads the counter `iteration`, the only number that is known here. */
static bool read_iteration(void *arg, int slot, double *value_p)
{
    (void)slot;
    *value_p = *(const int *)arg;
    return true;
}

/* Returns whether a step or repeat runs in an iteration, as far as the iteration's number says. */
static bool surely_runs(const struct hd_graph *graph, const struct hd_step *step, int iteration)
{
    const int *slots;
    const int64_t n = step->when ? hd_expr_get_slots(step->when, &slots) : 0;
    for (int64_t i = 0; i < n; i++)
        if (graph->slots[slots[i]].kind != HD_SLOT_COUNTER || graph->slots[slots[i]].index != 0)
            return false;
    double value = 1;
    if (step->when && !hd_expr_evaluate(step->when, read_iteration, &iteration, &value))
        return false;
    return value != 0 && (step->every == 0 || (step->first == 0 && iteration == 0));
}

static const struct hd_spec *get_spec(const struct flow *flow, const struct hd_ref *ref)
{
    return &flow->graph->values[ref->value].spec;
}

/* -- What steps do with values ----------------------------------------------------------------- */

static bool is_log(const struct hd_step *step)
{
    return step->verb->logs && step->verb->many;
}

static void note_use(struct flow *flow, const struct hd_step *step, const struct hd_ref *ref,
                     bool runs)
{
    struct role *role = &flow->roles[ref->value];
    const struct hd_type *type = get_spec(flow, ref)->type;
    role->used |= ref->mode == HD_READ ? !is_log(step) || type->none || type->given
                                       : ref->mode == HD_UPDATE && type->used_by_updates;
    role->logged |= is_log(step);
    struct use *first = ref->mode == HD_READ ? &role->read : &role->change;
    if (runs && !first->step)
        *first = (struct use){step, ref};
    if (runs && ref->mode == HD_UPDATE)
        role->update = (struct use){step, ref};
}

/* Adds `change` to the guards around what follows that look at the values which this one does. */
static void count_guard(struct flow *flow, const struct hd_step *step, int change)
{
    const int *slots;
    const int64_t n = step->when ? hd_expr_get_slots(step->when, &slots) : 0;
    for (int64_t i = 0; i < n; i++)
        if (flow->graph->slots[slots[i]].kind == HD_SLOT_ATTRIBUTE) {
            struct role *role = &flow->roles[flow->graph->slots[slots[i]].value];
            role->guards += change;
            role->used = true;
        }
}

/* Warns of a step that may find a value empty: those with a size start so. */
static void check_size(struct flow *flow, const struct hd_step *step, const struct hd_ref *ref)
{
    const struct hd_spec *spec = get_spec(flow, ref);
    const char *const *counted = spec->type->counted;
    if (ref->mode == HD_READ && counted && strcmp(counted[0], "size") == 0 &&
        flow->roles[ref->value].guards == 0)
        hd_diag_add_error(flow->graph->warnings, ref->location,
                          "%s reads '%s', which starts empty: add a `when: %s.size >= ...`",
                          step->label, spec->name, spec->name);
}

static void note_uses(struct flow *flow, const struct hd_step *steps, int n, bool runs)
{
    for (int i = 0; i < n; i++) {
        const bool here = runs && !never_runs(&steps[i]);
        count_guard(flow, &steps[i], 1);
        for (int j = 0; j < steps[i].n_refs; j++)
            if (steps[i].refs[j].value != HD_NO_VALUE) {
                note_use(flow, &steps[i], &steps[i].refs[j], here);
                check_size(flow, &steps[i], &steps[i].refs[j]);
            }
        note_uses(flow, steps[i].steps, steps[i].n_steps, here);
        count_guard(flow, &steps[i], -1);
    }
}

/* Returns whether a value that no step changes may be meant so: one that is given, is no copy, and
 * of whose type no other one is changed. */
static bool may_stay(const struct flow *flow, const struct hd_spec *spec)
{
    bool alone = true;
    for (int i = 0; i < flow->graph->n_values; i++)
        alone &= flow->graph->values[i].spec.type != spec->type || !flow->roles[i].change.step;
    return spec->type->given && !spec->init && alone;
}

static const char *name_change(const struct use *use)
{
    return use->ref->mode == HD_WRITE ? "writes" : "updates";
}

static void check_role(struct flow *flow, const struct hd_spec *spec, const struct role *role)
{
    struct hd_diag *warnings = flow->graph->warnings;
    const struct use *change = &role->change, *read = &role->read;
    if (!change->step && read->step && spec->type->none)
        hd_diag_add_error(flow->diag, read->ref->location,
                          "no step writes '%s', which %s reads: a value of type %s has no content "
                          "until one does",
                          spec->name, read->step->label, spec->type->name);
    else if (!change->step && read->step && !may_stay(flow, spec))
        hd_diag_add_error(warnings, spec->location,
                          "no step changes '%s', which %s reads: it stays as it starts", spec->name,
                          read->step->label);
    else if (change->step && !role->used)
        hd_diag_add_error(warnings, change->ref->location, "no step%s reads '%s', which %s %s",
                          role->logged ? " but log" : "", spec->name, change->step->label,
                          name_change(change));
}

/* -- Reads ahead of changes -------------------------------------------------------------------- */

/* A step of these only shows, saves or combines what is new. */
static bool only_reads_news(const struct hd_step *step)
{
    bool changes = false;
    for (int i = 0; i < step->n_refs; i++)
        changes |= step->refs[i].mode != HD_READ;
    return hd_step_runs_on_change(step) && (!changes || step->verb->kind == HD_VERB_COLLECTIVE);
}

static bool have_same_every(const struct hd_step *one, const struct hd_step *other)
{
    return one->every > 0 && one->every == other->every &&
           one->every_counter == other->every_counter;
}

/* Returns whether a step that reads a value ahead of all changes would hardly be meant to see what
 * the iteration before left: the value is made anew, or its last change would be missed, or it is
 * made for this step. */
static bool misses_change(const struct flow *flow, const struct hd_step *step,
                          const struct hd_ref *ref)
{
    const struct role *role = &flow->roles[ref->value];
    return (!role->update.step && !get_spec(flow, ref)->type->given) || only_reads_news(step) ||
           have_same_every(step, role->change.step);
}

/* Returns the last step between two others that counts what both run by, or NULL. */
static const struct hd_step *find_counting(const struct flow *flow, const struct hd_step *first,
                                           const struct hd_step *last)
{
    const struct hd_step *found = NULL;
    for (int i = first->index + 1; i < last->index; i++)
        if (flow->graph->all_steps[i]->counts == first->every_counter)
            found = flow->graph->all_steps[i];
    return found;
}

/* Warns of a step that runs as often as the one ahead of it that makes what it reads, and one count
 * earlier, as the count changes in between. */
static void check_count(struct flow *flow, const struct hd_step *step, const struct hd_ref *ref)
{
    const struct use *change = &flow->roles[ref->value].change;
    if (!change->step || change->step->index > step->index || !have_same_every(step, change->step))
        return;
    const struct hd_step *counting = find_counting(flow, change->step, step);
    if (counting)
        hd_diag_add_error(flow->graph->warnings, ref->location,
                          "%s reads '%s' as it was one `every` ago: %s at line %d counts between "
                          "%s at line %d, which %s it, and here",
                          step->label, get_spec(flow, ref)->name, counting->label,
                          counting->location.line, change->step->label, change->ref->location.line,
                          name_change(change));
}

/* Warns of a step that reads a value ahead of the change that it is hardly meant to miss. */
static void check_order(struct flow *flow, const struct hd_step *step, const struct hd_ref *ref)
{
    const struct role *role = &flow->roles[ref->value];
    const struct use *change = &role->change, *update = &role->update, *missed = NULL;
    if (ref->mode != HD_READ || ref->lag > 0 || !change->step)
        return;
    check_count(flow, step, ref);
    if (step->index < change->step->index)
        missed = misses_change(flow, step, ref) ? change : NULL;
    else if (change->ref->mode == HD_WRITE && update->step && step->index < update->step->index &&
             update->step->depth == change->step->depth)
        missed = update;
    if (missed)
        hd_diag_add_error(flow->graph->warnings, ref->location,
                          "%s reads '%s' before %s at line %d %s it: it finds what %s left",
                          step->label, get_spec(flow, ref)->name, missed->step->label,
                          missed->ref->location.line, name_change(missed),
                          missed == change ? "the iteration before" : change->step->label);
}

/* Warns of shards whose parameters are averaged, but never set to what came of it. */
static void check_average(struct flow *flow, const struct hd_step *step, const struct hd_ref *ref)
{
    const struct hd_spec *spec = get_spec(flow, ref);
    if (step->verb->kind == HD_VERB_COLLECTIVE && ref->mode == HD_READ && spec->type->flat &&
        spec->type->given && !flow->graph->values[ref->value].written)
        hd_diag_add_error(flow->graph->warnings, ref->location,
                          "no step writes '%s', which %s combines: every shard goes on from its "
                          "own; add a copy of the result to it",
                          spec->name, step->label);
}

/* -- The first iteration ----------------------------------------------------------------------- */

static void report_none(const struct flow *flow, const struct hd_step *step,
                        const struct hd_ref *ref)
{
    const char *name = get_spec(flow, ref)->name;
    const struct use *change = &flow->roles[ref->value].change;
    const char *label = change->step->label;
    const int line = change->ref->location.line;
    if (ref->lag > 0)
        hd_diag_add_error(flow->diag, ref->location,
                          "'%s@-%d' has no content in iterations up to %d, and %s requires it: add "
                          "`when: iteration > %d`",
                          name, ref->lag, ref->lag, step->label, ref->lag);
    else if (flow->content[ref->value] == PERHAPS)
        hd_diag_add_error(flow->diag, ref->location,
                          "'%s' has no content while %s at line %d has not run, which depends on "
                          "its guard, and %s requires it: give it a guard as well",
                          name, label, line, step->label);
    else if (change->step->index < step->index)
        hd_diag_add_error(flow->diag, ref->location,
                          "'%s' has no content here in the first iteration, and %s requires it: "
                          "what %s at line %d reads has none either",
                          name, step->label, label, line);
    else if (step->depth > 0 || ref->mode != HD_READ)
        hd_diag_add_error(flow->diag, ref->location,
                          "'%s' has no content here in the first iteration, and %s requires it: "
                          "put it behind %s at line %d",
                          name, step->label, label, line);
    else
        hd_diag_add_error(flow->diag, ref->location,
                          "'%s' has no content here in the first iteration, and %s requires it: "
                          "put it behind %s at line %d, or read '%s@-1' with `when: iteration > 1` "
                          "if an earlier one is meant",
                          name, step->label, label, line, name);
}

/* Returns whether a value has content where a step uses it, or the step may say when it has. */
static bool may_have_content(const struct flow *flow, const struct hd_step *step,
                             const struct hd_ref *ref)
{
    const int lag = get_spec(flow, ref)->type->none ? ref->lag : 0;
    bool runs = false;
    for (int iteration = 0; iteration <= lag; iteration++)
        runs |= surely_runs(flow->graph, step, iteration);
    return !runs || (lag == 0 && flow->content[ref->value] == SURE);
}

static void check_use(struct flow *flow, const struct hd_step *step, int i)
{
    const struct hd_ref *ref = &step->refs[i];
    const bool takes_none = step->verb->ports[step->verb->many ? 0 : i].none;
    if (takes_none || hd_step_runs_on_change(step) || may_have_content(flow, step, ref)) {
        check_order(flow, step, ref);
        check_average(flow, step, ref);
        return;
    }
    report_none(flow, step, ref);
    flow->content[ref->value] = SURE; /* one message is enough */
}

/* Returns whether a step has no more to write than it reads. */
static bool passes_on(const struct hd_step *step)
{
    return hd_step_runs_on_change(step) || step->verb->kind == HD_VERB_COLLECTIVE ||
           step->verb->kind == HD_VERB_BROADCAST;
}

static void follow_step(struct flow *flow, const struct hd_step *step)
{
    enum content made = surely_runs(flow->graph, step, 0) ? SURE : PERHAPS;
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode == HD_WRITE)
            continue;
        check_use(flow, step, i);
        const enum content found =
            ref->lag > 0 && get_spec(flow, ref)->type->none ? NONE : flow->content[ref->value];
        if (passes_on(step) && ref->mode == HD_READ && found < made)
            made = found;
    }
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode != HD_READ &&
            flow->content[step->refs[i].value] < made)
            flow->content[step->refs[i].value] = made;
}

static int follow(struct flow *flow, const struct hd_step *steps, int n);

static int find_last_index(const struct hd_step *step)
{
    while (step->n_steps > 0)
        step = &step->steps[step->n_steps - 1];
    return step->index;
}

/* In a repeat with a guard, what has perhaps content, or gets it behind the repeat, is taken to
 * have it, as the guard may say so; what gets content there has it afterwards perhaps. */
static int follow_repeat(struct flow *flow, const struct hd_step *repeat)
{
    const int n = flow->graph->n_values, last = find_last_index(repeat);
    const bool guarded = !surely_runs(flow->graph, repeat, 0);
    enum content *before = hd_graph_alloc(flow->graph, n + 1, sizeof *before);
    if (!before)
        return HD_ERR_NOMEM;
    memcpy(before, flow->content, (size_t)n * sizeof *before);
    for (int i = 0; i < n && guarded; i++)
        if (before[i] == PERHAPS || (before[i] == NONE && flow->roles[i].change.step->index > last))
            flow->content[i] = SURE;
    HD_TRY(follow(flow, repeat->steps, repeat->n_steps));
    for (int i = 0; i < n && guarded; i++)
        if (flow->content[i] > before[i])
            flow->content[i] = PERHAPS;
    return HD_OK;
}

static int follow(struct flow *flow, const struct hd_step *steps, int n)
{
    for (int i = 0; i < n; i++) {
        if (never_runs(&steps[i]))
            continue;
        if (steps[i].verb)
            follow_step(flow, &steps[i]);
        else
            HD_TRY(follow_repeat(flow, &steps[i]));
    }
    return HD_OK;
}

int hd_graph_check_flow(struct hd_graph *graph, struct hd_diag *diag)
{
    struct flow flow = {.graph = graph,
                        .diag = diag,
                        .roles = hd_graph_alloc(graph, graph->n_values + 1, sizeof *flow.roles),
                        .content =
                            hd_graph_alloc(graph, graph->n_values + 1, sizeof *flow.content)};
    if (!flow.roles || !flow.content)
        return HD_ERR_NOMEM;
    HD_TRY(hd_diag_create(&graph->warnings));
    note_uses(&flow, graph->steps, graph->n_steps, true);
    for (int i = 0; i < graph->n_values; i++) {
        check_role(&flow, &graph->values[i].spec, &flow.roles[i]);
        flow.content[i] =
            graph->values[i].spec.type->none && flow.roles[i].change.step ? NONE : SURE;
    }
    return follow(&flow, graph->steps, graph->n_steps);
}
