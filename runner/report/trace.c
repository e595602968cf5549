/* SPDX-License-Identifier: Apache-2.0 */
/* runner trace: where the time of a run went. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/history/history.h"
#include "runner/trace/write.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

static int write_perfetto(const struct hd_history *history, const char *path)
{
    struct hd_file_draft draft;
    if (!history->trace)
        return hd_fail(HD_ERR_INPUT, "%s has no trace: run it with --trace", history->dir);
    HD_TRY(hd_file_draft_open(path, &draft));
    int status = hd_trace_file_write_perfetto(history->trace, draft.file);
    if (status == HD_OK)
        status = hd_file_draft_publish(&draft);
    hd_file_draft_discard(&draft);
    return status;
}

int hd_command_trace(struct hd_options *options)
{
    struct hd_history history;
    int status = hd_history_open(options->config, &history);
    if (status == HD_OK) {
        status = options->perfetto
                     ? write_perfetto(&history, options->perfetto)
                     : hd_history_print_times(&history, options->link * 1e6 / 8, stdout);
        hd_history_release(&history);
    }
    return hd_status_get_exit_code(status);
}
