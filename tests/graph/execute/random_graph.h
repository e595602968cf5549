/* SPDX-License-Identifier: Apache-2.0 */
/* Random graph files for the toy registry. */
#pragma once

#include <stdint.h>

/* A valid graph file with lags, slots, buckets, shards, repeats, guards, collectives, background
 * tasks and stops, as a function of the seed alone; freed by hd_free. */
char *hd_random_graph(uint64_t seed);
