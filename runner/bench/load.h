/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what else the machine does while a run is measured. One thread at a time. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* A reading of the CPUs that this process may use, added up; times in seconds. */
struct hd_load {
    double load; /* processes that run or wait to, mean of a minute; all of the machine */
    double mhz;  /* mean frequency; NaN: Linux does not tell */
    double busy_s, stolen_s, total_s;
    double ours_s; /* of this process's children that have ended */
    int64_t at_ns;
    int cpus;
};

/* Reads what Linux tells now; what it does not tell is NaN or 0. */
void hd_load_read(struct hd_load *load_p);

/* Describes what was going on between two readings, with a run of this process's children between
 * them: {load, mhz: [before, after], null where not known, cpus, others: CPUs that other processes
 * had busy, stolen: share of the time that the hypervisor gave to others}; NULL without memory. */
json_t *hd_load_build_json(const struct hd_load *before, const struct hd_load *after);

/* Writes to text[bytes] how runs, whose loads are in the list, were disturbed, "" if they were
 * not: by others with more than HD_LOAD_OTHERS CPUs, by steal time of more than HD_LOAD_STOLEN, or
 * by a frequency of less than HD_LOAD_SLOW times `mhz`, the highest one seen (0: not known). */
#define HD_LOAD_OTHERS 0.1
#define HD_LOAD_STOLEN 0.01
#define HD_LOAD_SLOW 0.95
void hd_load_describe(const json_t *loads, double mhz, char *text, size_t bytes);

/* Returns the lower one of a load's frequencies; NaN: not known. */
double hd_load_get_mhz(const json_t *load);
