/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any text as an expression: what parses has a value or none, and its formatted text parses
 * to the same. */
#include "graph/language/expr.h"
#include "runtime/base/status.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const slots[] = {"a", "b", "x.size", "replay.size", "update"};
enum { N_SLOTS = sizeof slots / sizeof *slots };

static bool config(void *arg, const char *path, double *value_p, const char **nearest_p)
{
    (void)arg;
    *nearest_p = "c.one";
    *value_p = strcmp(path, "c.one") == 0 ? 1 : strcmp(path, "c.big") == 0 ? 1e300 : 0;
    return strncmp(path, "c.", 2) == 0;
}

static int slot(void *arg, const char *name, const char **nearest_p)
{
    (void)arg;
    for (int i = 0; i < N_SLOTS; i++)
        if (strcmp(slots[i], name) == 0)
            return i;
    *nearest_p = slots[0];
    return -1;
}

/* The last slot has no value. */
static bool read_slot(void *arg, int number, double *value_p)
{
    const double *values = arg;
    *value_p = values[number % N_SLOTS];
    return number != N_SLOTS - 1;
}

static struct hd_expr *parse(const char *text)
{
    const struct hd_expr_names names = {config, slot, NULL};
    struct hd_diag *diag;
    struct hd_expr *expr = NULL;
    fuzz_check(hd_diag_create(&diag) == HD_OK, "a diag");
    int status = hd_expr_parse(text, (struct hd_source_location){"f", 1, 1}, &names, diag, &expr);
    fuzz_check((status == HD_OK) == (hd_diag_count(diag) == 0), "an error has a reason");
    hd_diag_destroy(diag);
    return status == HD_OK ? expr : NULL;
}

static char *dump(const struct hd_expr *expr)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    hd_expr_dump(expr, slots, file);
    fclose(file);
    return text;
}

static void compare(const struct hd_expr *a, const struct hd_expr *b)
{
    static double values[][N_SLOTS] = {
        {0, 0, 0, 0, 0}, {1, -2, 3.5, 1e9, 0}, {-0.0, 1e308, 7, 1, 0}};
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) {
        double left = 0, right = 0;
        bool some = hd_expr_evaluate(a, read_slot, values[i], &left);
        fuzz_check(some == hd_expr_evaluate(b, read_slot, values[i], &right), "none is none");
        fuzz_check(!some || left == right, "the same value");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    struct hd_expr *expr = parse(text);
    if (expr) {
        char *written = dump(expr);
        struct hd_expr *again = parse(written);
        fuzz_check(again != NULL, "what is written parses");
        compare(expr, again);
        char *twice = dump(again);
        fuzz_check(strcmp(written, twice) == 0, "to the same text");
        free(twice);
        free(written);
        hd_expr_destroy(again);
        hd_expr_destroy(expr);
    }
    free(text);
    return 0;
}
