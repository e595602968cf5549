/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons with references by a scaled residual, where NaN is infinitely far; memory that lives
 * as long as a test. One thread at a time. */
#pragma once

#include "runtime/base/alloc.h"
#include "tests/harness/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns |found - wanted| / scale; NaN gives infinity. */
static inline double residual(double found, double wanted, double scale)
{
    double r = fabs(found - wanted) / scale;
    return isnan(r) ? INFINITY : r;
}

/* The largest share of the tolerance that was found at one place of a test. With HD_RESIDUALS=FILE
 * in the environment every process of a test appends its places to FILE when it ends, and
 * violations at once, as lines of JSON: a table of tolerances. */
struct residual_site {
    const char *file;
    int line;
    char what[96];
    double residual, limit;
    int64_t checks;
    struct residual_site *next;
};

static struct residual_site *residual_sites;

static inline bool residuals_are_noted(void)
{
    static int noted = -1;
    if (noted < 0)
        noted = getenv("HD_RESIDUALS") != NULL;
    return noted;
}

/* JSON has no infinity. */
static inline void write_residual(const struct residual_site *site)
{
    FILE *file = fopen(getenv("HD_RESIDUALS"), "a");
    const char *slash = strrchr(site->file, '/');
    if (!file)
        return;
    fprintf(file,
            "{\"at\": \"%s:%d\", \"what\": \"%s\", \"residual\": %.3e, \"limit\": %.3e, "
            "\"checks\": %" PRId64 "}\n",
            slash ? slash + 1 : site->file, site->line, site->what, fmin(site->residual, 1e300),
            site->limit, site->checks);
    fclose(file);
}

static inline void write_residuals(void)
{
    for (; residual_sites; residual_sites = residual_sites->next)
        write_residual(residual_sites);
}

static inline void note_residual(struct residual_site *site, double found, double limit,
                                 const char *what)
{
    if (site->checks++ == 0) {
        if (!residual_sites)
            atexit(write_residuals);
        site->next = residual_sites;
        residual_sites = site;
    } else if (found * site->limit <= site->residual * limit) {
        return;
    }
    site->residual = found;
    site->limit = limit;
    snprintf(site->what, sizeof site->what, "%.95s", what);
    if (!(found <= limit))
        write_residual(site);
}

/* Notes a residual at a place that checks several things, distinguished by `what`. */
static inline void note_residual_of(const char *file, int line, double found, double limit,
                                    const char *what)
{
    struct residual_site *site = residual_sites;
    while (site && (site->line != line || strcmp(site->file, file) || strcmp(site->what, what)))
        site = site->next;
    if (!site && (site = calloc(1, sizeof *site)))
        *site = (struct residual_site){.file = file, .line = line};
    if (site)
        note_residual(site, found, limit, what);
}

/* Checks that a residual (not negative) is within its limit. */
#define CHECK_RESIDUAL(found, limit, what)                                                         \
    do {                                                                                           \
        const double found_ = (found), limit_ = (limit);                                           \
        if (residuals_are_noted())                                                                 \
            note_residual_of(__FILE__, __LINE__, found_, limit_, what);                            \
        ck_assert_msg(found_ <= limit_, "%s: residual %.2e, allowed %.1e", what, found_, limit_);  \
    } while (0)

#define CHECK_CLOSE(found, wanted, scale, limit, what)                                             \
    do {                                                                                           \
        static struct residual_site site_ = {.file = __FILE__, .line = __LINE__};                  \
        const double residual_ = residual(found, wanted, scale);                                   \
        if (residuals_are_noted())                                                                 \
            note_residual(&site_, residual_, limit, what);                                         \
        ck_assert_msg(residual_ <= (limit),                                                        \
                      "%s: found %.9g, wanted %.9g: residual %.2e of %.9g, allowed %.1e", what,    \
                      (double)(found), (double)(wanted), residual_, (double)(scale),               \
                      (double)(limit));                                                            \
    } while (0)

enum { TEST_BLOCKS = 256 };
static void *test_blocks[TEST_BLOCKS];
static int n_test_blocks;

/* Allocates like hd_alloc; the memory is released when the test ends. */
static inline void *test_alloc(int64_t count, size_t bytes)
{
    ck_assert_int_lt(n_test_blocks, TEST_BLOCKS);
    void *block = hd_alloc(count, bytes);
    ck_assert_ptr_nonnull(block);
    return test_blocks[n_test_blocks++] = block;
}

static inline void free_test_blocks(void)
{
    while (n_test_blocks > 0)
        hd_free(test_blocks[--n_test_blocks]);
}

FIXTURE(NULL, free_test_blocks)
