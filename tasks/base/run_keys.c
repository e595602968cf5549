/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/base/run_keys.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"
#include "tasks/base/builtin.h"

static const struct hd_key run_keys[] = {
    {"exp_name", HD_KEY_TEXT, 0, 0, "default_experiment", NULL, "global",
     "name of the run directory", "name|run_name|experiment|log_dir|output_dir"},
    {"seed", HD_KEY_INT, 0, 9007199254740992.0, "0", NULL, "global", "of everything random",
     "random_seed|rng_seed"},
    {"graph", HD_KEY_TREE, 0, 0, NULL, NULL, "global", "graph file beside the config, or the graph",
     NULL},
    {"strategy", HD_KEY_TREE, 0, 0, "{}", NULL, "global",
     "strategy file beside the config, or the numbers themselves", NULL},
    {"world.shards", HD_KEY_INT, 1, 4096, "auto", "auto", "global",
     "independent samplers of the run; auto: the number of ranks", "world_size|n_shards"},
    {"max_env_step", HD_KEY_INT, 1, 1e15, "1e10", NULL, "global",
     "environment steps at which the run stops",
     "total_timesteps|total_steps|max_steps|max_timesteps|num_timesteps|total_env_steps|steps"},
    {"max_train_iter", HD_KEY_INT, 1, 1e15, "1e10", NULL, "global",
     "updates at which the run stops",
     "max_iterations|max_updates|train_iter|iterations|num_iterations|updates"},
    {"runtime.executor", HD_KEY_CHOICE, 0, 0, "starpu", "starpu|sequential", "per rank",
     "sequential: one task after another, without StarPU", NULL},
    {"runtime.workers", HD_KEY_INT, 1, 64, "auto", "auto", "per rank",
     "CPU workers; auto: the cores of the rank", "num_threads|threads|n_jobs"},
    {"runtime.gpus", HD_KEY_INT, 1, HD_DEVICES_MAX, "auto", "auto", "per rank",
     "GPUs; auto: a rank's share of the machine's, but no more than it has shards",
     "num_gpus|n_gpus"},
    {"runtime.cuda_devices", HD_KEY_INT_LIST, -1, 63, "-1", NULL, "per node",
     "CUDA's numbers of the GPUs of all ranks that see the same, those of the first rank first; "
     "-1: by locality",
     NULL},
    {"runtime.scheduler", HD_KEY_CHOICE, 0, 0, "lws",
     "eager|prio|lws|ws|random|modular-eager|modular-prio|modular-ws|dm|dmda|dmdas|modular-heft",
     "per rank", "StarPU's scheduling policy", NULL},
    {"runtime.performance_models", HD_KEY_BOOL, 0, 0, "false", NULL, "per rank",
     "let StarPU keep how long each verb's tasks take, for its tools and later runs; dm, dmda, "
     "dmdas "
     "and modular-heft always do",
     NULL},
    {"runtime.max_inflight_iterations", HD_KEY_INT, 1, 64, "2", NULL, "per rank",
     "iterations submitted before the oldest has ended", NULL},
    {"runtime.param_check_interval", HD_KEY_INT, 0, 1e12, "100", NULL, "global",
     "updates between comparisons of the ranks' parameters; 0: only at the end", NULL},
    {"runtime.watchdog_s", HD_KEY_REAL, 0, 1e9, "300", NULL, "global",
     "seconds without any progress after which the run fails; 0: never", NULL},
    {"runtime.heartbeat_timeout_s", HD_KEY_REAL, 0, 1e9, "15", NULL, "global",
     "seconds after which a rank that says nothing counts as lost while its host answers; 0: never",
     NULL},
    {"runtime.link_timeout_s", HD_KEY_INT, 16, 86400, "30", NULL, "global",
     "seconds without an acknowledgement after which a connection between hosts is lost", NULL},
    {"runtime.link_hash", HD_KEY_BOOL, 0, 0, "false", NULL, "global",
     "let messages between hosts carry a keyed hash, where others may change them on their way "
     "(transport tcp)",
     NULL},
    {"runtime.checkpoint_interval_s", HD_KEY_REAL, 0, 1e9, "60", NULL, "global",
     "seconds from one checkpoint to the next; 0: none but when a signal asks to stop",
     "save_freq|save_interval|checkpoint_freq|checkpoint_interval"},
    {"runtime.checkpoint_keep", HD_KEY_INT, 1, 1000, "2", NULL, "global",
     "checkpoints that are kept, the newest", NULL},
    {"runtime.checkpoint_timeout_s", HD_KEY_REAL, 1, 1e6, "300", NULL, "global",
     "seconds after which a checkpoint that is not written yet is given up", NULL},
    {"runtime.sigterm_grace_s", HD_KEY_INT, 1, 86400, "20", NULL, "global",
     "seconds that Ctrl-C, SIGTERM and SIGHUP leave for a checkpoint", NULL},
    {"runtime.reduction", HD_KEY_CHOICE, 0, 0, "deterministic", "deterministic|nccl", "global",
     "how ranks' gradients are added: in the fixed tree, or, between GPUs, in NCCL's own order",
     NULL},
    {"runtime.transport", HD_KEY_CHOICE, 0, 0, "auto", "auto|shm|mpi|ucx|tcp", "global",
     "how ranks exchange what is not between GPUs; auto: shared memory on one host; among several "
     "MPI under its launchers, UCX where all have RDMA, else TCP",
     "backend|dist_backend"},
    {"runtime.exchange", HD_KEY_CHOICE, 0, 0, "auto", "auto|direct|pairs|halves", "global",
     "how nodes exchange what ranks add: all with all, or by pairs in rounds, whole or in halves; "
     "auto: by number and size",
     NULL},
    {"runtime.open_exchanges", HD_KEY_INT, 1, 16, "auto", "auto", "global",
     "buckets whose exchanges between ranks may be open at once, beside one of every other "
     "collective; 1: one exchange of any kind at a time; auto: 4 buckets on one host, 1 between "
     "hosts",
     NULL},
    {"runtime.allow_fingerprint_mismatch", HD_KEY_BOOL, 0, 0, "false", NULL, "global",
     "let ranks of different arithmetic fingerprints work together", NULL},
    {"runtime.allow_origin_mismatch", HD_KEY_BOOL, 0, 0, "false", NULL, "global",
     "let ranks whose data sets or environments' code differ work together, and a run go on with "
     "others than its checkpoint's",
     NULL},
    {0},
};

const struct hd_key *const *hd_run_keys_get(int *n_p)
{
    static const struct hd_key *const tables[] = {run_keys, hd_task_keys};
    *n_p = sizeof tables / sizeof *tables;
    return tables;
}

int hd_run_keys_print(const char *path, FILE *file)
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    char suggestion[HD_DESCRIPTION_BYTES];
    if (hd_schema_print(tables, n, path, file) > 0)
        return HD_OK;
    hd_schema_suggest(tables, n, path, suggestion);
    return hd_fail(HD_ERR_INPUT, "there is no key '%s'%s%s%s; 'runner keys' lists all", path,
                   suggestion[0] ? " (did you mean " : "", suggestion, suggestion[0] ? "?)" : "");
}

int hd_run_keys_print_json(FILE *file)
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    return hd_schema_print_json(tables, n, "Run file of Heddle", file);
}
