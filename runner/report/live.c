/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/live.h"

#include "runner/base/signals.h"
#include "runner/report/page.h"
#include "runner/server/server.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { LOOK_MS = 1000, REST = 4 }; /* a build is followed by a pause of so many times its length */

uint64_t hd_live_hash_run(const char *dir)
{
    static const char *const files[] = {"log/metrics.jsonl", "log/evaluator/evaluator_logger.txt",
                                        "result.json"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = hd_format("%s/%s", dir, files[i]);
        struct stat file = {0};
        if (path && stat(path, &file) != 0)
            file = (struct stat){0};
        hash = hd_hash_mix(hash, (uint64_t)file.st_size);
        hash = hd_hash_mix(hash, (uint64_t)file.st_mtim.tv_sec);
        hash = hd_hash_mix(hash, (uint64_t)file.st_mtim.tv_nsec);
        hd_free(path);
    }
    return hash;
}

/* Builds what is shown, marked as what goes on. */
static int build(const struct hd_live *live, json_t **data_p)
{
    HD_TRY(live->build(live->arg, data_p));
    json_object_set_new(*data_p, "live", json_true());
    return HD_OK;
}

static int publish(const struct hd_live *live, struct hd_server *server)
{
    json_t *data;
    HD_TRY(build(live, &data));
    char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(14));
    const int status = text ? hd_server_publish(server, text) : HD_ERR_NOMEM;
    json_decref(data);
    free(text);
    return status;
}

/* Publishes what is new. Files that are just being written may not be readable now. */
static void follow(const struct hd_live *live, struct hd_server *server, uint64_t shown)
{
    int64_t pause_ms = LOOK_MS;
    while (hd_interrupted == 0) {
        hd_server_serve(server, (int)pause_ms);
        const uint64_t now = live->hash_files(live->arg);
        pause_ms = LOOK_MS;
        if (now == shown || hd_interrupted != 0)
            continue;
        const int64_t start_ns = hd_clock_get_ns();
        if (publish(live, server) == HD_OK)
            shown = now;
        const int64_t took_ms = (hd_clock_get_ns() - start_ns) / 1000000;
        pause_ms = took_ms * REST > LOOK_MS ? took_ms * REST : LOOK_MS;
    }
}

int hd_live_serve(const struct hd_live *live, int port)
{
    struct hd_server *server;
    char *page;
    size_t bytes;
    hd_signals_catch();
    const uint64_t shown = live->hash_files(live->arg);
    json_t *data;
    HD_TRY(build(live, &data));
    HD_TRY(hd_page_build(data, &page, &bytes));
    int status = hd_server_open(port, page, &server);
    if (status == HD_OK) {
        hd_signals_set_started(0);
        follow(live, server, shown);
        hd_server_close(server);
    }
    free(page);
    return status;
}
