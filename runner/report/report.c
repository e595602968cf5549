/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/report.h"

#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/history/history.h"
#include "runner/report/live.h"
#include "runner/report/page.h"
#include "runner/report/videos.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes what the page shows. */
static int build(const char *dir, bool timeline, json_t **data_p)
{
    struct hd_history history;
    HD_TRY(hd_history_open(dir, &history));
    *data_p = json_pack("{s:s, s:s, s:[o], s:o}", "kind", "report", "version", HD_VERSION, "runs",
                        hd_history_build_json(&history, timeline, 1), "videos",
                        hd_videos_build_json(dir));
    hd_history_release(&history);
    return *data_p ? HD_OK : HD_ERR_NOMEM;
}

int hd_report_write(const char *dir, const char *out, char **path_p)
{
    json_t *data;
    HD_TRY(build(dir, true, &data));
    struct stat about;
    const bool is_file = stat(dir, &about) == 0 && S_ISREG(about.st_mode);
    char *path = out ? hd_strdup(out) : hd_format(is_file ? "%s.html" : "%s/report.html", dir);
    int status = HD_ERR_NOMEM;
    if (path)
        status = hd_page_write(path, data);
    else
        json_decref(data);
    if (status == HD_OK && path_p)
        *path_p = path;
    else
        hd_free(path);
    return status;
}

/* The timeline is there when a run has ended. */
static int build_live(void *dir, json_t **data_p)
{
    return build(dir, false, data_p);
}

static uint64_t hash_files(void *dir)
{
    return hd_live_hash_run(dir);
}

/* Writes the numbers that a run logged; to stdout where `out` is "-". */
static int write_csv(const char *dir, const char *out)
{
    struct hd_history history;
    HD_TRY(hd_history_read(dir, &history));
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory)
        hd_curves_write_csv(&history.curves, memory);
    int status = HD_OK;
    if (!memory || fclose(memory) != 0)
        status = hd_fail(HD_ERR_NOMEM, "%s: no memory for its numbers", dir);
    else if (strcmp(out, "-") != 0)
        status = hd_file_write_atomic(out, text, (int64_t)bytes);
    else
        fwrite(text, 1, bytes, stdout); /* which the process checks at its end */
    free(text);
    hd_history_release(&history);
    return status;
}

int hd_command_report(struct hd_options *options)
{
    if (options->csv)
        return hd_status_get_exit_code(write_csv(options->config, options->csv));
    if (options->http >= 0) {
        const struct hd_live live = {build_live, hash_files, (char *)options->config};
        return hd_status_get_exit_code(hd_live_serve(&live, options->http));
    }
    char *path;
    int status = hd_report_write(options->config, options->out, &path);
    if (status == HD_OK) {
        hd_log(HD_LOG_INFO, "%s", path);
        hd_free(path);
    }
    return hd_status_get_exit_code(status);
}
