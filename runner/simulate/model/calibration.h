/* SPDX-License-Identifier: Apache-2.0 */
/* A calibration tells how long tasks take on a machine, as `runner calibrate` measured it. Times
 * are in seconds. One thread makes it; then it is read-only. */
#pragma once

#include <jansson.h>
#include <stdint.h>

enum { HD_TENTHS = 10, HD_TASK_NAME_BYTES = 64 };

/* The times of the tasks of a name, stage and bucket. */
struct hd_task_times {
    char name[HD_TASK_NAME_BYTES];
    int stage, bucket;
    int64_t count, volume; /* volume: of each, as in struct hd_task; 0: unknown */
    double each;           /* how many an iteration has of a shard, or of all, where it has any */
    double mean;
    double tenths[HD_TENTHS]; /* means of the shortest tenth of the times, the next, ... */
};

/* One strategy of a config. */
struct hd_calibration {
    double submit_s, start_s;    /* what submitting a task costs, and starting it */
    double bytes_per_s;          /* at which vectors are added */
    double socket_bytes_per_s;   /* at which one processor sends and receives over TCP */
    double env_steps_per_update; /* of a shard */
    double updates_per_s;        /* that one rank with one worker made */
    int64_t shards;              /* of that run */
    struct hd_task_times *times;
    int n_times;
};

/* Makes JSON of a calibration, which the caller releases; NULL: no memory. */
json_t *hd_calibration_write(const struct hd_calibration *calibration);

/* Reads it; `path` is for messages. hd_calibration_release releases it. Returns HD_OK,
 * HD_ERR_FORMAT or HD_ERR_NOMEM (logged). */
int hd_calibration_read(const json_t *json, const char *path, struct hd_calibration *calibration_p);
void hd_calibration_release(struct hd_calibration *calibration);

/* Returns the times of a task: of its name, stage and bucket, or else of its name; or NULL. */
const struct hd_task_times *hd_calibration_find(const struct hd_calibration *calibration,
                                                const char *name, int stage, int bucket);

/* Returns the mean of the tenth at `share`, 0 to 1, of all times in order. A share drawn at random
 * has the mean of all. */
double hd_task_times_get(const struct hd_task_times *times, double share);
