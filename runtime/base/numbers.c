/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/numbers.h"

#include "runtime/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *format_index(char text[32], int64_t i)
{
    snprintf(text, 32, i < 0 ? "" : "[%" PRId64 "]", i);
    return text;
}

int hd_number_check(char message[HD_NUMBERS_MESSAGE], const char *name, int64_t i, int64_t found,
                    int64_t min, int64_t max)
{
    char index[32];
    if (found >= min && found <= max)
        return HD_OK;
    snprintf(message, HD_NUMBERS_MESSAGE, "%s%s is %" PRId64 ", expected %" PRId64 " to %" PRId64,
             name, format_index(index, i), found, min, max);
    return HD_ERR_FORMAT;
}

int hd_numbers_check_i64(char message[HD_NUMBERS_MESSAGE], const char *name, const int64_t *found,
                         int64_t n, int64_t min, int64_t max)
{
    for (int64_t i = 0; i < n; i++)
        HD_TRY(hd_number_check(message, name, i, found[i], min, max));
    return HD_OK;
}

int hd_numbers_check_i32(char message[HD_NUMBERS_MESSAGE], const char *name, const int32_t *found,
                         int64_t n, int64_t min, int64_t max)
{
    for (int64_t i = 0; i < n; i++)
        HD_TRY(hd_number_check(message, name, i, found[i], min, max));
    return HD_OK;
}

static int check_real(char message[HD_NUMBERS_MESSAGE], const char *name, int64_t i, double found,
                      double min)
{
    char index[32];
    if (isfinite(found) && found >= min)
        return HD_OK;
    snprintf(message, HD_NUMBERS_MESSAGE,
             isfinite(min) ? "%s%s is %g, expected a finite number from %g on"
                           : "%s%s is %g, expected a finite number",
             name, format_index(index, i), found, min);
    return HD_ERR_FORMAT;
}

int hd_numbers_check_f32(char message[HD_NUMBERS_MESSAGE], const char *name, const float *found,
                         int64_t n, double min)
{
    for (int64_t i = 0; i < n; i++)
        HD_TRY(check_real(message, name, i, (double)found[i], min));
    return HD_OK;
}

int hd_numbers_check_f64(char message[HD_NUMBERS_MESSAGE], const char *name, const double *found,
                         int64_t n, double min)
{
    for (int64_t i = 0; i < n; i++)
        HD_TRY(check_real(message, name, i, found[i], min));
    return HD_OK;
}
