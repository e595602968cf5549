/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/interval_json.h"

#include "runner/report/outcome.h"

#include <math.h>
#include <stdio.h>

json_t *hd_interval_build_json(const struct hd_interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "value", hd_json_number(interval->value), "low",
                     hd_json_number(interval->low), "high", hd_json_number(interval->high));
}

void hd_number_write(double value, char text[HD_NUMBER_TEXT])
{
    snprintf(text, HD_NUMBER_TEXT, "%.*f",
             value == floor(value) ? 0
             : fabs(value) < 10    ? 3
                                   : 1,
             value);
}

void hd_interval_write(const json_t *interval, char text[HD_INTERVAL_TEXT])
{
    double value, low, high;
    char texts[3][HD_NUMBER_TEXT];
    snprintf(text, HD_INTERVAL_TEXT, "-");
    if (json_unpack((json_t *)interval, "{s:F}", "value", &value) != 0)
        return;
    hd_number_write(value, texts[0]);
    snprintf(text, HD_INTERVAL_TEXT, "%s -", texts[0]);
    if (json_unpack((json_t *)interval, "{s:F, s:F}", "low", &low, "high", &high) != 0)
        return;
    hd_number_write(low, texts[1]);
    hd_number_write(high, texts[2]);
    snprintf(text, HD_INTERVAL_TEXT, "%s [%s, %s]", texts[0], texts[1], texts[2]);
}
