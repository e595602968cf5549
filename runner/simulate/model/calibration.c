/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/model/calibration.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <string.h>

static json_t *write_times(const struct hd_task_times *times)
{
    json_t *tenths = json_array();
    for (int i = 0; i < HD_TENTHS; i++)
        json_array_append_new(tenths, json_real(times->tenths[i]));
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:f, s:o}", "name", times->name, "stage",
                     times->stage, "bucket", times->bucket, "count", (json_int_t)times->count,
                     "volume", (json_int_t)times->volume, "each", times->each, "mean", times->mean,
                     "tenths", tenths);
}

json_t *hd_calibration_write(const struct hd_calibration *calibration)
{
    json_t *list = json_array();
    for (int i = 0; i < calibration->n_times; i++)
        json_array_append_new(list, write_times(&calibration->times[i]));
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o}", "submit_s", calibration->submit_s,
                     "start_s", calibration->start_s, "bytes_per_s", calibration->bytes_per_s,
                     "socket_bytes_per_s", calibration->socket_bytes_per_s, "env_steps_per_update",
                     calibration->env_steps_per_update, "updates_per_s", calibration->updates_per_s,
                     "shards", (json_int_t)calibration->shards, "tasks", list);
}

static bool read_times(json_t *json, struct hd_task_times *times)
{
    const char *name;
    json_int_t count, volume;
    json_t *tenths;
    if (json_unpack(json, "{s:s, s:i, s:i, s:I, s:I, s:F, s:F, s:o}", "name", &name, "stage",
                    &times->stage, "bucket", &times->bucket, "count", &count, "volume", &volume,
                    "each", &times->each, "mean", &times->mean, "tenths", &tenths) != 0 ||
        strlen(name) >= sizeof times->name || json_array_size(tenths) != HD_TENTHS)
        return false;
    strcpy(times->name, name);
    times->count = count;
    times->volume = volume;
    for (int i = 0; i < HD_TENTHS; i++)
        times->tenths[i] = json_number_value(json_array_get(tenths, (size_t)i));
    return times->mean >= 0 && times->each > 0 && times->tenths[0] >= 0;
}

int hd_calibration_read(const json_t *json, const char *path, struct hd_calibration *calibration_p)
{
    struct hd_calibration read = {0};
    json_t *list;
    json_int_t shards;
    bool ok = json_unpack((json_t *)json, "{s:F, s:F, s:F, s:F, s:F, s:F, s:I, s:o}", "submit_s",
                          &read.submit_s, "start_s", &read.start_s, "bytes_per_s",
                          &read.bytes_per_s, "socket_bytes_per_s", &read.socket_bytes_per_s,
                          "env_steps_per_update", &read.env_steps_per_update, "updates_per_s",
                          &read.updates_per_s, "shards", &shards, "tasks", &list) == 0 &&
              read.bytes_per_s > 0 && read.socket_bytes_per_s > 0 && read.submit_s >= 0 &&
              read.start_s >= 0 && json_array_size(list) > 0;
    if (ok) {
        read.shards = shards;
        read.times = hd_alloc((int64_t)json_array_size(list), sizeof *read.times);
        if (!read.times)
            return HD_ERR_NOMEM;
    }
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = read_times(json_array_get(list, i), &read.times[read.n_times++]);
    if (!ok) {
        hd_calibration_release(&read);
        return hd_fail(HD_ERR_FORMAT, "%s is no calibration: write it anew with runner calibrate",
                       path);
    }
    *calibration_p = read;
    return HD_OK;
}

void hd_calibration_release(struct hd_calibration *calibration)
{
    hd_free(calibration->times);
    *calibration = (struct hd_calibration){0};
}

const struct hd_task_times *hd_calibration_find(const struct hd_calibration *calibration,
                                                const char *name, int stage, int bucket)
{
    const struct hd_task_times *best = NULL;
    for (int i = 0; i < calibration->n_times; i++) {
        const struct hd_task_times *times = &calibration->times[i];
        if (strcmp(times->name, name) != 0)
            continue;
        if (times->stage == stage && times->bucket == bucket)
            return times;
        if (!best)
            best = times;
    }
    return best;
}

double hd_task_times_get(const struct hd_task_times *times, double share)
{
    const int i = (int)(share * HD_TENTHS);
    return times->tenths[i < HD_TENTHS ? i : HD_TENTHS - 1];
}
