/* SPDX-License-Identifier: Apache-2.0 */
/* runner doctor: the machine, the program, and the path between ranks. */
#include "runner/doctor/doctor.h"

#include "runner/base/commands.h"
#include "runner/base/machine_json.h"
#include "runner/base/options.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/engine/session.h"
#include "runtime/machine/gpu_arch.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"broken", "advice", "note"};

/* -- Looking ----------------------------------------------------------------------------------- */

static int count_entries(const char *path)
{
    struct dirent *entry;
    DIR *folder = opendir(path);
    int n = 0;
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

/* GPUs that this build can train on. */
static int try_gpus(struct hd_checkup *checkup)
{
    char why[HD_GPU_ARCH_BYTES];
    int good = 0;
    checkup->gpus = hd_alloc(checkup->n_gpus, sizeof *checkup->gpus);
    if (!checkup->gpus)
        return HD_ERR_NOMEM;
    for (int i = 0; i < checkup->n_gpus && hd_session_supports_devices(); i++)
        if (hd_gpu_arch_check(i, why)) {
            hd_log(HD_LOG_INFO, "trying GPU %d of %d", i, checkup->n_gpus);
            hd_gpu_test_run(i, &checkup->gpus[i]);
            good += !checkup->gpus[i].problem[0];
        }
    if (good > 1 && good == checkup->n_gpus)
        hd_gpu_test_run_ranks(good, &checkup->all_gpus);
    for (int i = 0; i < checkup->n_gpus; i++)
        if (checkup->gpus[i].tried && !checkup->gpus[i].problem[0])
            hd_gpu_test_copies(i, &checkup->gpus[i]);
    return HD_OK;
}

static int look(struct hd_checkup *checkup)
{
    struct hd_topology *topology;
    hd_mean_test_run(checkup->ranks, &checkup->mean); /* forks: before anything makes threads */
    hd_python_find(&checkup->python);
    checkup->shares = hd_alloc(checkup->ranks, sizeof *checkup->shares);
    if (!checkup->shares)
        return HD_ERR_NOMEM;
    HD_TRY(hd_topology_create(NULL, &topology));
    hd_machine_read(topology, &checkup->machine);
    for (int r = 0; r < checkup->ranks; r++)
        hd_topology_assign_cores(topology, r, checkup->ranks, &checkup->shares[r]);
    hd_topology_destroy(topology);
    checkup->gpus_seen = count_entries("/proc/driver/nvidia/gpus");
    checkup->n_gpus = hd_device_count();
    return try_gpus(checkup);
}

/* -- As text ----------------------------------------------------------------------------------- */

static void amount(int64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, "%.*f %s",
             value < 10 && unit > 0    ? 2
             : value < 100 && unit > 0 ? 1
                                       : 0,
             value, units[unit]);
}

static void print_limits(const struct hd_machine *m)
{
    char memory[32];
    amount(m->limits.memory_bytes, memory);
    printf("  %-16s ", "cgroup limits");
    if (m->limits.cpu_quota > 0)
        printf("%.1f cores' worth of time", m->limits.cpu_quota);
    if (m->limits.memory_bytes > 0)
        printf("%s%s of memory", m->limits.cpu_quota > 0 ? ", " : "", memory);
    printf("%s\n", m->limits.cpu_quota > 0 || m->limits.memory_bytes > 0 ? "" : "none");
    printf("  %-16s open files ", "ulimits");
    printf(m->open_files < 0 ? "unlimited" : "%lld", (long long)m->open_files);
    amount(m->locked_bytes, memory);
    printf(", locked memory %s\n", m->locked_bytes < 0 ? "unlimited" : memory);
}

static void print_machine(const struct hd_machine *m)
{
    char all[32], unused[32];
    printf("machine\n  %-16s %s, Linux %s\n  %-16s %s\n", "host", m->host, m->kernel, "processor",
           m->cpu[0] ? m->cpu : "?");
    printf("  %-16s %d packages, %d NUMA nodes, %d cores, %d threads; this process may use %d "
           "cores\n",
           "cores", m->packages, m->numa_nodes, m->cores, m->threads, m->allowed_cores);
    if (m->governor[0])
        printf("  %-16s %s\n", "governor", m->governor);
    amount(m->memory_bytes, all);
    amount(m->memory_free_bytes, unused);
    printf("  %-16s %s, %s free\n", "memory", all, unused);
    amount(m->shm_bytes, all);
    amount(m->shm_free_bytes, unused);
    if (m->shm_bytes < 0)
        printf("  %-16s there is none\n", "/dev/shm");
    else
        printf("  %-16s %s, %s free\n", "/dev/shm", all, unused);
    print_limits(m);
}

static void print_ranks(const struct hd_checkup *checkup)
{
    printf("\nranks: the cores that each of %d would get\n", checkup->ranks);
    for (int r = 0; r < checkup->ranks; r++) {
        const struct hd_core_share *share = &checkup->shares[r];
        printf("  rank %-11d %d %s%s: cpu", r, share->cores, share->cores == 1 ? "core" : "cores",
               share->oversubscribed ? ", shared by all" : "");
        for (int i = 0; i < share->cores; i++)
            printf(" %d", share->cpus[i]);
        printf("\n");
    }
}

static void print_mean(const struct hd_mean_test *mean)
{
    char size[32];
    printf("\nself test: means of %d %s through shared memory (took %.1f s)\n", mean->ranks,
           mean->ranks == 1 ? "rank" : "ranks", mean->seconds);
    if (!mean->passed) {
        printf("  %-16s %s\n", "failed", mean->problem);
        return;
    }
    printf("  %-16s %.2f us\n", "latency", mean->latency_s * 1e6);
    for (int i = 0; i < HD_MEAN_SIZES; i++) {
        amount(mean->sizes[i].bytes, size);
        printf("  %-16s %.1f us, %.3g GB/s (%lld times, every result right)\n", size,
               mean->sizes[i].seconds_each * 1e6,
               (double)mean->sizes[i].bytes / mean->sizes[i].seconds_each * 1e-9,
               (long long)mean->sizes[i].count);
    }
}

static void print_program(json_t *versions)
{
    const char *name;
    json_t *text;
    printf("\nprogram\n");
    json_object_foreach(versions, name, text)
        printf("  %-16s %s\n", name, json_string_value(text));
}

static void print_python(const struct hd_python *python)
{
    printf("\nPython for env.type gymnasium\n");
    if (python->gymnasium[0])
        printf("  %-16s Gymnasium %s, Python %s\n", python->path, python->gymnasium,
               python->python);
    else
        printf("  %-16s has no Gymnasium: scripts/gymnasium makes a Python that has\n",
               python->path);
}

static void print_gpus(const struct hd_checkup *checkup)
{
    char name[256];
    printf("\nGPUs\n");
    if (checkup->n_gpus == 0)
        printf("  none: ranks train on CPUs\n");
    for (int i = 0; i < checkup->n_gpus; i++) {
        const struct hd_gpu_test *test = &checkup->gpus[i];
        hd_device_get_name(i, name, sizeof name);
        printf("  %-16d %s", i, name);
        if (test->problem[0])
            printf(": does not train\n");
        else if (test->tried)
            printf(": trains, twice to the same bits, in %.1f s; copies %.1f GB/s to it, %.1f GB/s "
                   "from it\n",
                   test->seconds, test->to_bytes_per_s * 1e-9, test->from_bytes_per_s * 1e-9);
        else
            printf(": not tried\n");
    }
    if (checkup->all_gpus.tried && !checkup->all_gpus.problem[0])
        printf("  %-16s train with a rank each, in %.1f s\n", "together",
               checkup->all_gpus.seconds);
}

static void print_advice(const struct hd_advice *advice, int n)
{
    printf("\n");
    if (n == 0)
        printf("nothing is wrong\n");
    for (int i = 0; i < n; i++)
        printf("%s: %s\n", level_names[advice[i].level], advice[i].text);
}

/* -- As JSON ----------------------------------------------------------------------------------- */

static json_t *shares_json(const struct hd_checkup *checkup)
{
    json_t *list = json_array();
    for (int r = 0; r < checkup->ranks; r++) {
        json_t *cpus = json_array();
        for (int i = 0; i < checkup->shares[r].cores; i++)
            json_array_append_new(cpus, json_integer(checkup->shares[r].cpus[i]));
        json_array_append_new(list, json_pack("{s:o, s:b}", "cpus", cpus, "oversubscribed",
                                              (int)checkup->shares[r].oversubscribed));
    }
    return list;
}

static json_t *mean_json(const struct hd_mean_test *mean)
{
    json_t *list = json_array();
    for (int i = 0; i < HD_MEAN_SIZES && mean->passed; i++)
        json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:f, s:f}", "bytes", (json_int_t)mean->sizes[i].bytes, "count",
                      (json_int_t)mean->sizes[i].count, "seconds_each", mean->sizes[i].seconds_each,
                      "bytes_per_s", (double)mean->sizes[i].bytes / mean->sizes[i].seconds_each));
    return json_pack("{s:b, s:s, s:i, s:f, s:f, s:o}", "passed", (int)mean->passed, "problem",
                     mean->problem, "ranks", mean->ranks, "seconds", mean->seconds, "latency_s",
                     mean->latency_s, "sizes", list);
}

/* "?" is null without a value. */
static json_t *python_json(const struct hd_python *python)
{
    return json_pack("{s:s, s:s?, s:s?}", "path", python->path, "python",
                     python->python[0] ? python->python : NULL, "gymnasium",
                     python->gymnasium[0] ? python->gymnasium : NULL);
}

static json_t *gpu_json(const char *name, const struct hd_gpu_test *test)
{
    return json_pack("{s:s, s:b, s:s, s:f, s:f, s:f}", "name", name, "tried", (int)test->tried,
                     "problem", test->problem, "seconds", test->seconds, "to_bytes_per_s",
                     test->to_bytes_per_s, "from_bytes_per_s", test->from_bytes_per_s);
}

static json_t *gpus_json(const struct hd_checkup *checkup)
{
    json_t *list = json_array();
    char name[256];
    for (int i = 0; i < checkup->n_gpus; i++) {
        hd_device_get_name(i, name, sizeof name);
        json_array_append_new(list, gpu_json(name, &checkup->gpus[i]));
    }
    return list;
}

static json_t *advice_json(const struct hd_advice *advice, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "level", level_names[advice[i].level],
                                              "text", advice[i].text));
    return list;
}

static void print_json(const struct hd_checkup *checkup, json_t *versions,
                       const struct hd_advice *advice, int n)
{
    json_t *json =
        json_pack("{s:o, s:O, s:o, s:o, s:o, s:o, s:o, s:o}", "machine",
                  hd_machine_build_json(&checkup->machine), "versions", versions, "python",
                  python_json(&checkup->python), "gpus", gpus_json(checkup), "all_gpus",
                  gpu_json("all", &checkup->all_gpus), "ranks", shares_json(checkup), "mean",
                  mean_json(&checkup->mean), "advice", advice_json(advice, n));
    if (json)
        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(json);
}

/* -- The command ------------------------------------------------------------------------------- */

static int examine(const struct hd_options *options)
{
    struct hd_advice advice[HD_ADVICE_MAX];
    struct hd_checkup checkup = {.ranks = options->ranks};
    int status = look(&checkup);
    if (status == HD_OK) {
        const int n = hd_checkup_advise(&checkup, advice);
        json_t *versions = hd_versions_build_json(true);
        if (options->as_json) {
            print_json(&checkup, versions, advice, n);
        } else {
            print_machine(&checkup.machine);
            print_program(versions);
            print_python(&checkup.python);
            print_gpus(&checkup);
            print_ranks(&checkup);
            print_mean(&checkup.mean);
            print_advice(advice, n);
        }
        json_decref(versions);
        if (n > 0 && advice[0].level == HD_ADVICE_BROKEN)
            status = HD_ERR_SYSTEM;
    }
    hd_free(checkup.shares);
    hd_free(checkup.gpus);
    return status;
}

int hd_command_doctor(struct hd_options *options)
{
    return hd_status_get_exit_code(examine(options));
}
