/* SPDX-License-Identifier: Apache-2.0 */
/* runner trace: where the time of a run went. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/history/history.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

int hd_command_trace(struct hd_options *options)
{
    struct hd_history history;
    int status = hd_history_read(options->config, &history);
    if (status == HD_OK) {
        hd_history_print_times(&history, stdout);
        hd_history_release(&history);
    }
    return hd_status_get_exit_code(status);
}
