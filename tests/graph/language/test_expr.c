/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of graph files: values with and without none, places of mistakes, canonical text. */
#include "graph/language/expr.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The slots: a = 3, b.size = 5, update = 0, evaluation.mean = none, x = NaN, huge. */
enum { A, B_SIZE, UPDATE, EVAL_MEAN, X, HUGE_SLOT, SLOTS };
static const char *const slot_names[SLOTS] = {"a", "b.size", "update", "evaluation.mean",
                                              "x", "huge"};

static bool read_slot(void *arg, int slot, double *value_p)
{
    static const double values[SLOTS] = {3, 5, 0, 0, NAN, 1e308};
    ck_assert_ptr_null(arg);
    ck_assert(slot >= 0 && slot < SLOTS);
    if (slot == EVAL_MEAN)
        return false;
    *value_p = values[slot];
    return true;
}

static bool find_config(void *arg, const char *path, double *value_p, const char **nearest_p)
{
    static const char *const paths[] = {"n", "policy.learn.batch_size", "zero"};
    static const double values[] = {7, 64, 0};
    ck_assert_ptr_eq(arg, slot_names);
    for (int i = 0; i < 3; i++)
        if (!strcmp(path, paths[i])) {
            *value_p = values[i];
            return true;
        }
    *nearest_p = hd_find_nearest_name(path, paths, 3);
    return false;
}

static int find_slot(void *arg, const char *name, const char **nearest_p)
{
    ck_assert_ptr_eq(arg, slot_names);
    for (int i = 0; i < SLOTS; i++)
        if (!strcmp(name, slot_names[i]))
            return i;
    *nearest_p = hd_find_nearest_name(name, slot_names, SLOTS);
    return -1;
}

static const struct hd_expr_names names = {find_config, find_slot, (void *)slot_names};
static struct hd_diag *diag;

static void setup(void)
{
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
}

static void teardown(void)
{
    hd_diag_destroy(diag);
}

static int try_parse(const char *text, struct hd_expr **expr_p)
{
    return hd_expr_parse(text, (struct hd_source_location){"g.yaml", 4, 10}, &names, diag, expr_p);
}

static struct hd_expr *parse(const char *text)
{
    struct hd_expr *expr = NULL;
    int status = try_parse(text, &expr);
    ck_assert_msg(status == HD_OK, "%s: %s", text, hd_diag_get_line(diag, 0));
    ck_assert_int_eq(hd_diag_count(diag), 0);
    return expr;
}

static char *dumped(const struct hd_expr *expr)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    hd_expr_dump(expr, slot_names, file);
    fclose(file);
    return text;
}

#define NONE NAN

static const struct {
    const char *text;
    double value; /* NONE: none */
    const char *dump;
} good[] = {
    {"1", 1, "1"},
    {"1.50", 1.5, "1.5"},
    {".5e1", 5, "5"},
    {"0.1", 0.1, "0.1"},
    {"1e300", 1e300, "1e+300"},
    {"a", 3, "a"},
    {"b.size", 5, "b.size"},
    {"$n", 7, "7"},
    {"$policy.learn.batch_size", 64, "64"},
    {"b.size>=$policy.learn.batch_size", 0, "b.size >= 64"},
    {"1 + 2 * 3 - 4 / 2", 5, "5"},
    {"(1 + 2) * 3", 9, "9"},
    {"a - b.size - 1", -3, "a - b.size - 1"},
    {"a - (b.size - 1)", -1, "a - (b.size - 1)"},
    {"b.size / a / 5", 5.0 / 3 / 5, "b.size / a / 5"},
    {"b.size / (a / 5)", 5 / (3 / 5.0), "b.size / (a / 5)"},
    {"(a + 1) * 2", 8, "(a + 1) * 2"},
    {"a + 1 * 2", 5, "a + 2"},
    {"-a", -3, "-a"},
    {"--a", 3, "--a"},
    {"-(a + 1)", -4, "-(a + 1)"},
    {"-a * 2", -6, "-a * 2"},
    {"-(a * 2)", -6, "-(a * 2)"},
    {"a*-2", -6, "a * -2"},
    {"a - -2", 5, "a - -2"},
    {"a < b.size", 1, "a < b.size"},
    {"a <= 3", 1, "a <= 3"},
    {"a > 3", 0, "a > 3"},
    {"a >= 3", 1, "a >= 3"},
    {"a == 3", 1, "a == 3"},
    {"a != 3", 0, "a != 3"},
    {"(a < 4) == (update < 1)", 1, "(a < 4) == (update < 1)"},
    {"a + 1 > b.size - 2", 1, "a + 1 > b.size - 2"},
    {"1 < 2", 1, "1"},
    {"2 and 3", 1, "1"},
    {"0 or 0", 0, "0"},
    {"not 0", 1, "1"},
    {"not a > 2", 0, "not a > 2"},
    {"not not a", 1, "not not a"},
    {"not (a and update)", 1, "not (a and update)"},
    {"not a and update", 0, "not a and update"},
    {"a or update and 0", 1, "a or update and 0"},
    {"(a or update) and 0", 0, "(a or update) and 0"},
    {"a == (not update)", 0, "a == (not update)"},
    {"ceil(a / 2)", 2, "ceil(a / 2)"},
    {"floor(-a / 2)", -2, "floor(-a / 2)"},
    {"min(a, b.size)", 3, "min(a, b.size)"},
    {"max(a, b.size) + min(1, 2)", 6, "max(a, b.size) + 1"},
    {"ceil(7 / 2)", 4, "4"},
    {"max(min(a, 2), update)", 2, "max(min(a, 2), update)"},
    {"ceil ( a )", 3, "ceil(a)"},
    {" a\n  and\t1 ", 1, "a and 1"},
    {"((((a))))", 3, "a"},
    /* none */
    {"evaluation.mean", NONE, "evaluation.mean"},
    {"evaluation.mean + 1", NONE, "evaluation.mean + 1"},
    {"-evaluation.mean", NONE, "-evaluation.mean"},
    {"min(evaluation.mean, 1)", NONE, "min(evaluation.mean, 1)"},
    {"ceil(evaluation.mean)", NONE, "ceil(evaluation.mean)"},
    {"evaluation.mean == evaluation.mean", 0, "evaluation.mean == evaluation.mean"},
    {"evaluation.mean != 1", 0, "evaluation.mean != 1"},
    {"evaluation.mean < 1", 0, "evaluation.mean < 1"},
    {"evaluation.mean >= 1", 0, "evaluation.mean >= 1"},
    {"not evaluation.mean >= 1", 1, "not evaluation.mean >= 1"},
    {"not evaluation.mean", 1, "not evaluation.mean"},
    {"evaluation.mean or a", 1, "evaluation.mean or a"},
    {"evaluation.mean and a", 0, "evaluation.mean and a"},
    {"evaluation.mean >= $n and update > 0", 0, "evaluation.mean >= 7 and update > 0"},
    {"a / update", NONE, "a / update"},
    {"a / update > 0", 0, "a / update > 0"},
    {"x", NONE, "x"},
    {"x == x or x != x", 0, "x == x or x != x"},
    {"huge * 10 > 1", 1, "huge * 10 > 1"},
    {"huge * 10 - huge * 10", NONE, "huge * 10 - huge * 10"},
    {"(a < 4) + (update < 1)", 2, "(a < 4) + (update < 1)"},
};

static void check_value(const struct hd_expr *expr, double expected)
{
    double value = 42;
    bool some = hd_expr_evaluate(expr, read_slot, NULL, &value);
    ck_assert_int_eq(some, !isnan(expected));
    ck_assert_double_eq(value, some ? expected : 42);
}

FIXTURE(setup, teardown)

TEST(test_good, .runs = COUNT(good))
{
    struct hd_expr *expr = parse(good[_i].text);
    check_value(expr, good[_i].value);
    char *text = dumped(expr);
    ck_assert_str_eq(text, good[_i].dump);
    const int *slots;
    double value;
    if (hd_expr_is_constant(expr, &value)) {
        ck_assert_double_eq(value, good[_i].value);
        ck_assert_int_eq(hd_expr_get_slots(expr, &slots), 0);
    } else {
        ck_assert_int_gt(hd_expr_get_slots(expr, &slots), 0);
    }
    struct hd_expr *again = parse(text);
    char *text_again = dumped(again);
    ck_assert_str_eq(text_again, text);
    check_value(again, good[_i].value);
    free(text_again);
    free(text);
    hd_expr_destroy(again);
    hd_expr_destroy(expr);
}

TEST(test_slots)
{
    const int *slots;
    struct hd_expr *expr = parse("update + a * update > evaluation.mean or a");
    ck_assert_int_eq(hd_expr_get_slots(expr, &slots), 3);
    ck_assert_int_eq(slots[0], UPDATE);
    ck_assert_int_eq(slots[1], A);
    ck_assert_int_eq(slots[2], EVAL_MEAN);
    hd_expr_destroy(expr);
    hd_expr_destroy(NULL);
}

static const struct {
    const char *text, *key;
} conditions[] = {
    {"a >= $n", "n"}, /* no alternatives: whether or not it holds */
    {"a > 5 or update >= $zero", "zero"},
    {"a >= $zero or update >= $n", "zero"},
    {"a > 5 or (a >= $n or a >= $policy.learn.batch_size)", "policy.learn.batch_size"},
    {"evaluation.mean >= $n or update >= $zero and a > 0", "zero"},
    {"a > 1 and $n - 4 <= a", "n"},
    {"a > 1 or a >= $n", NULL},
};

TEST(the_key_of_what_holds_is_found, .runs = COUNT(conditions))
{
    struct hd_expr *expr = parse(conditions[_i].text);
    const char *key = hd_expr_find_key(expr, read_slot, NULL);
    ck_assert_msg(conditions[_i].key ? key && strcmp(key, conditions[_i].key) == 0 : !key, "%s: %s",
                  conditions[_i].text, key ? key : "none");
    hd_expr_destroy(expr);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int column; /* from 1 within the text */
    const char *names;
} bad[] = {
    {"", 1, "a number|'('|ends"},
    {"  ", 3, "ends"},
    {"a +", 4, "a number|'('|ends"},
    {"a + * 2", 5, "a number|'('|found '*'"},
    {"(a", 3, "')'|ends"},
    {"a)", 2, "operator|found ')'"},
    {"()", 2, "found ')'"},
    {"a b.size", 3, "operator|found 'b.size'"},
    {"3x", 2, "operator|found 'x'"},
    {"0x10", 2, "operator|found 'x10'"},
    {"1e", 2, "operator|found 'e'"},
    {"1.2.3", 4, "operator|found '.3'"},
    {"1 < a < 5", 7, "'and'|'or'|found '<'"},
    {"a == a == a", 8, "'and'|'or'|found '=='"},
    {"a = 3", 3, "found '='|'=='"},
    {"a && 3", 3, "found '&&'|'and'"},
    {"a || 3", 3, "'or'"},
    {"!a", 1, "'not'"},
    {"a == not a", 6, "a number|'('|found 'not'"},
    {"and a", 1, "found 'and'"},
    {"a and", 6, "ends"},
    {"not", 4, "ends"},
    {"+a", 1, "found '+'"},
    {"a @ 2", 3, "operator|found '@'"},
    {"a \xC3\xA4 2", 3, "operator|found '\xC3\xA4'"},
    {"$", 1, "found '$'"},
    {"$ n", 1, "found '$'"},
    {"a.", 2, "operator|found '.'"},
    {"a..b", 2, "operator|found '.'"},
    {"$nn", 1, "configuration '$nn'|'n'?"},
    {"a > $policy.learn.batchsize", 5, "'policy.learn.batch_size'?"},
    {"$qqqqqqqq", 1, "configuration '$qqqqqqqq'"},
    {"1 + updte", 5, "name 'updte'|'update'?"},
    {"evaluation.meen > 1", 1, "name 'evaluation.meen'|'evaluation.mean'?"},
    {"qqqqqqqqq", 1, "name 'qqqqqqqqq'"},
    {"cel(a)", 1, "function 'cel'|'ceil'?"},
    {"1 + logarithm(a)", 5, "ceil, floor, min, max|'logarithm'"},
    {"ceil()", 6, "found ')'"},
    {"ceil(a, a)", 7, "')'|arguments|found ','"},
    {"min(a)", 6, "','|second argument|found ')'"},
    {"min(a, 1", 9, "')'|arguments|ends"},
    {"max(a, 1, 2)", 9, "')'|arguments|found ','"},
    {"a / 0", 3, "division by zero"},
    {"1 / (2 - 2)", 3, "division by zero"},
    {"a + 1 / $zero", 7, "division by zero"},
    {"1e999", 1, "finite number"},
    {"1 + 1e300 * 1e300", 11, "finite number"},
    {"\xC3\xA4", 1, "found '\xC3\xA4'"},
    {"(\xC3\xA4", 2, "found '\xC3\xA4'"},
    {"'a'", 1, "found '''"},
};

static void check_rejected(const char *text, int column, const char *told)
{
    struct hd_expr *expr = NULL;
    char place[32];
    snprintf(place, sizeof place, "g.yaml:4:%d: ", 9 + column);
    ck_assert_int_eq(try_parse(text, &expr), HD_ERR_INPUT);
    ck_assert_ptr_null(expr);
    ck_assert_int_eq(hd_diag_count(diag), 1);
    const char *line = hd_diag_get_line(diag, 0);
    ck_assert_msg(!strncmp(line, place, strlen(place)), "expected %s, got %s", place, line);
    check_names(line, told);
}

TEST(test_bad, .runs = COUNT(bad))
{
    check_rejected(bad[_i].text, bad[_i].column, bad[_i].names);
}

TEST(test_all_unknown_names_are_told)
{
    struct hd_expr *expr = NULL;
    ck_assert_int_eq(try_parse("updte / $zeroo > b.sizes", &expr), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 3);
    check_names(hd_diag_get_line(diag, 0), ":10: |'updte'");
    check_names(hd_diag_get_line(diag, 1), ":18: |'$zeroo'");
    check_names(hd_diag_get_line(diag, 2), ":27: |'b.sizes'");
}

static char *repeated(const char *piece, int n, const char *end)
{
    char *text = calloc(strlen(piece) * (size_t)n + strlen(end) + 1, 1), *c = text;
    for (int i = 0; i < n; i++)
        c = stpcpy(c, piece);
    strcpy(c, end);
    return text;
}

TEST(test_nesting_is_bounded, .runs = 3)
{
    static const struct {
        const char *piece, *end;
        int deepest, column;
    } cases[] = {{"-", "a", 64, 66}, {"not ", "a", 64, 261}, {"(", "a", 64, 66}};
    char *text = repeated(cases[_i].piece, cases[_i].deepest, cases[_i].end);
    struct hd_expr *expr = NULL;
    if (cases[_i].piece[0] == '(') { /* closed */
        char *closing = repeated(")", 64, ""), *whole = calloc(strlen(text) + 65, 1);
        strcat(strcat(whole, text), closing);
        hd_expr_destroy(parse(whole));
        free(whole);
        free(closing);
    } else {
        expr = parse(text);
        check_value(expr, cases[_i].piece[0] == '-' ? 3 : 1);
        hd_expr_destroy(expr);
    }
    free(text);
    text = repeated(cases[_i].piece, 1000000, cases[_i].end);
    check_rejected(text, cases[_i].column, "64 levels");
    free(text);
}

TEST(test_length_is_bounded)
{
    char *text = repeated("a + ", 499, "a"); /* 999 operands and operators */
    struct hd_expr *expr = parse(text);
    check_value(expr, 1500);
    hd_expr_destroy(expr);
    free(text);
    text = repeated("a + ", 1000000, "a");
    check_rejected(text, 4 * 500 - 1, "more than 1000 operands and operators");
    free(text);
}

static void drop_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

TEST(test_every_allocation_may_fail)
{
    hd_log_set_sink(drop_line, NULL);
    int status = HD_ERR_NOMEM, failures = 0;
    while (status == HD_ERR_NOMEM) {
        struct hd_expr *expr = NULL;
        hd_alloc_fail_nth(failures + 1);
        status = try_parse("a + b.size * update > $n and x < min(huge, a) - a", &expr);
        hd_alloc_fail_nth(0);
        ck_assert_int_eq(status == HD_OK, expr != NULL);
        hd_expr_destroy(expr);
        failures += status == HD_ERR_NOMEM;
    }
    ck_assert_int_eq(status, HD_OK);
    ck_assert_int_ge(failures, 8);
}

/* -- Random expressions against an evaluation that is written down beside them ----------------- */

struct random {
    uint32_t state;
    char *end; /* of the text so far */
};

static uint32_t draw(struct random *random, uint32_t n)
{
    random->state = random->state * 1664525u + 1013904223u;
    return (random->state >> 8) % n;
}

static double truth(double x)
{
    return !isnan(x) && x != 0;
}

/* Writes a random operand, in parentheses unless it is an atom; returns its value, NONE for none.
 */
static double generate(struct random *random, int depth)
{
    static const double slot_values[] = {3, 5, 0, NONE};
    static const char *const signs[] = {
        "+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "and", "or"};
    uint32_t choice = depth == 0 ? draw(random, 2) : draw(random, 8);
    if (choice == 0) {
        uint32_t number = draw(random, 9) + 1;
        random->end += sprintf(random->end, "%u", number);
        return number;
    }
    if (choice == 1) {
        uint32_t slot = draw(random, 4);
        random->end = stpcpy(random->end, slot_names[slot]);
        return slot_values[slot];
    }
    if (choice == 2) {
        bool negate = draw(random, 2);
        random->end = stpcpy(random->end, negate ? "(-" : "(not ");
        double x = generate(random, depth - 1);
        random->end = stpcpy(random->end, ")");
        return negate ? -x : !truth(x);
    }
    if (choice == 3) {
        bool min = draw(random, 2);
        random->end = stpcpy(random->end, min ? "min(" : "max(");
        double x = generate(random, depth - 1);
        random->end = stpcpy(random->end, ", ");
        double y = generate(random, depth - 1);
        random->end = stpcpy(random->end, ")");
        return isnan(x) || isnan(y) ? NONE : min ? fmin(x, y) : fmax(x, y);
    }
    uint32_t sign = draw(random, 12);
    random->end = stpcpy(random->end, "(");
    double x = generate(random, depth - 1);
    random->end += sprintf(random->end, " %s ", signs[sign]);
    /* Division by a constant zero would be a mistake: divide by slots only. */
    double y = generate(random, sign == 3 ? 0 : depth - 1);
    random->end = stpcpy(random->end, ")");
    switch (sign) {
    case 0:
        return x + y;
    case 1:
        return x - y;
    case 2:
        return x * y;
    case 3:
        return y == 0 ? NONE : x / y;
    case 4:
        return x < y;
    case 5:
        return x <= y;
    case 6:
        return x > y;
    case 7:
        return x >= y;
    case 8:
        return x == y;
    case 9:
        return !isnan(x) && !isnan(y) && x != y;
    case 10:
        return truth(x) && truth(y);
    default:
        return truth(x) || truth(y);
    }
}

TEST(test_random)
{
    for (uint32_t seed = 0; seed < 5000; seed++) {
        char text[8192] = "";
        struct random random = {seed * 7919u + 1, text};
        double expected = generate(&random, 5);
        struct hd_expr *expr = parse(text);
        check_value(expr, expected);
        char *dump = dumped(expr);
        struct hd_expr *again = parse(dump);
        check_value(again, expected);
        char *dump_again = dumped(again);
        ck_assert_str_eq(dump_again, dump);
        free(dump_again);
        free(dump);
        hd_expr_destroy(again);
        hd_expr_destroy(expr);
    }
}
