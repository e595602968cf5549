/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by expr.c and expr_parse.c: the terms of an expression and its operators. Expressions are
 * written by the thread that parses and read by any. */
#pragma once

#include "graph/language/expr.h"

#include <math.h>

/* The order is how tightly operators bind, loosest first. */
enum level {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_UNARY,
    LEVEL_ATOM
};

enum op {
    OP_NUMBER,
    OP_SLOT,
    OP_OR,
    OP_AND,
    OP_NOT,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_NEGATE,
    OP_CEIL,
    OP_FLOOR,
    OP_MIN,
    OP_MAX
};

/* An operator: how it is written, how tightly it binds, and its number of operands. */
struct op_form {
    const char *text;
    enum level level;
    int operands;
};

extern const struct op_form hd_expr_ops[];

enum { NO_KEY = -1 };

struct term {
    enum op op;
    double number;   /* OP_NUMBER */
    int key;         /* of it, if it is the configuration's: index of its name; else NO_KEY */
    int slot;        /* OP_SLOT */
    int operands[2]; /* indices of terms */
};

struct hd_expr {
    struct term *terms;
    int64_t count, capacity;
    int root;
    int *slots;
    int64_t slot_count, slot_capacity;
    char **keys; /* names of the configuration's numbers */
    int64_t key_count, key_capacity;
};

/* The value is a number or none. */
struct result {
    bool valid;
    double number;
};

static inline struct result make_result(double number)
{
    return (struct result){!isnan(number), number};
}

/* Returns the result of an operator on values; operands that it does not have are ignored. */
struct result hd_expr_compute(enum op op, struct result a, struct result b);
