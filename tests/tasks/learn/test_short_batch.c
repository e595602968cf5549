/* SPDX-License-Identifier: Apache-2.0 */
/* Losses on batches of which not all rows are used or have weight: rows that are not used are not
 * learned from; rows without weight are learned from but left out of statistics. Behaviour cloning
 * is compared with its definition. */
#include "kernels/learn/losses/cross_entropy.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/grad.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { ROWS = 8, MICRO = 4, PARTIALS = ROWS / MICRO, OBS = 4, ACTIONS = 2 };

static const struct step bc = {&hd_verb_loss_grad, "stats", "{loss: bc}"},
                         dqn = {&hd_verb_loss_grad, "target stats", "{loss: dqn}"},
                         *const losses[] = {&bc, &dqn};

static struct world *open_learner(const struct step *loss)
{
    struct world *w = world_make(0, 2);
    world_set(w,
              "policy.type=%s; policy.learn.batch_size=8; policy.learn.microbatch=4; "
              "policy.learn.learning_rate=0.5",
              loss == &bc ? "bc" : "dqn");
    world_declare(w, (struct hd_spec){.name = "batch", .type = &hd_type_batch}, NULL);
    world_open(w, loss, NULL);
    ck_assert_int_eq(world_get(w, "grad")->spec.partials, PARTIALS);
    return w;
}

static struct hd_transitions rows_of(const struct world *w)
{
    return hd_batch_get_rows(INSTANCE(w, "batch"));
}

static struct hd_batch_use use_of(const struct world *w)
{
    return hd_batch_get_use(INSTANCE(w, "batch"));
}

/* Draws of stream `stream` in the rows from `first` on. */
static void fill(struct world *w, int64_t first, uint64_t stream)
{
    struct hd_transitions rows = rows_of(w);
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

static void use_rows(struct world *w, int64_t used)
{
    struct hd_batch_use use = use_of(w);
    *use.used = used;
    for (int64_t b = 0; b < ROWS; b++)
        use.weight[b] = b < used ? 1 : 0;
}

static uint64_t compute(struct world *w, const struct step *loss)
{
    value_clear(world_get(w, "stats"));
    world_run(w, loss, 0);
    return value_hash(world_get(w, "grad"));
}

static double stat(const struct world *w, const char *name)
{
    return world_field(w, "stats", name);
}

TEST(rows_that_are_not_used_change_nothing, .runs = 2)
{
    for (int64_t used = 0; used <= ROWS; used++) {
        struct world *w = open_learner(losses[_i]);
        fill(w, 0, 5);
        use_rows(w, used);
        uint64_t hash = compute(w, losses[_i]);
        for (int64_t partial = 0; partial < PARTIALS; partial++) {
            int64_t rows = used - partial * MICRO;
            rows = rows < 0 ? 0 : rows < MICRO ? rows : MICRO;
            ck_assert(hd_grad_get_counts(INSTANCE(w, "grad"), partial)[0] == (float)rows);
            const float *floats = hd_grad_get_partial(INSTANCE(w, "grad"), partial);
            double norm = 0;
            for (int64_t i = 0; i < world_get(w, "grad")->spec.elements; i++)
                norm += fabs((double)floats[i]);
            ck_assert_msg((norm > 0) == (rows > 0), "norm %g of %lld rows", norm, (long long)rows);
        }
        const double loss = stat(w, "total_loss_avg");
        ck_assert(used > 0 ? isfinite(loss) : isnan(loss));
        ck_assert(used > 0 ? stat(w, "cur_lr_avg") == .5 : isnan(stat(w, "cur_lr_avg")));
        fill(w, used, 6);
        ck_assert_uint_eq(compute(w, losses[_i]), hash);
        ck_assert(used == 0 || stat(w, "total_loss_avg") == loss);
        fill(w, used - (used > 0), 7);
        ck_assert_int_eq(compute(w, losses[_i]) == hash, used == 0);
    }
}

/* -- Behaviour cloning ------------------------------------------------------------------------- */

/* Computes statistics from the net's outputs, in double. */
static void check_stats(struct world *w)
{
    const struct hd_transitions rows = rows_of(w);
    const struct hd_batch_use use = use_of(w);
    double loss = 0, hits = 0, weight = 0;
    float q[ROWS][ACTIONS];
    world_forward(w, "policy", NULL, rows.obs, ROWS, q[0]);
    for (int64_t b = 0; b < *use.used; b++) {
        const double other = q[b][1 - rows.action[b].choice], taken = q[b][rows.action[b].choice];
        const double share = use.weight[b];
        loss += share * log1p(exp(other - taken));
        hits += share * (taken > other);
        weight += share;
    }
    ck_assert_double_eq_tol(stat(w, "total_loss_avg"), loss / weight, 1e-6);
    ck_assert_double_eq_tol(stat(w, "accuracy_avg"), hits / weight, 1e-12);
}

TEST(padding_is_learned_from_but_not_shown)
{
    struct world *w = open_learner(&bc);
    fill(w, 0, 8);
    use_rows(w, 7);
    uint64_t hash = compute(w, &bc);
    check_stats(w);
    const double shown = stat(w, "total_loss_avg");
    use_of(w).weight[2] = use_of(w).weight[6] = 0;
    ck_assert_uint_eq(compute(w, &bc), hash);
    check_stats(w);
    ck_assert(stat(w, "total_loss_avg") != shown);
    for (int b = 0; b < ROWS; b++)
        use_of(w).weight[b] = 0;
    ck_assert_uint_eq(compute(w, &bc), hash);
    ck_assert(isnan(stat(w, "accuracy_avg")) && isnan(stat(w, "total_loss_avg")));
}

/* The rows pass through the net once more by themselves: in dense nets the result of a row does not
 * depend on other rows. */
TEST(gradients_are_those_of_the_used_rows)
{
    const int64_t used = 5;
    struct world *w = open_learner(&bc);
    const struct hd_net *net = world_net(w, "policy");
    const void *params = world_get(w, "policy")->data;
    fill(w, 0, 9);
    use_rows(w, used);
    compute(w, &bc);
    float q[ROWS * ACTIONS], dq[ROWS * ACTIONS];
    float *wanted = hd_alloc(hd_net_count_params(net), sizeof *wanted);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, used, 1));
    void *scratch = hd_alloc(1, (size_t)hd_net_get_backward_bytes(net, used, 1));
    struct hd_cross_entropy_sums sums;
    forward_rows(net, params, NULL, rows_of(w).obs, used, work, q);
    const struct hd_cross_entropy loss = {used, ACTIONS, q, &rows_of(w).action->choice,
                                          use_of(w).weight};
    hd_cross_entropy_compute(&loss, dq, &sums);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        hd_net_backward(net, params, used, used, work, dq, scratch, stage, wanted);
    for (int64_t i = 0; i < hd_net_count_params(net); i++) {
        const double sum = (double)hd_grad_get_partial(INSTANCE(w, "grad"), 0)[i] +
                           (double)hd_grad_get_partial(INSTANCE(w, "grad"), 1)[i];
        ck_assert_double_eq_tol(sum, wanted[i], 1e-6);
    }
    hd_free(wanted);
    hd_free(work);
    hd_free(scratch);
}

/* Values are no logits. */
TEST(other_nets_are_refused)
{
    struct world *w = open_learner(&dqn);
    world_mistake(w, &bc);
    ck_assert_int_eq(hd_diag_count(w->setup.diag), 1);
}
