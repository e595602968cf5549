/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/howto/loss.md: its derivative against differences of the loss, rows that do
 * not count, and statistics. */
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/params.h"
#include "tests/howto/howto.h"
#include "tests/tasks/values.h"

#include <math.h>

enum { ROWS = 6, USED = 5, ACTIONS = 2 };

static double loss_at(struct hd_loss_pass *pass)
{
    double value, weight;
    hd_loss_bandit.differentiate(NULL, pass);
    return hd_loss_bandit.sum(NULL, &pass->header, 1, &value, &weight);
}

START_TEST(derivative_is_that_of_the_sum)
{
    static const char *const sets[] = {"policy.learn.batch_size=8", "policy.learn.microbatch=2"};
    struct hd_setup setup = setup_open(sets, 2);
    struct value policy, batch;
    value_open(&policy, &setup, &hd_type_params, "policy", NULL);
    value_open(&batch, &setup, &hd_type_batch, "batch", NULL);
    struct hd_transitions rows = hd_batch_get_rows(&batch.spec, batch.data);
    for (int i = 0; i < 8; i++) {
        rows.action[i] = i % ACTIONS;
        rows.reward[i] = 0.3f * (float)i - 1;
    }
    struct hd_view views[MAX_PORTS] = {[HD_LOSS_BATCH] = {.data = batch.data, .spec = &batch.spec}};
    float out[ROWS * ACTIONS], dout[ROWS * ACTIONS], expected[ROWS * ACTIONS];
    for (int i = 0; i < ROWS * ACTIONS; i++)
        out[i] = sinf((float)i);
    void *header = hd_alloc(1, (size_t)hd_loss_bandit.header_bytes);
    *(int64_t *)header = USED;
    struct hd_loss_pass pass = {.net = hd_params_get_net(&policy.spec),
                                .views = views,
                                .batch = 8,
                                .first = 2,
                                .rows = ROWS,
                                .header = header,
                                .out = out,
                                .dout = dout};
    ck_assert_int_eq(hd_loss_bandit.prepare(&setup, pass.net, ROWS, NULL), HD_OK);
    ck_assert_ptr_eq(hd_loss_bandit.obs(&pass),
                     (char *)rows.obs + 2 * hd_net_get_obs_bytes(pass.net));
    for (int i = 0; i < ROWS * ACTIONS; i++) {
        const float old = out[i], step = 1.0f / 64;
        out[i] = old + step;
        const double above = loss_at(&pass);
        out[i] = old - step;
        expected[i] = (float)((above - loss_at(&pass)) / (2 * step));
        out[i] = old;
    }
    loss_at(&pass);
    for (int i = 0; i < ROWS * ACTIONS; i++) {
        ck_assert_float_eq_tol(dout[i], expected[i], 1e-4f);
        if (i >= USED * ACTIONS)
            ck_assert_float_eq(dout[i], 0);
    }
    double value, weight;
    const double loss = hd_loss_bandit.sum(NULL, &header, 1, &value, &weight);
    ck_assert_double_eq_tol(value * USED, loss, 1e-12);
    ck_assert_double_eq(weight, USED);
    hd_free(header);
    value_close(&batch);
    value_close(&policy);
    setup_close(&setup);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loss");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, derivative_is_that_of_the_sum);
    suite_add_tcase(suite, tests);
    return run_checks(suite);
}
