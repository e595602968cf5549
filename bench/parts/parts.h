/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench_parts share. A part is a file here, a line in list.def and lines in
 * bench/cases.txt; it measures one thing once and reports it. */
#ifndef HD_BENCH_PARTS_PARTS_H
#define HD_BENCH_PARTS_PARTS_H

#include <stdint.h>

struct hd_conv_net_clip_part {
    const char *arguments; /* as a usage line shows them */
    const char *help;
    /* argv[0..argc) are the arguments. Returns HD_ERR_INPUT, without a message, when it cannot use
     * them: the usage is printed then. */
    int (*measure)(int argc, char **argv);
};

#define PART(name) extern const struct hd_conv_net_clip_part hd_part_##name;
#include "bench/parts/list.def"
#undef PART

/* Prints one result as a line of JSON: {"name": …, "value": …, "unit": …}. `name` tells the results
 * of one part apart: NULL when there is only one. */
void hd_part_report(const char *name, double value, const char *unit);

/* Seconds that one call of run(arg) keeps a core: CPU time of this thread, so that what else the
 * machine does matters little. The median of several measurements, each of as many calls as last
 * about 50 ms, after calls to warm up; about half a second in all. */
double hd_part_measure_seconds(void (*run)(void *arg), void *arg);

/* argv[index] as a positive number, `fallback` when there is none, 0 when it is something else. */
int64_t hd_part_parse_number(int argc, char **argv, int index, int64_t fallback);

#endif
