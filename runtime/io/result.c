/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/result.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *hex(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *list(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < n; i++)
        json_array_append_new(array, number_or_null(values[i]));
    return array;
}

int hd_result_write(const char *path, const struct hd_result *result)
{
    json_t *json = json_object();
    int failed = !json;
    failed |= json_object_set_new(json, "stop", json_boolean(result->stop));
    failed |= json_object_set_new(json, "env_step", json_integer(result->env_step));
    failed |= json_object_set_new(json, "train_iter", json_integer(result->train_iter));
    failed |= json_object_set_new(json, "eval_value", number_or_null(result->eval_value));
    failed |= json_object_set_new(json, "eval_value_raw",
                                  list(result->eval_value_raw, result->n_eval_value_raw));
    failed |= json_object_set_new(json, "finish_time", json_string(result->finish_time));
    failed |= json_object_set_new(json, "reason", json_string(result->reason));
    failed |= json_object_set_new(json, "param_hash", hex(result->param_hash));
    failed |= json_object_set_new(json, "fingerprint", hex(result->fingerprint));
    failed |= json_object_set_new(json, "wall_s", json_real(result->wall_s));
    failed |= json_object_set_new(json, "ranks", json_integer(result->ranks));
    failed |= json_object_set_new(json, "shards", json_integer(result->shards));
    char *text = failed ? NULL : json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(json);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the result", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the final zero: a text file ends with a line */
    int status = hd_file_write_atomic(path, text, (int64_t)length + 1);
    free(text);
    return status;
}
