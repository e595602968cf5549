/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench_parts. A part is a file here, a line in list.def and lines in
 * bench/cases.txt; it measures one thing once and reports it. One thread at a time. */
#pragma once

#include <stdint.h>

struct hd_bench_part {
    const char *arguments; /* shown in the usage line */
    const char *help;
    /* Measures with the arguments argv[0..argc). Returns HD_OK or an error; HD_ERR_INPUT, without a
     * message, prints the usage. */
    int (*measure)(int argc, char **argv);
};

#define PART(name) extern const struct hd_bench_part hd_part_##name;
#include "bench/parts/list.def"
#undef PART

/* Prints one result as a line of JSON: {"name": …, "value": …, "unit": …}. `name` distinguishes the
 * results of one part; it is NULL if there is only one. */
void hd_part_report(const char *name, double value, const char *unit);

/* Returns the seconds of CPU time that one call of run(arg) takes on this thread, so that other
 * load on the machine matters little: the median of several measurements, each of as many calls as
 * last about 50 ms, after calls to warm up; about half a second in all. */
double hd_part_measure_seconds(void (*run)(void *arg), void *arg);

/* Returns argv[index] as a positive number, `fallback` if there is no such argument, or 0 if it is
 * not a positive number. */
int64_t hd_part_parse_number(int argc, char **argv, int index, int64_t fallback);
