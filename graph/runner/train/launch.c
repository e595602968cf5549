/* SPDX-License-Identifier: Apache-2.0 */
/* runner launch: checks everything that can be checked, then starts `runner run` for every rank. */
#include "runtime/ranks/launch.h"

#include "graph/runner/commands.h"
#include "graph/runner/run_spec.h"
#include "graph/runner/signals.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/secret.h"
#include "runtime/ranks/world.h"

#include <string.h>

/* Returns whether an argument is an option of launch alone, which is not passed on. */
static bool is_launch_option(const char *argument, bool *takes_value)
{
    static const char *const names[] = {"nproc-per-node", "nnodes",      "node-rank",
                                        "master-addr",    "master-port", "max-restarts",
                                        "secret-file"};
    size_t length = strcspn(argument, "=");
    *takes_value = false;
    if (strncmp(argument, "--", 2) != 0)
        return false;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        bool same = strlen(names[i]) == length - 2;
        for (size_t j = 0; same && names[i][j]; j++)
            same = names[i][j] == argument[2 + j] || (names[i][j] == '-' && argument[2 + j] == '_');
        if (same) {
            *takes_value = argument[length] != '=';
            return true;
        }
    }
    return strcmp(argument, "--standalone") == 0 || strcmp(argument, "--insecure") == 0;
}

/* Returns the arguments of `runner run`, an array that hd_free frees; NULL without memory. Ranks
 * that go on where others, perhaps more, were lost get `shards`, a `world.shards=N`; the first ones
 * NULL.
 */
static char **make_rank_arguments(const struct hd_options *options, const char *shards)
{
    char **arguments = hd_alloc(options->argc + 6, sizeof *arguments);
    if (!arguments)
        return NULL;
    int n = 0, i = 1;
    arguments[n++] = "runner";
    arguments[n++] = "run";
    for (; i < options->argc && strcmp(options->argv[i], "--") != 0; i++) {
        bool takes_value;
        if (!is_launch_option(options->argv[i], &takes_value))
            arguments[n++] = options->argv[i];
        else
            i += takes_value;
    }
    if (shards) {
        arguments[n++] = "--set";
        arguments[n++] = (char *)shards;
        if (!options->resume)
            arguments[n++] = "--resume";
    }
    for (; i < options->argc; i++) /* `--` and what follows it */
        arguments[n++] = options->argv[i];
    return arguments;
}

static int check(const struct hd_options *options, int ranks, int *grace_s_p, int64_t *shards_p)
{
    struct hd_run_spec run_spec;
    HD_TRY(hd_run_spec_load(options, ranks, &run_spec));
    *grace_s_p = (int)hd_config_get_int(run_spec.config, "runtime.sigterm_grace_s");
    *shards_p = run_spec.shards;
    hd_run_spec_release(&run_spec);
    return HD_OK;
}

/* Reads from SLURM what srun knows of several nodes, so that it need not be said again. */
static void ask_slurm(struct hd_launch_options *options, char address[HD_ADDR_BYTES])
{
    int node_rank = 0;
    if (options->nnodes > 1 && hd_world_read_slurm_node(&node_rank, address) &&
        !options->master_addr)
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

int hd_command_launch(struct hd_options *options)
{
    char address[HD_ADDR_BYTES];
    char shards_text[48];
    int sigterm_grace_s;
    int64_t shards;
    hd_signals_catch();
    int status =
        check(options, options->nproc_per_node * options->nnodes, &sigterm_grace_s, &shards);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    snprintf(shards_text, sizeof shards_text, "world.shards=%lld", (long long)shards);
    char **arguments = make_rank_arguments(options, NULL);
    char **again = make_rank_arguments(options, shards_text);
    int code = hd_status_get_exit_code(HD_ERR_NOMEM);
    if (arguments && again) {
        struct hd_launch_options launch_options = {
            .nproc_per_node = options->nproc_per_node,
            .nnodes = options->nnodes,
            .node_rank = options->node_rank,
            .master_addr = options->master_addr,
            .master_port = options->master_port,
            .standalone = options->standalone,
            .max_restarts = options->max_restarts,
            .argv_again = again,
            .shards = shards,
            .sigterm_grace_s = sigterm_grace_s,
        };
        uint8_t secret[HD_SECRET_BYTES] = {0};
        ask_slurm(&launch_options, address);
        status = read_secret(options, &launch_options, secret);
        code = status == HD_OK ? hd_ranks_launch(&launch_options, arguments)
                               : hd_status_get_exit_code(status);
    }
    hd_free(arguments);
    hd_free(again);
    return code;
}
