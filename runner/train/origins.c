/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/origins.h"

#include "runner/base/origins.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORIGINS_MAX = 1 << 20, DIFFERENCE = HD_RENDEZVOUS_TEXT - 100 };

/* Copies bytes[n] of rank 0 to all ranks. */
static int broadcast(struct hd_rendezvous *rendezvous, char *bytes, int64_t n)
{
    for (int64_t at = 0; at < n; at += HD_RENDEZVOUS_MAX_BYTES) {
        const int64_t left = n - at;
        HD_TRY(hd_rendezvous_broadcast(rendezvous, bytes + at,
                                       left < HD_RENDEZVOUS_MAX_BYTES ? left
                                                                      : HD_RENDEZVOUS_MAX_BYTES));
    }
    return HD_OK;
}

/* Stores rank 0's origins, for json_decref; `ours` is the text of this rank's. */
static int hear_rank0(const struct hd_train *train, const char *ours, json_t **theirs_p)
{
    struct hd_rendezvous *rendezvous = train->ranks.rendezvous;
    int64_t n = (int64_t)strlen(ours);
    HD_TRY(hd_rendezvous_broadcast(rendezvous, &n, sizeof n));
    if (n <= 0 || n > ORIGINS_MAX)
        return hd_fail(HD_ERR_INPUT, "rank 0 tells its origins in %lld bytes", (long long)n);
    char *text = hd_alloc(n + 1, 1);
    if (!text)
        return HD_ERR_NOMEM;
    if (train->ranks.world.rank == 0)
        memcpy(text, ours, (size_t)n);
    const int status = broadcast(rendezvous, text, n);
    *theirs_p = status == HD_OK ? json_loads(text, 0, NULL) : NULL;
    hd_free(text);
    return status;
}

/* Writes how this rank differs from rank 0, "" where it does not. */
static int compare_ranks(const struct hd_train *train, char text[DIFFERENCE])
{
    char host[32] = "", here[48];
    json_t *theirs = NULL;
    char *ours = json_dumps(train->origins, JSON_COMPACT);
    if (!ours)
        return HD_ERR_NOMEM;
    gethostname(host, sizeof host - 1);
    snprintf(here, sizeof here, "on %s", host);
    const int status = hear_rank0(train, ours, &theirs);
    if (status == HD_OK)
        hd_origins_describe_difference(train->origins, here, theirs, "on rank 0", text, DIFFERENCE);
    json_decref(theirs);
    free(ours);
    return status;
}

static void compare_checkpoint(const struct hd_train *train, char text[DIFFERENCE])
{
    if (!train->resume_from)
        return;
    const json_t *run = json_object_get(hd_checkpoint_get_metadata(train->resume_from), "run");
    hd_origins_describe_difference(train->origins, "now", json_object_get(run, "origins"),
                                   "in the checkpoint", text, DIFFERENCE);
}

int hd_origins_check(const struct hd_train *train)
{
    char difference[DIFFERENCE] = "", text[HD_RENDEZVOUS_TEXT];
    if (train->ranks.world.world > 1)
        HD_TRY(compare_ranks(train, difference));
    if (!difference[0])
        compare_checkpoint(train, difference);
    const bool allowed = train->run_spec.settings.allow_origin_mismatch;
    if (difference[0] && allowed)
        hd_log(HD_LOG_WARN, "%s", difference);
    snprintf(text, sizeof text, "%s; runtime.allow_origin_mismatch: true accepts that", difference);
    return hd_rendezvous_agree(train->ranks.rendezvous,
                               difference[0] && !allowed ? HD_ERR_INPUT : HD_OK, text);
}
