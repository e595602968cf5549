/* SPDX-License-Identifier: Apache-2.0 */
/* runner launch: checks everything that can be checked, then starts `runner run` for every rank. */
#include "runtime/launch/launch.h"

#include "graph/plan/plan.h"
#include "runner/base/commands.h"
#include "runner/base/process.h"
#include "runner/base/run_spec.h"
#include "runner/base/signals.h"
#include "runner/train/base/gpus.h"
#include "runner/train/outputs/results.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/result.h"
#include "runtime/machine/gpu_list.h"
#include "runtime/machine/machine.h"
#include "runtime/machine/topology.h"
#include "runtime/ranks/secret.h"
#include "runtime/ranks/world.h"
#include "tasks/output/inspect.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The things that are needed to start ranks, again if need be, and to tell how the run ended. */
struct launching {
    struct hd_options *options;
    int64_t begin_ns, shards;
    int nproc_per_node, nnodes;
    int ranks, sigterm_grace_s;
    char shards_set[48];
    char resume[4096 + 16]; /* --resume=DIR */
    char **arguments;       /* of `runner run` */
};

enum { ROOM = 8 }; /* for what ranks get besides the launcher's own arguments */

/* Fills launching->arguments, with `more` (NULL-ended) behind the other options. */
static void make_rank_arguments(struct launching *launching, char *const more[])
{
    const struct hd_options *options = launching->options;
    char **next = launching->arguments;
    int i = 1;
    *next++ = "runner";
    *next++ = "run";
    for (; i < options->argc && strcmp(options->argv[i], "--") != 0; i++) {
        bool takes_value;
        if (!hd_option_is_for_launcher(options->argv[i], &takes_value))
            *next++ = options->argv[i];
        else
            i += takes_value;
    }
    for (; *more; more++)
        *next++ = *more;
    for (; i < options->argc; i++) /* `--` and what follows it */
        *next++ = options->argv[i];
    *next = NULL;
}

static bool has_checkpoint(const char *dir)
{
    char *path = hd_format("%s/ckpt/state/latest", dir);
    const bool has = path && access(path, F_OK) == 0;
    hd_free(path);
    return has;
}

/* Ranks go on where others, perhaps more, were lost. The directory is named, because the newest of
 * its name may be another run's. Called between attempts, when nobody uses the arguments. */
static char *const *get_arguments(void *arg, const char *dir, bool *from_checkpoint_p)
{
    struct launching *launching = arg;
    char *more[] = {"--set", launching->shards_set, launching->resume, NULL};
    snprintf(launching->shards_set, sizeof launching->shards_set, "world.shards=%lld",
             (long long)launching->shards);
    snprintf(launching->resume, sizeof launching->resume, "--resume%s%s", dir[0] ? "=" : "", dir);
    if (!dir[0] && (!launching->options->dir || launching->options->resume))
        more[2] = NULL;
    make_rank_arguments(launching, more);
    *from_checkpoint_p = dir[0] && has_checkpoint(dir);
    return launching->arguments;
}

/* Ranks that were killed have left no word. */
static void on_end(void *arg, const char *dir, int number, const char *why)
{
    const struct launching *launching = arg;
    char detail[512];
    if (hd_end_exists(dir))
        return;
    if (number)
        snprintf(detail, sizeof detail, "SIG%s", sigabbrev_np(number));
    else
        snprintf(detail, sizeof detail, "%s", why);
    hd_end_write(&(struct hd_end){
        .options = launching->options,
        .dir = dir,
        .reason = number ? HD_RESULT_STOPPED : HD_RESULT_FAILED,
        .detail = detail,
        .wall_s = (double)(hd_clock_get_ns() - launching->begin_ns) * 1e-9,
        .ranks = launching->ranks,
    });
}

static bool read_number(const char *text, int *number_p)
{
    int number, end = 0;
    if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 4 ||
        sscanf(text, "%d%n", &number, &end) != 1 || number < 1 || number > HD_WORLD_MAX)
        return false;
    *number_p = number;
    return true;
}

static int count_gpus(void)
{
    struct hd_gpu gpus[HD_GPUS_MAX];
    return hd_gpus_list(NULL, gpus);
}

/* The cores that this process may use, or the GPUs of this host, may say the number. */
static int count_ranks(const char *text, int *ranks_p)
{
    static const char *const words[] = {"cpu", "gpu", "auto"};
    enum { CPU, GPU, AUTO, NUMBER };
    int word = 0, ranks = 1;
    while (word < NUMBER && strcmp(words[word], text ? text : "") != 0)
        word++;
    if (word == NUMBER && text && !read_number(text, &ranks))
        return hd_fail(HD_ERR_INPUT,
                       "--nproc-per-node: expected a number from 1 to %d, cpu, gpu or auto, found "
                       "'%s'",
                       HD_WORLD_MAX, text);
    if (word == GPU || word == AUTO)
        ranks = count_gpus();
    if (word == GPU && ranks == 0)
        return hd_fail(HD_ERR_INPUT, "--nproc-per-node gpu: CUDA shows no GPU to this process; cpu "
                                     "starts a rank per core");
    if (word == CPU || ranks == 0)
        HD_TRY(hd_cores_count(&ranks));
    *ranks_p = ranks;
    return HD_OK;
}

static int count_nodes(struct launching *launching)
{
    const char *text = launching->options->nnodes;
    launching->nnodes = 1;
    if (text && strchr(text, ':'))
        return hd_fail(
            HD_ERR_INPUT,
            "--nnodes %s: runner launch starts a fixed number of nodes. Where nodes come "
            "and go, torchrun starts the ranks: torchrun --nnodes=%s "
            "--rdzv-backend=c10d --rdzv-endpoint=HOST:PORT --max-restarts=N --no-python "
            "runner run ... --resume",
            text, text);
    if (text && !read_number(text, &launching->nnodes))
        return hd_fail(HD_ERR_INPUT, "--nnodes: expected a number from 1 to %d, found '%s'",
                       HD_WORLD_MAX, text);
    return HD_OK;
}

static int check_memory(const struct launching *launching, const struct hd_run_spec *run_spec)
{
    struct hd_plan *plan;
    const struct hd_plan_gpus gpus = hd_gpus_plan(run_spec, launching->ranks);
    HD_TRY(hd_plan_create(run_spec->graph, 0, launching->ranks, &gpus,
                          run_spec->settings.param_check_interval, &plan));
    hd_plan_assign_channels(plan, run_spec->settings.open_exchanges, launching->nnodes == 1);
    int status = hd_plan_check_memory(plan, launching->nproc_per_node, hd_memory_count_available());
    hd_plan_destroy(plan);
    return status;
}

static int note_run(struct launching *launching, const struct hd_run_spec *run_spec)
{
    launching->sigterm_grace_s = run_spec->settings.sigterm_grace_s;
    launching->shards = run_spec->shards;
    return check_memory(launching, run_spec);
}

static int check(struct launching *launching)
{
    struct hd_run_spec run_spec;
    HD_TRY(count_ranks(launching->options->nproc_per_node, &launching->nproc_per_node));
    HD_TRY(count_nodes(launching));
    launching->ranks = launching->nproc_per_node * launching->nnodes;
    HD_TRY(hd_run_spec_load(launching->options, launching->ranks, &run_spec));
    const int status = note_run(launching, &run_spec);
    hd_run_spec_release(&run_spec);
    return status;
}

/* Reads from SLURM what srun knows of several nodes, so that it need not be said again. */
static void ask_slurm(struct hd_launch_options *options, char address[HD_ADDR_BYTES])
{
    int node_rank = 0;
    const bool known = options->nnodes > 1 && hd_world_read_slurm_node(&node_rank, address);
    if (known && !options->master_addr)
        options->master_addr = address;
    if (options->node_rank < 0)
        options->node_rank = node_rank;
}

/* One node needs no secret from outside: the launcher draws it. */
static int read_secret(const struct hd_options *options, struct hd_launch_options *launch,
                       uint8_t secret_p[HD_SECRET_BYTES])
{
    bool found;
    if (launch->nnodes == 1)
        return HD_OK;
    HD_TRY(hd_secret_read(options->secret_file, &found, secret_p));
    if (!found && !options->insecure)
        return hd_fail(HD_ERR_INPUT,
                       "--nnodes %d needs a secret by which the nodes know each other: make a file "
                       "by (umask 077 && head -c 32 /dev/urandom > heddle.secret), copy it to all "
                       "nodes and add --secret-file heddle.secret   (or HEDDLE_SECRET in the "
                       "environment, or let anybody join by --insecure)",
                       launch->nnodes);
    if (!found)
        hd_log(HD_LOG_WARN, "--insecure: whoever reaches the ranks' ports may join the run");
    launch->secret = secret_p;
    return HD_OK;
}

static void warn_oversubscribed(int ranks)
{
    int cores;
    if (hd_cores_count(&cores) == HD_OK && ranks > cores)
        hd_log(HD_LOG_WARN, "%d ranks on %d core%s: they take turns, each is slower", ranks, cores,
               cores == 1 ? "" : "s");
}

static int launch(struct launching *launching)
{
    const struct hd_options *options = launching->options;
    char address[HD_ADDR_BYTES];
    uint8_t secret[HD_SECRET_BYTES] = {0};
    struct hd_launch_options launch_options = {
        .nproc_per_node = launching->nproc_per_node,
        .nnodes = launching->nnodes,
        .node_rank = options->node_rank,
        .master_addr = options->master_addr,
        .master_port = options->master_port,
        .standalone = options->standalone,
        .max_restarts = options->max_restarts,
        .get_arguments = get_arguments,
        .on_end = on_end,
        .arg = launching,
        .shards = launching->shards,
        .sigterm_grace_s = launching->sigterm_grace_s,
    };
    make_rank_arguments(launching, (char *const[]){NULL});
    warn_oversubscribed(launching->nproc_per_node);
    ask_slurm(&launch_options, address);
    const int status = read_secret(options, &launch_options, secret);
    return status == HD_OK ? hd_ranks_launch(&launch_options, launching->arguments)
                           : hd_status_get_exit_code(status);
}

int hd_command_launch(struct hd_options *options)
{
    struct launching launching = {.options = options, .begin_ns = hd_clock_get_ns()};
    hd_signals_catch();
    hd_process_export_command();
    int status = check(&launching);
    launching.arguments = hd_alloc(options->argc + ROOM, sizeof *launching.arguments);
    if (status == HD_OK)
        status = launching.arguments ? HD_OK : HD_ERR_NOMEM;
    const int code = status == HD_OK ? launch(&launching) : hd_status_get_exit_code(status);
    hd_free(launching.arguments);
    return code;
}
