/* SPDX-License-Identifier: Apache-2.0 */
/* Losses on batches of which not all rows are used or have weight: rows that are not used are not
 * learned from; rows without weight are learned from but left out of statistics. Behaviour cloning
 * is compared with its definition. */
#include "kernels/learn/losses/cross_entropy.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { POLICY, TARGET, BATCH, STATS, GRAD, N_VALUES };
enum { ROWS = 8, MICRO = 4, PARTIALS = ROWS / MICRO, OBS = 4, ACTIONS = 2 };

struct learner {
    struct hd_setup setup;
    struct hd_document *document;
    struct value values[N_VALUES], *ports[MAX_PORTS];
};

static const char *const losses[] = {"bc", "dqn"};

static void open_params(struct learner *l, int which, const char *name)
{
    struct value *value = &l->values[which];
    *value = (struct value){.spec = {.name = name,
                                     .type = &hd_type_params,
                                     .placement = HD_GLOBAL,
                                     .location = l->setup.location,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(hd_type_params.resolve(&value->spec, &l->setup), HD_OK);
    value_init(value, &l->setup, 0);
}

static void open_grad(struct learner *l)
{
    struct value *value = &l->values[GRAD];
    *value = (struct value){.spec = {.name = "grad",
                                     .type = &hd_type_grad,
                                     .placement = HD_SHARD,
                                     .of = &l->values[POLICY].spec,
                                     .location = l->setup.location,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(hd_type_grad.resolve(&value->spec, &l->setup), HD_OK);
    ck_assert_int_eq(value->spec.partials, PARTIALS);
    value_init(value, &l->setup, 0);
}

static void learner_open(struct learner *l, const char *loss)
{
    const struct hd_source_location location = {"graph.yaml", 1, 1};
    char type[32];
    snprintf(type, sizeof type, "policy.type=%s", loss);
    const char *const sets[] = {type, "policy.learn.batch_size=8", "policy.learn.microbatch=4",
                                "policy.learn.learning_rate=0.5"};
    *l = (struct learner){.setup = setup_open(sets, 4)};
    ck_assert_int_eq(hd_document_create(&l->document), HD_OK);
    struct hd_node *map = hd_node_create_map(l->document, location);
    hd_node_put(l->document, map, "loss", hd_node_create_scalar(l->document, location, loss));
    l->setup.options = map;
    open_params(l, POLICY, "policy");
    open_params(l, TARGET, "target");
    value_open(&l->values[BATCH], &l->setup, &hd_type_batch, "batch", NULL);
    open_grad(l);
    l->values[STATS] = (struct value){.spec = {.name = "stats", .type = &hd_type_scalars}};
    for (int i = 0; i < N_VALUES; i++)
        l->ports[i] = &l->values[i];
    if (strcmp(loss, "bc") == 0)
        l->ports[TARGET] = NULL;
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &l->setup, l->ports, specs);
    ck_assert_int_eq(hd_verb_loss_grad.declare(&step), HD_OK);
    value_init(&l->values[STATS], &l->setup, 0);
}

static void learner_close(struct learner *l)
{
    for (int i = N_VALUES - 1; i >= 0; i--)
        value_close(&l->values[i]);
    hd_document_destroy(l->document);
    setup_close(&l->setup);
}

static struct hd_transitions rows_of(struct learner *l)
{
    return hd_batch_get_rows(&l->values[BATCH].spec, l->values[BATCH].data);
}

static struct hd_batch_use use_of(struct learner *l)
{
    return hd_batch_get_use(&l->values[BATCH].spec, l->values[BATCH].data);
}

/* Draws of stream `stream` in the rows from `first` on. */
static void fill(struct learner *l, int64_t first, uint64_t stream)
{
    struct hd_transitions rows = rows_of(l);
    for (int64_t b = first; b < ROWS; b++) {
        struct hd_rng rng = hd_rng_make(1, stream, b, 0, 0);
        for (int64_t j = 0; j < OBS; j++) {
            ((float *)rows.obs)[b * OBS + j] = (float)hd_rng_draw_uniform(&rng, (uint32_t)j) - .5f;
            ((float *)rows.next_obs)[b * OBS + j] =
                (float)hd_rng_draw_uniform(&rng, 9 + (uint32_t)j);
        }
        rows.action[b].choice = (int32_t)hd_rng_draw_below(&rng, 20, ACTIONS);
        rows.reward[b] = (float)hd_rng_draw_uniform(&rng, 21);
        rows.done[b] = (float)hd_rng_draw_below(&rng, 22, 2);
    }
}

static void use_rows(struct learner *l, int64_t used)
{
    struct hd_batch_use use = use_of(l);
    *use.used = used;
    for (int64_t b = 0; b < ROWS; b++)
        use.weight[b] = b < used ? 1 : 0;
}

static uint64_t compute(struct learner *l)
{
    const struct hd_context where = at(&l->setup, 0, 0);
    memset(l->values[GRAD].data, 0xFF, (size_t)l->values[GRAD].spec.bytes);
    memset(l->values[STATS].data, 0, (size_t)l->values[STATS].spec.bytes);
    run(&hd_verb_loss_grad, &l->setup, l->ports, &where);
    return value_hash(&l->values[GRAD]);
}

static double stat(const struct learner *l, const char *name)
{
    const struct value *stats = &l->values[STATS];
    int field = hd_value_find_field(&stats->spec, name);
    ck_assert_int_ge(field, 0);
    return stats->spec.type->field(&stats->spec, stats->data, field);
}

TEST(rows_that_are_not_used_change_nothing, .runs = 2)
{
    for (int64_t used = 0; used <= ROWS; used++) {
        struct learner l;
        learner_open(&l, losses[_i]);
        struct value *grad = &l.values[GRAD];
        fill(&l, 0, 5);
        use_rows(&l, used);
        uint64_t hash = compute(&l);
        for (int64_t partial = 0; partial < PARTIALS; partial++) {
            int64_t rows = used - partial * MICRO;
            rows = rows < 0 ? 0 : rows < MICRO ? rows : MICRO;
            ck_assert(hd_grad_get_counts(&grad->spec, grad->data, partial)[0] == (float)rows);
            const float *floats = hd_grad_get_partial(&grad->spec, grad->data, partial);
            double norm = 0;
            for (int64_t i = 0; i < grad->spec.elements; i++)
                norm += fabs((double)floats[i]);
            ck_assert_msg((norm > 0) == (rows > 0), "norm %g of %lld rows", norm, (long long)rows);
        }
        const double loss = stat(&l, "total_loss_avg");
        ck_assert(used > 0 ? isfinite(loss) : isnan(loss));
        ck_assert(used > 0 ? stat(&l, "cur_lr_avg") == .5 : isnan(stat(&l, "cur_lr_avg")));
        fill(&l, used, 6);
        ck_assert_uint_eq(compute(&l), hash);
        ck_assert(used == 0 || stat(&l, "total_loss_avg") == loss);
        fill(&l, used - (used > 0), 7);
        ck_assert_int_eq(compute(&l) == hash, used == 0);
        learner_close(&l);
    }
}

/* -- Behaviour cloning ------------------------------------------------------------------------- */

/* Computes statistics from the net's outputs, in double. */
static void check_stats(struct learner *l)
{
    const struct hd_net *net = hd_params_get_net(&l->values[POLICY].spec);
    const struct hd_transitions rows = rows_of(l);
    const struct hd_batch_use use = use_of(l);
    double loss = 0, hits = 0, weight = 0;
    float q[ROWS][ACTIONS];
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, ROWS));
    hd_net_forward(net, l->values[POLICY].data, NULL, rows.obs, ROWS, work, q[0]);
    hd_free(work);
    for (int64_t b = 0; b < *use.used; b++) {
        const double other = q[b][1 - rows.action[b].choice], taken = q[b][rows.action[b].choice];
        const double w = use.weight[b];
        loss += w * log1p(exp(other - taken));
        hits += w * (taken > other);
        weight += w;
    }
    ck_assert_double_eq_tol(stat(l, "total_loss_avg"), loss / weight, 1e-6);
    ck_assert_double_eq_tol(stat(l, "accuracy_avg"), hits / weight, 1e-12);
}

TEST(padding_is_learned_from_but_not_shown)
{
    struct learner l;
    learner_open(&l, "bc");
    fill(&l, 0, 8);
    use_rows(&l, 7);
    uint64_t hash = compute(&l);
    check_stats(&l);
    const double shown = stat(&l, "total_loss_avg");
    use_of(&l).weight[2] = use_of(&l).weight[6] = 0;
    ck_assert_uint_eq(compute(&l), hash);
    check_stats(&l);
    ck_assert(stat(&l, "total_loss_avg") != shown);
    for (int b = 0; b < ROWS; b++)
        use_of(&l).weight[b] = 0;
    ck_assert_uint_eq(compute(&l), hash);
    ck_assert(isnan(stat(&l, "accuracy_avg")) && isnan(stat(&l, "total_loss_avg")));
    learner_close(&l);
}

/* The rows pass through the net once more by themselves: in dense nets the result of a row does not
 * depend on other rows. */
TEST(gradients_are_those_of_the_used_rows)
{
    const int64_t used = 5;
    struct learner l;
    learner_open(&l, "bc");
    const struct hd_net *net = hd_params_get_net(&l.values[POLICY].spec);
    struct value *grad = &l.values[GRAD];
    fill(&l, 0, 9);
    use_rows(&l, used);
    compute(&l);
    float q[ROWS * ACTIONS], dq[ROWS * ACTIONS];
    float *wanted = hd_alloc(hd_net_count_params(net), sizeof *wanted);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, used));
    void *scratch = hd_alloc(1, (size_t)hd_net_get_backward_bytes(net, used));
    struct hd_cross_entropy_sums sums;
    hd_net_forward(net, l.values[POLICY].data, NULL, rows_of(&l).obs, used, work, q);
    const struct hd_cross_entropy loss = {used, ACTIONS, q, &rows_of(&l).action->choice,
                                          use_of(&l).weight};
    hd_cross_entropy_compute(&loss, dq, &sums);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        hd_net_backward(net, l.values[POLICY].data, used, used, work, dq, scratch, stage, wanted);
    for (int64_t i = 0; i < hd_net_count_params(net); i++) {
        const double sum = (double)hd_grad_get_partial(&grad->spec, grad->data, 0)[i] +
                           (double)hd_grad_get_partial(&grad->spec, grad->data, 1)[i];
        ck_assert_double_eq_tol(sum, wanted[i], 1e-6);
    }
    hd_free(wanted);
    hd_free(work);
    hd_free(scratch);
    learner_close(&l);
}

/* Values are no logits. */
TEST(other_nets_are_refused)
{
    struct learner l;
    struct hd_spec *specs[MAX_PORTS];
    void *args = NULL;
    learner_open(&l, "dqn");
    const struct hd_source_location location = {"graph.yaml", 1, 1};
    struct hd_node *map = hd_node_create_map(l.document, location);
    hd_node_put(l.document, map, "loss", hd_node_create_scalar(l.document, location, "bc"));
    l.ports[TARGET] = NULL;
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &l.setup, l.ports, specs);
    step.options = map;
    ck_assert_int_eq(hd_verb_loss_grad.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(l.setup.diag), 1);
    unprepare(&hd_verb_loss_grad, args);
    learner_close(&l);
}
