/* SPDX-License-Identifier: Apache-2.0 */
/* n-step transitions: the numbers of docs/di-engine.md 9.4, and fragments of many lengths against a
 * naive version that walks step by step. */
#include "kernels/replay/nstep.h"
#include "runtime/base/alloc.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 2, MAX_LENGTH = 9, FRAME = 1000, AGE = 20, ENV = 3 };

struct steps {
    float reward[MAX_LENGTH];
    union hd_action_number action[MAX_LENGTH][DIMS];
};

/* Reward i is i + 1; action i is 10 + i and 90 - i. */
static struct steps make_steps(void)
{
    struct steps steps;
    for (int i = 0; i < MAX_LENGTH; i++) {
        steps.reward[i] = (float)(i + 1);
        steps.action[i][0].choice = 10 + i;
        steps.action[i][1].choice = 90 - i;
    }
    return steps;
}

static struct hd_fragment make_fragment(const struct steps *steps, int64_t length, bool done)
{
    return (struct hd_fragment){.length = length,
                                .frame = FRAME,
                                .age = AGE,
                                .env = ENV,
                                .dims = DIMS,
                                .action = steps->action[0],
                                .reward = steps->reward,
                                .done = done};
}

/* Returns a block for `n` transitions with arbitrary content. */
static void *make_block(int64_t n, int64_t nstep)
{
    size_t bytes = (size_t)(n * hd_transition_get_bytes(nstep, DIMS));
    return memset(hd_alloc(1, bytes), 0xFF, bytes);
}

static void check_action(const struct hd_transition *transition, int64_t nstep, int64_t i)
{
    const union hd_action_number *action = hd_transition_get_action(transition, nstep);
    ck_assert_int_eq(action[0].choice, 10 + i);
    ck_assert_int_eq(action[1].choice, 90 - i);
}

TEST(test_spec_numbers)
{
    static const float reward[6][3] = {{1, 2, 3}, {2, 3, 4}, {3, 4, 5},
                                       {4, 5, 6}, {5, 6, 0}, {6, 0, 0}};
    static const int next[6] = {3, 4, 5, 6, 6, 6};
    static const float gammas[6] = {.970299f, .970299f, .970299f, .9801f, .99f, 1};
    struct steps steps = make_steps();
    struct hd_fragment fragment = make_fragment(&steps, 6, true);
    void *block = make_block(6, 3);
    hd_nstep_assemble(&fragment, .99, HD_NSTEP_DI_ENGINE, 3, 6, block);
    for (int i = 0; i < 6; i++) {
        const struct hd_transition *transition = hd_transition_get(block, 3, DIMS, i);
        for (int j = 0; j < 3; j++)
            ck_assert_float_eq(transition->reward[j], reward[i][j]);
        ck_assert_int_eq(transition->frame, FRAME + i);
        ck_assert_int_eq(transition->frame + transition->ahead, FRAME + next[i]);
        ck_assert_float_eq(transition->value_gamma, gammas[i]);
        ck_assert_float_eq(transition->done, i >= 3);
    }
    hd_free(block);
}

TEST(test_shorter_than_n)
{
    struct steps steps = make_steps();
    struct hd_fragment fragment = make_fragment(&steps, 2, false);
    void *block = make_block(2, 3);
    const struct hd_transition *first = hd_transition_get(block, 3, DIMS, 0);
    const struct hd_transition *second = hd_transition_get(block, 3, DIMS, 1);
    hd_nstep_assemble(&fragment, .99, HD_NSTEP_DI_ENGINE, 3, 2, block);
    ck_assert_float_eq(first->value_gamma, .99f);
    ck_assert_float_eq(second->value_gamma, 1);
    hd_nstep_assemble(&fragment, .99, HD_NSTEP_CORRECTED, 3, 2, block);
    ck_assert_float_eq(first->value_gamma, .9801f);
    ck_assert_float_eq(second->value_gamma, .99f);
    hd_free(block);
}

/* n = 1: a fragment's own steps, with no bootstrap factor whatever the tail. */
TEST(test_one_step)
{
    struct steps steps = make_steps();
    struct hd_fragment fragment = make_fragment(&steps, 4, true);
    void *block = make_block(4, 1);
    hd_nstep_assemble(&fragment, .97, HD_NSTEP_DI_ENGINE, 1, 4, block);
    for (int i = 0; i < 4; i++) {
        const struct hd_transition *transition = hd_transition_get(block, 1, DIMS, i);
        ck_assert_int_eq(transition->frame, FRAME + i);
        ck_assert_int_eq(transition->ahead, 1);
        ck_assert_float_eq(transition->reward[0], (float)(i + 1));
        check_action(transition, 1, i);
        ck_assert_float_eq(transition->done, i == 3);
        ck_assert_float_eq(transition->value_gamma, 0);
    }
    hd_free(block);
}

struct sample {
    double reward[MAX_LENGTH + 2], done, gamma;
    int64_t next;
};

/* Walks on from step i until n rewards are taken or the fragment ends. */
static struct sample naive(const struct hd_fragment *fragment, int64_t i, int64_t n, double gamma,
                           enum hd_nstep_tail tail)
{
    struct sample sample = {.gamma = 1};
    int64_t at = i;
    for (; at < fragment->length && at - i < n; at++) {
        sample.reward[at - i] = (double)fragment->reward[at];
        sample.gamma *= gamma;
    }
    sample.next = at;
    if (at == fragment->length) {
        sample.done = fragment->done;
        if (tail == HD_NSTEP_DI_ENGINE)
            sample.gamma /= gamma;
    }
    return sample;
}

static void check_fragment(int64_t length, int64_t n, int64_t count, bool done,
                           enum hd_nstep_tail tail)
{
    struct steps steps = make_steps();
    struct hd_fragment fragment = make_fragment(&steps, length, done);
    void *block = make_block(MAX_LENGTH + 1, n), *again = make_block(MAX_LENGTH + 1, n);
    memset(again, 0, (size_t)((MAX_LENGTH + 1) * hd_transition_get_bytes(n, DIMS)));
    hd_nstep_assemble(&fragment, .9, tail, n, count, block);
    hd_nstep_assemble(&fragment, .9, tail, n, count, again);
    /* No byte depends on the old content, and bytes after the transitions stay unchanged. */
    size_t written = (size_t)(count * hd_transition_get_bytes(n, DIMS));
    ck_assert_mem_eq(block, again, written);
    for (size_t i = written; i < (size_t)((MAX_LENGTH + 1) * hd_transition_get_bytes(n, DIMS)); i++)
        ck_assert_uint_eq(((unsigned char *)block)[i], 0xFF);
    for (int64_t i = 0; i < count; i++) {
        const struct hd_transition *transition = hd_transition_get(block, n, DIMS, i);
        struct sample sample = naive(&fragment, i, n, .9, tail);
        for (int64_t j = 0; j < n; j++)
            ck_assert_double_eq((double)transition->reward[j], sample.reward[j]);
        ck_assert_int_eq(transition->env, ENV);
        ck_assert_int_eq(transition->frame, FRAME + i);
        ck_assert_int_eq(transition->age, AGE + i);
        ck_assert_int_eq(transition->frame + transition->ahead, FRAME + sample.next);
        ck_assert_double_eq((double)transition->done, sample.done);
        check_action(transition, n, i);
        if (n > 1)
            ck_assert_double_eq_tol((double)transition->value_gamma, sample.gamma, 1e-7);
    }
    hd_free(block);
    hd_free(again);
}

TEST(test_naive)
{
    for (int64_t length = 1; length <= MAX_LENGTH; length++)
        for (int64_t n = 1; n <= MAX_LENGTH + 2; n++)
            for (int options = 0; options < 8; options++)
                check_fragment(length, n, options & 4 ? length : length / 2, options & 1,
                               options & 2 ? HD_NSTEP_DI_ENGINE : HD_NSTEP_CORRECTED);
}
