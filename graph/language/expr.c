/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions and writes them as text. */
#include "graph/language/expr_internal.h"
#include "runtime/base/alloc.h"

#include <stdlib.h>

const struct op_form hd_expr_ops[] = {
    [OP_NUMBER] = {"", LEVEL_ATOM, 0},   [OP_SLOT] = {"", LEVEL_ATOM, 0},
    [OP_OR] = {"or", LEVEL_OR, 2},       [OP_AND] = {"and", LEVEL_AND, 2},
    [OP_NOT] = {"not", LEVEL_NOT, 1},    [OP_EQ] = {"==", LEVEL_COMPARE, 2},
    [OP_NE] = {"!=", LEVEL_COMPARE, 2},  [OP_LT] = {"<", LEVEL_COMPARE, 2},
    [OP_LE] = {"<=", LEVEL_COMPARE, 2},  [OP_GT] = {">", LEVEL_COMPARE, 2},
    [OP_GE] = {">=", LEVEL_COMPARE, 2},  [OP_ADD] = {"+", LEVEL_SUM, 2},
    [OP_SUB] = {"-", LEVEL_SUM, 2},      [OP_MUL] = {"*", LEVEL_PRODUCT, 2},
    [OP_DIV] = {"/", LEVEL_PRODUCT, 2},  [OP_NEGATE] = {"-", LEVEL_UNARY, 1},
    [OP_CEIL] = {"ceil", LEVEL_ATOM, 1}, [OP_FLOOR] = {"floor", LEVEL_ATOM, 1},
    [OP_MIN] = {"min", LEVEL_ATOM, 2},   [OP_MAX] = {"max", LEVEL_ATOM, 2},
};

void hd_expr_destroy(struct hd_expr *expr)
{
    if (!expr)
        return;
    hd_free(expr->terms);
    hd_free(expr->slots);
    for (int64_t i = 0; i < expr->key_count; i++)
        hd_free(expr->keys[i]);
    hd_free(expr->keys);
    hd_free(expr);
}

/* -- Evaluation -------------------------------------------------------------------------------- */

static bool is_true(struct result result)
{
    return result.valid && result.number != 0;
}

struct result hd_expr_compute(enum op op, struct result a, struct result b)
{
    const struct result none = {0};
    bool both = a.valid && b.valid;
    double x = a.number, y = b.number;
    switch (op) {
    case OP_OR:
        return make_result(is_true(a) || is_true(b));
    case OP_AND:
        return make_result(is_true(a) && is_true(b));
    case OP_NOT:
        return make_result(!is_true(a));
    case OP_EQ:
        return make_result(both && x == y);
    case OP_NE:
        return make_result(both && x != y);
    case OP_LT:
        return make_result(both && x < y);
    case OP_LE:
        return make_result(both && x <= y);
    case OP_GT:
        return make_result(both && x > y);
    case OP_GE:
        return make_result(both && x >= y);
    case OP_NEGATE:
        return a.valid ? make_result(-x) : none;
    case OP_CEIL:
        return a.valid ? make_result(ceil(x)) : none;
    case OP_FLOOR:
        return a.valid ? make_result(floor(x)) : none;
    case OP_ADD:
        return both ? make_result(x + y) : none;
    case OP_SUB:
        return both ? make_result(x - y) : none;
    case OP_MUL:
        return both ? make_result(x * y) : none;
    case OP_DIV:
        return both && y != 0 ? make_result(x / y) : none;
    case OP_MIN:
        return both ? make_result(y < x ? y : x) : none;
    case OP_MAX:
        return both ? make_result(y > x ? y : x) : none;
    case OP_NUMBER:
    case OP_SLOT:
        break;
    }
    return none;
}

static struct result eval(const struct hd_expr *expr, int index,
                          bool (*read)(void *, int, double *), void *arg)
{
    const struct term *term = &expr->terms[index];
    struct result operands[2] = {{0}};
    double value = 0;
    if (term->op == OP_NUMBER)
        return make_result(term->number);
    if (term->op == OP_SLOT)
        return read(arg, term->slot, &value) ? make_result(value) : operands[0];
    for (int i = 0; i < hd_expr_ops[term->op].operands; i++)
        operands[i] = eval(expr, term->operands[i], read, arg);
    return hd_expr_compute(term->op, operands[0], operands[1]);
}

bool hd_expr_evaluate(const struct hd_expr *expr,
                      bool (*read)(void *arg, int slot, double *value_p), void *arg,
                      double *value_p)
{
    struct result result = eval(expr, expr->root, read, arg);
    if (result.valid)
        *value_p = result.number;
    return result.valid;
}

static const char *find_first_key(const struct hd_expr *expr, int index)
{
    const struct term *term = &expr->terms[index];
    const char *key = NULL;
    if (term->op == OP_NUMBER)
        return term->key == NO_KEY ? NULL : expr->keys[term->key];
    for (int i = 0; !key && i < hd_expr_ops[term->op].operands; i++)
        key = find_first_key(expr, term->operands[i]);
    return key;
}

const char *hd_expr_find_key(const struct hd_expr *expr,
                             bool (*read)(void *arg, int slot, double *value_p), void *arg)
{
    int index = expr->root;
    while (expr->terms[index].op == OP_OR) {
        const int *operands = expr->terms[index].operands;
        index = operands[is_true(eval(expr, operands[0], read, arg)) ? 0 : 1];
    }
    return find_first_key(expr, index);
}

bool hd_expr_is_constant(const struct hd_expr *expr, double *value_p)
{
    const struct term *root = &expr->terms[expr->root];
    if (root->op != OP_NUMBER)
        return false;
    *value_p = root->number;
    return true;
}

int64_t hd_expr_get_slots(const struct hd_expr *expr, const int **slots_p)
{
    *slots_p = expr->slots;
    return expr->slot_count;
}

/* -- Text -------------------------------------------------------------------------------------- */

/* Writes the shortest of the spellings that keep all bits. */
static void dump_number(double number, FILE *file)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    fputs(text, file);
}

/* Writes a term where one that binds at least as tightly as `level` fits. */
static void dump(const struct hd_expr *expr, int index, enum level level,
                 const char *const *slot_names, FILE *file)
{
    const struct term *term = &expr->terms[index];
    enum level op_level = hd_expr_ops[term->op].level;
    const int *operands = term->operands;
    if (term->op == OP_NUMBER) {
        dump_number(term->number, file);
    } else if (term->op == OP_SLOT) {
        fputs(slot_names[term->slot], file);
    } else if (op_level < level) {
        putc('(', file);
        dump(expr, index, LEVEL_OR, slot_names, file);
        putc(')', file);
    } else if (op_level == LEVEL_ATOM) {
        fprintf(file, "%s(", hd_expr_ops[term->op].text);
        for (int i = 0; i < hd_expr_ops[term->op].operands; i++) {
            fputs(i ? ", " : "", file);
            dump(expr, operands[i], LEVEL_OR, slot_names, file);
        }
        putc(')', file);
    } else if (hd_expr_ops[term->op].operands == 1) {
        fputs(term->op == OP_NOT ? "not " : "-", file);
        dump(expr, operands[0], op_level, slot_names, file);
    } else {
        /* Operators of a level group from the left; comparisons do not group at all. */
        dump(expr, operands[0], op_level + (op_level == LEVEL_COMPARE), slot_names, file);
        fprintf(file, " %s ", hd_expr_ops[term->op].text);
        dump(expr, operands[1], op_level + 1, slot_names, file);
    }
}

void hd_expr_dump(const struct hd_expr *expr, const char *const *slot_names, FILE *file)
{
    dump(expr, expr->root, LEVEL_OR, slot_names, file);
}
