/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/result.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static json_t *text_or_null(const char *text)
{
    json_t *json = text ? json_string(text) : NULL;
    return json ? json : json_null(); /* of what is not UTF-8 */
}

static json_t *hex_or_null(uint64_t value)
{
    return value != 0 ? hex(value) : json_null();
}

static json_t *count_or_null(int64_t count)
{
    return count >= 0 ? json_integer(count) : json_null();
}

/* Writes the updates of a value, or null where the value is not known. */
static json_t *iter_or_null(double value, int64_t iter)
{
    return isfinite(value) ? json_integer(iter) : json_null();
}

/* Writes a time as ISO 8601 with its zone: 2026-11-23T01:02:03+01:00. */
static json_t *iso_time(time_t at)
{
    char text[64], zone[16];
    struct tm parts;
    localtime_r(&at, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    strftime(zone, sizeof zone, "%z", &parts);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%.3s:%s", zone, zone + 3);
    return json_string(text);
}

/* DI-engine writes the time as ctime does. */
static json_t *finish_time(time_t now)
{
    char text[64];
    ctime_r(&now, text);
    text[strcspn(text, "\n")] = '\0';
    return json_string(text);
}

static json_t *host_name(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return text_or_null(name);
}

int hd_result_write(const struct hd_file_put *put, const char *path, const struct hd_result *result)
{
    const time_t now = time(NULL);
    json_t *json = json_object();
    int failed = !json;
    failed |= json_object_set_new(json, "stop", json_boolean(result->stop));
    failed |= json_object_set_new(json, "env_step", json_integer(result->env_step));
    failed |= json_object_set_new(json, "train_iter", json_integer(result->train_iter));
    failed |= json_object_set_new(json, "skipped", count_or_null(result->skipped));
    failed |= json_object_set_new(json, "eval_value", number_or_null(result->eval_value));
    failed |= json_object_set_new(json, "eval_value_raw",
                                  list(result->eval_value_raw, result->n_eval_value_raw));
    failed |= json_object_set_new(json, "eval_train_iter",
                                  iter_or_null(result->eval_value, result->eval_train_iter));
    failed |= json_object_set_new(json, "last_value", number_or_null(result->last_value));
    failed |= json_object_set_new(json, "last_value_raw",
                                  list(result->last_value_raw, result->n_last_value_raw));
    failed |= json_object_set_new(json, "best_value", number_or_null(result->best_value));
    failed |= json_object_set_new(json, "best_train_iter",
                                  iter_or_null(result->best_value, result->best_train_iter));
    failed |= json_object_set_new(json, "train_value", number_or_null(result->train_value));
    failed |= json_object_set_new(json, "weights", text_or_null(result->weights));
    failed |= json_object_set_new(json, "finish_time", finish_time(now));
    failed |= json_object_set_new(json, "reason", json_string(result->reason));
    failed |= json_object_set_new(json, "detail", text_or_null(result->detail));
    failed |= json_object_set_new(json, "param_hash", hex_or_null(result->param_hash));
    failed |= json_object_set_new(json, "fingerprint", hex_or_null(result->fingerprint));
    failed |= json_object_set_new(json, "wall_s", json_real(result->wall_s));
    failed |= json_object_set_new(json, "ranks", json_integer(result->ranks));
    failed |= json_object_set_new(json, "shards", json_integer(result->shards));
    failed |= json_object_set_new(json, "seed", json_integer(result->seed));
    failed |= json_object_set_new(json, "env", text_or_null(result->env));
    failed |= json_object_set_new(json, "command", text_or_null(result->command));
    failed |= json_object_set_new(json, "version", json_string(HD_VERSION));
    failed |= json_object_set_new(json, "host", host_name());
    failed |= json_object_set_new(json, "start_time", iso_time(now - (time_t)result->wall_s));
    failed |= json_object_set_new(json, "end_time", iso_time(now));
    char *text = failed ? NULL : json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(json);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the result", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the final zero: a text file ends with a line */
    const int64_t bytes = (int64_t)length + 1;
    int status =
        put ? put->put(put->arg, path, text, bytes) : hd_file_write_atomic(path, text, bytes);
    free(text);
    return status;
}
