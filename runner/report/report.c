/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/report.h"

#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/history/history.h"
#include "runner/report/page.h"
#include "runner/report/videos.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

int hd_report_write(const char *dir, const char *out, char **path_p)
{
    struct hd_history history;
    HD_TRY(hd_history_read(dir, &history));
    char *path = out ? hd_strdup(out) : hd_format("%s/report.html", dir);
    int status = HD_ERR_NOMEM;
    if (path)
        status =
            hd_page_write(path, json_pack("{s:s, s:s, s:[o], s:o}", "kind", "report", "version",
                                          HD_VERSION, "runs", hd_history_build_json(&history, true),
                                          "videos", hd_videos_build_json(dir)));
    hd_history_release(&history);
    if (status == HD_OK && path_p)
        *path_p = path;
    else
        hd_free(path);
    return status;
}

int hd_command_report(struct hd_options *options)
{
    char *path;
    int status = hd_report_write(options->config, options->out, &path);
    if (status == HD_OK) {
        hd_log(HD_LOG_INFO, "%s", path);
        hd_free(path);
    }
    return hd_status_get_exit_code(status);
}
