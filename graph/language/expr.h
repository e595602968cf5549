/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of graph files: `replay.size >= $policy.learn.batch_size and update > 0`.
 *
 *   or  and  not   == != < <= > >= (which do not chain)   + -   * /   unary -   ( )
 *   ceil(x)  floor(x)  min(a, b)  max(a, b)
 *   1.5e3         a number
 *   $a.b          a number of the configuration, a constant from then on
 *   name, x.size  a slot: a number that is read at each evaluation, or none
 *
 * Results are doubles; comparisons and logic give 0 or 1. Arithmetic with none, a division by zero
 * and what is not a number (NaN) are none; a comparison with none is false; and, or, not take none
 * for false. Constants are folded. One thread parses an expression; any thread may evaluate it. */
#pragma once

#include "runtime/base/config/diag.h"

#include <stdbool.h>

struct hd_expr;

/* Tells what names mean; asked once while parsing. For an unknown name the functions may store a
 * suggestion, which must last until the call returns to hd_expr_parse, in *nearest_p. */
struct hd_expr_names {
    bool (*config)(void *arg, const char *path, double *value_p, const char **nearest_p);
    int (*slot)(void *arg, const char *name, const char **nearest_p); /* >= 0, or -1: unknown */
    void *arg;
};

/* Parses `text`, whose first character stands at `location`. Mistakes go to diag and return
 * HD_ERR_INPUT: syntax, unknown names (all of them), a division by a constant zero, constants that
 * overflow, more than 64 levels of nesting or 1000 operands and operators. Returns HD_ERR_NOMEM
 * without memory. The expression is immutable; hd_expr_destroy (accepts NULL) releases it. */
int hd_expr_parse(const char *text, struct hd_source_location location,
                  const struct hd_expr_names *names, struct hd_diag *diag, struct hd_expr **expr_p);
void hd_expr_destroy(struct hd_expr *expr);

/* Stores the value and returns true, or returns false for none. read() does the same for a slot.
 * Thread safe. */
bool hd_expr_evaluate(const struct hd_expr *expr,
                      bool (*read)(void *arg, int slot, double *value_p), void *arg,
                      double *value_p);

/* Returns true, with the value, when the expression reads no slots. */
bool hd_expr_is_constant(const struct hd_expr *expr, double *value_p);

/* Returns how many different slots the expression reads, and stores them in *slots_p (borrowed) in
 * order of the text. */
int64_t hd_expr_get_slots(const struct hd_expr *expr, const int **slots_p);

/* Returns the first key of the configuration in the first of the alternatives, joined by `or`, that
 * holds; NULL: it has none. Borrowed. Arguments are those of hd_expr_evaluate. Thread safe. */
const char *hd_expr_find_key(const struct hd_expr *expr,
                             bool (*read)(void *arg, int slot, double *value_p), void *arg);

/* Writes the expression as text with few parentheses that parses to an equal one, constants folded;
 * slot_names is indexed by slot. */
void hd_expr_dump(const struct hd_expr *expr, const char *const *slot_names, FILE *file);
