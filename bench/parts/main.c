/* SPDX-License-Identifier: Apache-2.0 */
/* bench_parts PART [ARGUMENT ...]: measures one part of the program; bench/cases.txt has examples.
 */
#include "bench/parts/parts.h"
#include "runtime/base/status.h"
#include "runtime/base/subnormal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    const struct hd_bench_part *part;
} parts[] = {
#define PART(name) {#name, &hd_part_##name},
#include "bench/parts/list.def"
#undef PART
};

enum { N_PARTS = sizeof parts / sizeof *parts };

void hd_part_report(const char *name, double value, const char *unit)
{
    printf("{");
    if (name)
        printf("\"name\": \"%s\", ", name);
    printf("\"value\": %.6g, \"unit\": \"%s\"}\n", value, unit);
}

static int64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t time_calls(void (*run)(void *arg), void *arg, int64_t calls)
{
    int64_t begin = thread_ns();
    for (int64_t i = 0; i < calls; i++)
        run(arg);
    return thread_ns() - begin;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hd_part_measure_seconds(void (*run)(void *arg), void *arg)
{
    enum { ROUNDS = 9 };
    const int64_t round_ns = 50000000;
    double seconds[ROUNDS];
    int64_t calls = 1, ns;
    while ((ns = time_calls(run, arg, calls)) < round_ns / 2)
        calls *= 2;
    calls = calls * round_ns / ns + 1;
    for (int i = 0; i < ROUNDS; i++)
        seconds[i] = (double)time_calls(run, arg, calls) * 1e-9 / (double)calls;
    qsort(seconds, ROUNDS, sizeof *seconds, compare);
    return seconds[ROUNDS / 2];
}

int64_t hd_part_parse_number(int argc, char **argv, int index, int64_t fallback)
{
    if (index >= argc)
        return fallback;
    char *end;
    long long number = strtoll(argv[index], &end, 10);
    return *end == '\0' && number > 0 ? number : 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_parts PART [ARGUMENT ...]\n");
    for (int i = 0; i < N_PARTS; i++)
        fprintf(stderr, "  %s %s\n      %s\n", parts[i].name, parts[i].part->arguments,
                parts[i].part->help);
    return HD_ERR_INPUT;
}

int main(int argc, char **argv)
{
    int status = HD_ERR_INPUT;
    hd_subnormals_flush(); /* as in the program runner */
    for (int i = 0; argc > 1 && i < N_PARTS; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            status = parts[i].part->measure(argc - 2, argv + 2);
    if (status == HD_ERR_INPUT)
        usage();
    return hd_status_get_exit_code(status);
}
