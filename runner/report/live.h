/* SPDX-License-Identifier: Apache-2.0 */
/* A page of runs that still go on, for browsers of this host. Called by the main thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Makes what a page shows from the files of its runs as they are now. */
struct hd_live {
    /* Makes a new object for hd_page_build. Errors (logged) are those of hd_history_read. */
    int (*build)(void *arg, json_t **data_p);
    /* Returns a number that is another one when the files are others. */
    uint64_t (*hash_files)(void *arg);
    void *arg;
};

/* Serves the page at `port` (0: a free one), which shows what is new as it comes, until Ctrl-C.
 * Returns HD_OK, or an error of the first build or of hd_server_open. */
int hd_live_serve(const struct hd_live *live, int port);

/* Returns the hash of when the logs and the result of a run directory were written last. */
uint64_t hd_live_hash_run(const char *dir);
