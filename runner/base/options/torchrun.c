/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/options/torchrun.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

static const struct substitute {
    const char *option, *instead;
} table[] = {
    {"--rdzv-backend", "the ranks meet at --master-addr and --master-port"},
    {"--rdzv-endpoint", "HOST:PORT is --master-addr HOST --master-port PORT"},
    {"--rdzv-id", "runs are told apart by their secret (--secret-file)"},
    {"--rdzv-conf", "HD_RENDEZVOUS_TIMEOUT_S in the environment says how long ranks wait"},
    {"--local-addr", "rank 0 listens at --master-addr"},
    {"--monitor-interval", "the launcher notices at once"},
    {"--shutdown-timeout", "--set runtime.sigterm_grace_s=SECONDS"},
    {"--signals-to-handle", "SIGTERM, SIGINT and SIGHUP are passed on"},
    {"--no-python", "ranks run this program"},
    {"--module", "ranks run this program"},
    {"--run-path", "ranks run this program"},
    {"--start-method", "ranks are processes of their own"},
    {"--role", "all ranks have the same"},
    {"--log-dir", "logs are in the run directory (--dir)"},
    {"--redirects", "logs are in the run directory (--dir)"},
    {"--tee", "logs are in the run directory (--dir)"},
    {"--local-ranks-filter", "logs are in the run directory (--dir)"},
    {"--numa-binding", "ranks are bound to cores of their own"},
    {"--virtual-local-rank", "ranks choose their GPUs themselves"},
};

bool hd_torchrun_option_has_name(const char *name, const char *given, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != given[i] && !(name[i] == '-' && given[i] == '_'))
            return false;
    return true;
}

int hd_torchrun_option_refuse(const char *typed)
{
    const size_t length = strcspn(typed, "=");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (hd_torchrun_option_has_name(table[i].option, typed, length))
            return hd_fail(HD_ERR_INPUT,
                           "%.*s is torchrun's: here %s. Of torchrun's options runner launch has "
                           "--nproc-per-node, --nnodes, --node-rank, --master-addr, --master-port, "
                           "--standalone and --max-restarts",
                           (int)length, typed, table[i].instead);
    return HD_OK;
}
