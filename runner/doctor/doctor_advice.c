/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what is wrong with a machine for training, and what to do. */
#include "runner/doctor/doctor.h"
#include "runtime/engine/session.h"
#include "runtime/machine/gpu_arch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t mib = 1 << 20;

struct list {
    struct hd_advice *advice;
    int n;
};

__attribute__((format(printf, 3, 4))) static void say(struct list *list, enum hd_advice_level level,
                                                      const char *format, ...)
{
    va_list args;
    if (list->n == HD_ADVICE_MAX)
        return;
    struct hd_advice *advice = &list->advice[list->n++];
    advice->level = level;
    va_start(args, format);
    vsnprintf(advice->text, sizeof advice->text, format, args);
    va_end(args);
}

/* -- Cores ------------------------------------------------------------------------------------- */

static void look_at_cores(const struct hd_checkup *checkup, struct list *list)
{
    const struct hd_machine *m = &checkup->machine;
    const int each = checkup->shares[0].cores, max = hd_session_get_workers_max();
    const double quota = m->limits.cpu_quota;
    if (checkup->ranks > m->allowed_cores)
        say(list, HD_ADVICE_RECOMMENDED,
            "%d ranks share %d %s: start no more ranks than cores, more only cost time",
            checkup->ranks, m->allowed_cores, m->allowed_cores == 1 ? "core" : "cores");
    if (quota > 0 && quota < m->allowed_cores)
        say(list, HD_ADVICE_NOTE,
            "the cgroup allows %.1f cores' worth of time, but %d cores are visible: by default a "
            "run starts no more workers than that, because more would be held up in the middle of "
            "tasks",
            quota, m->allowed_cores);
    if (m->allowed_cores < m->cores)
        say(list, HD_ADVICE_NOTE,
            "this process may use %d of the machine's %d cores (affinity or cpuset); ranks get "
            "theirs from these",
            m->allowed_cores, m->cores);
    if (!checkup->shares[0].oversubscribed && each > max)
        say(list, HD_ADVICE_RECOMMENDED,
            "a rank gets %d cores, but this StarPU runs at most %d CPU workers in a process: start "
            "more ranks, or build with scripts/setup --starpu 1.4",
            each, max);
    if (m->governor[0] && strcmp(m->governor, "performance") != 0)
        say(list, HD_ADVICE_RECOMMENDED,
            "the frequency governor is '%s': short tasks run at low clocks; "
            "'cpupower frequency-set -g performance' as root",
            m->governor);
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void look_at_memory(const struct hd_checkup *checkup, struct list *list)
{
    enum { LITTLE_MIB = 512, SHM_MIB = 1024, FILES = 256 };
    const struct hd_machine *m = &checkup->machine;
    const int64_t limit = m->limits.memory_bytes;
    if (m->memory_free_bytes < LITTLE_MIB * mib)
        say(list, HD_ADVICE_RECOMMENDED, "only %" PRId64 " MiB of memory are free",
            m->memory_free_bytes / mib);
    if (limit > 0 && limit < LITTLE_MIB * mib * checkup->ranks)
        say(list, HD_ADVICE_RECOMMENDED,
            "the cgroup allows %" PRId64 " MiB of memory for %d ranks, their shared memory "
            "included: a replay of images needs more",
            limit / mib, checkup->ranks);
    if (checkup->n_gpus > 1 && m->shm_free_bytes < SHM_MIB * mib)
        say(list, HD_ADVICE_RECOMMENDED,
            "/dev/shm has %" PRId64 " MiB free: NCCL may need more between GPUs (in a container "
            "--shm-size=1g); ranks on CPUs do not use it",
            m->shm_free_bytes < 0 ? 0 : m->shm_free_bytes / mib);
    if (m->open_files >= 0 && m->open_files < FILES)
        say(list, HD_ADVICE_RECOMMENDED,
            "ulimit -n is %" PRId64 ": rank 0 keeps a connection to every rank", m->open_files);
}

/* -- The environment --------------------------------------------------------------------------- */

static void look_at_environment(struct list *list)
{
    static const char *const of_ranks[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    static const char *const of_threads[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                             "OPENBLAS_NUM_THREADS"};
    static const char *const of_starpu[] = {"STARPU_SCHED", "STARPU_NCPU"};
    for (size_t i = 0; i < sizeof of_starpu / sizeof *of_starpu; i++)
        if (getenv(of_starpu[i]))
            say(list, HD_ADVICE_NOTE, "%s=%s is set: it goes before the config", of_starpu[i],
                getenv(of_starpu[i]));
    for (size_t i = 0; i < sizeof of_threads / sizeof *of_threads; i++)
        if (getenv(of_threads[i]))
            say(list, HD_ADVICE_NOTE,
                "%s=%s is set: without effect, every worker computes with one thread",
                of_threads[i], getenv(of_threads[i]));
    for (size_t i = 0; i < sizeof of_ranks / sizeof *of_ranks; i++)
        if (getenv(of_ranks[i]))
            say(list, HD_ADVICE_NOTE,
                "%s=%s is set: `runner run` here takes itself for one rank of several", of_ranks[i],
                getenv(of_ranks[i]));
    if (getenv("LD_PRELOAD") && getenv("LD_PRELOAD")[0])
        say(list, HD_ADVICE_NOTE,
            "LD_PRELOAD=%s is set: such a library may change what is computed, and "
            "the arithmetic fingerprint does not know it",
            getenv("LD_PRELOAD"));
}

/* -- GPUs -------------------------------------------------------------------------------------- */

static void look_at_gpus(const struct hd_checkup *checkup, struct list *list)
{
    char text[HD_GPU_ARCH_BYTES];
    const char *noun = checkup->gpus_seen == 1 ? "GPU" : "GPUs";
    if (checkup->gpus_seen > 0 && !hd_session_supports_devices())
        say(list, HD_ADVICE_RECOMMENDED,
            "the kernel knows %d NVIDIA %s, but this program or its StarPU was built without CUDA "
            "(scripts/setup --cuda builds both)",
            checkup->gpus_seen, noun);
    else if (checkup->gpus_seen > checkup->n_gpus)
        say(list, HD_ADVICE_RECOMMENDED,
            "the kernel knows %d NVIDIA %s, CUDA shows %d to this process: look at "
            "CUDA_VISIBLE_DEVICES and at the driver (nvidia-smi)",
            checkup->gpus_seen, noun, checkup->n_gpus);
    for (int i = 0; i < checkup->n_gpus; i++)
        if (!hd_gpu_arch_check(i, text))
            say(list, HD_ADVICE_RECOMMENDED, "%s", text);
}

static void look_at_gpu_tests(const struct hd_checkup *checkup, struct list *list)
{
    for (int i = 0; i < checkup->n_gpus; i++)
        if (checkup->gpus[i].problem[0])
            say(list, HD_ADVICE_BROKEN, "GPU %d does not train: %s", i, checkup->gpus[i].problem);
    if (checkup->all_gpus.problem[0])
        say(list, HD_ADVICE_BROKEN, "%d GPUs do not train together, a rank each: %s",
            checkup->n_gpus, checkup->all_gpus.problem);
}

int hd_checkup_advise(const struct hd_checkup *checkup, struct hd_advice advice_p[HD_ADVICE_MAX])
{
    struct list list = {advice_p, 0};
    if (!checkup->mean.passed)
        say(&list, HD_ADVICE_BROKEN, "the self test between ranks failed: %s",
            checkup->mean.problem);
    look_at_gpu_tests(checkup, &list);
    look_at_gpus(checkup, &list);
    look_at_cores(checkup, &list);
    look_at_memory(checkup, &list);
    look_at_environment(&list);
    return list.n;
}
