/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of numbers that came from outside. Thread safe. */
#pragma once

#include <stdint.h>

enum { HD_NUMBERS_MESSAGE = 256 }; /* bytes of a message, the final 0 included */

/* No count of a run comes near this one, and adding to it does not overflow. */
#define HD_COUNT_MAX (INT64_C(1) << 53)

/* Checks that a number is within [min, max]. `i` is its index in the array `name`, -1: it is alone.
 * Returns HD_OK, or HD_ERR_FORMAT with a sentence in `message` (not logged). */
int hd_number_check(char message[HD_NUMBERS_MESSAGE], const char *name, int64_t i, int64_t found,
                    int64_t min, int64_t max);

/* Check that all numbers of an array are within [min, max]. Return HD_OK, or HD_ERR_FORMAT with a
 * sentence in `message` about the first that is not (not logged). */
int hd_numbers_check_i64(char message[HD_NUMBERS_MESSAGE], const char *name, const int64_t *found,
                         int64_t n, int64_t min, int64_t max);
int hd_numbers_check_i32(char message[HD_NUMBERS_MESSAGE], const char *name, const int32_t *found,
                         int64_t n, int64_t min, int64_t max);

/* Check that all numbers of an array are finite, and at least `min`. Return HD_OK, or HD_ERR_FORMAT
 * with a sentence in `message` about the first that is not (not logged). */
int hd_numbers_check_f32(char message[HD_NUMBERS_MESSAGE], const char *name, const float *found,
                         int64_t n, double min);
int hd_numbers_check_f64(char message[HD_NUMBERS_MESSAGE], const char *name, const double *found,
                         int64_t n, double min);
