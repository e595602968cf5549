/* SPDX-License-Identifier: Apache-2.0 */
/* Tries GPUs by what they are for: runs of a few updates, by this program, in processes of their
 * own, come to all that training needs of them (kernels, products, recorded graphs, moves, and NCCL
 * between several), and an error says itself what failed. */
#include "runner/doctor/doctor.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/machine/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 120, TIMED_OUT = 124, COPY_BYTES = 64 << 20, COPIES = 8 };

static const char keys[] =
    "--quiet --set env.type=cartpole --set policy.cuda=true --set env.stop_value=1e9 "
    "--set max_train_iter=32";

/* Keeps the first error that a run tells. */
static void keep_error(FILE *output, struct hd_gpu_test *test)
{
    char line[1024];
    while (fgets(line, sizeof line, output)) {
        const char *error = strstr(line, "error: ");
        if (!error || test->problem[0])
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(test->problem, sizeof test->problem, "%.*s", (int)sizeof test->problem - 1,
                 error + strlen("error: "));
    }
}

/* Returns the command of a run with `ranks` ranks in folder/name; NULL: without memory, or where
 * the path cannot be quoted. `devices`: a value of runtime.cuda_devices, or NULL. Freed with
 * hd_free.
 */
static char *make_command(const char *folder, const char *name, int ranks, const char *devices)
{
    if (strchr(folder, '\''))
        return NULL;
    return hd_format("timeout %d /proc/%d/exe launch --nproc-per-node %d presets/dqn.yaml --dir "
                     "'%s/%s' %s %s%s --set world.shards=%d 2>&1 </dev/null",
                     LIMIT_S, (int)getpid(), ranks, folder, name, keys,
                     devices ? "--set runtime.cuda_devices=" : "", devices ? devices : "", ranks);
}

/* Stores the hash of the parameters that the run in folder/name ended in; "" without any. */
static void read_hash(const char *folder, const char *name, char hash_p[32])
{
    json_t *result = NULL;
    char *dir = hd_format("%s/%s", folder, name);
    if (dir && hd_run_dir_read_result(dir, &result) == HD_OK && result) {
        const char *hash = json_string_value(json_object_get(result, "param_hash"));
        snprintf(hash_p, 32, "%s", hash ? hash : "");
    }
    json_decref(result);
    hd_free(dir);
}

/* Trains, and stores the hash of the parameters, or "" and a problem. */
static void train(const char *folder, const char *name, int ranks, const char *devices,
                  struct hd_gpu_test *test, char hash_p[32])
{
    hash_p[0] = '\0';
    char *command = make_command(folder, name, ranks, devices);
    FILE *output = command ? popen(command, "r") : NULL;
    hd_free(command);
    if (output)
        keep_error(output, test);
    const int status = output ? pclose(output) : -1;
    if (status == 0)
        read_hash(folder, name, hash_p);
    if (hash_p[0]) /* whatever it told */
        test->problem[0] = '\0';
    else if (WIFEXITED(status) && WEXITSTATUS(status) == TIMED_OUT)
        snprintf(test->problem, sizeof test->problem,
                 "a run of 32 updates has not ended within %d s", LIMIT_S);
    else if (!test->problem[0])
        snprintf(test->problem, sizeof test->problem,
                 "a run of 32 updates did not start, or left no result");
}

static void train_twice(const char *folder, int device, struct hd_gpu_test *test)
{
    char devices[32], first[32], second[32];
    snprintf(devices, sizeof devices, "'[%d]'", device);
    train(folder, "first", 1, devices, test, first);
    if (!test->problem[0])
        train(folder, "second", 1, devices, test, second);
    if (!test->problem[0] && strcmp(first, second) != 0)
        snprintf(test->problem, sizeof test->problem,
                 "two runs with the same seed ended in other bits, %s and %s: its memory or its "
                 "driver is not to be relied on",
                 first, second);
}

static void run_test(int device, int n, struct hd_gpu_test *test_p)
{
    char *folder, hash[32];
    *test_p = (struct hd_gpu_test){.tried = true};
    const int64_t begin_ns = hd_clock_get_ns();
    if (hd_temp_dir_make(0, &folder) != HD_OK) {
        snprintf(test_p->problem, sizeof test_p->problem, "there is no folder for a run");
        return;
    }
    if (n > 0)
        train(folder, "all", n, NULL, test_p, hash);
    else
        train_twice(folder, device, test_p);
    hd_temp_dir_remove(folder);
    test_p->seconds = (double)(hd_clock_get_ns() - begin_ns) * 1e-9;
}

void hd_gpu_test_run(int device, struct hd_gpu_test *test_p)
{
    run_test(device, 0, test_p);
}

void hd_gpu_test_run_ranks(int n, struct hd_gpu_test *test_p)
{
    run_test(0, n, test_p);
}

/* -- Copies ------------------------------------------------------------------------------------ */

/* Returns bytes per second; 0 after an error (logged). */
static double measure_copies(void *to, const void *from, void *stream)
{
    if (hd_device_copy(to, from, COPY_BYTES, stream) != HD_OK || hd_stream_wait(stream) != HD_OK)
        return 0;
    const int64_t begin_ns = hd_clock_get_ns();
    for (int i = 0; i < COPIES; i++)
        if (hd_device_copy(to, from, COPY_BYTES, stream) != HD_OK)
            return 0;
    if (hd_stream_wait(stream) != HD_OK)
        return 0;
    return (double)COPY_BYTES * COPIES / ((double)(hd_clock_get_ns() - begin_ns) * 1e-9);
}

void hd_gpu_test_copies(int device, struct hd_gpu_test *test)
{
    void *stream = NULL;
    unsigned char *host = hd_pinned_alloc(2 * (int64_t)COPY_BYTES);
    void *memory = hd_device_alloc(device, COPY_BYTES);
    if (host && memory && hd_stream_create(device, &stream) == HD_OK) {
        for (int64_t i = 0; i < COPY_BYTES; i++)
            host[i] = (unsigned char)(i * 31 + i / 4096);
        test->to_bytes_per_s = measure_copies(memory, host, stream);
        test->from_bytes_per_s = measure_copies(host + COPY_BYTES, memory, stream);
        if (test->from_bytes_per_s > 0 && memcmp(host, host + COPY_BYTES, COPY_BYTES) != 0)
            snprintf(test->problem, sizeof test->problem,
                     "64 MiB came back from it with other bytes");
    }
    if (test->from_bytes_per_s == 0 && !test->problem[0])
        snprintf(test->problem, sizeof test->problem, "64 MiB cannot be copied to it and back");
    hd_stream_destroy(device, stream);
    hd_device_free(device, memory);
    hd_pinned_free(host);
}
