/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of statistics as JSON, and in tables. Thread safe. */
#pragma once

#include "runner/stats/intervals.h"

#include <jansson.h>

enum { HD_NUMBER_TEXT = 64, HD_INTERVAL_TEXT = 4 * HD_NUMBER_TEXT };

/* Returns {value, low, high}, null where a number is not known; NULL without memory. */
json_t *hd_interval_build_json(const struct hd_interval *interval);

/* Writes such an object: "7.5 [6.1, 8.9]"; "7.5 -" where no interval is known; "-". */
void hd_interval_write(const json_t *interval, char text[HD_INTERVAL_TEXT]);

/* Writes a number as intervals have it. */
void hd_number_write(double value, char text[HD_NUMBER_TEXT]);
