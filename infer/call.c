/* SPDX-License-Identifier: Apache-2.0 */
#include "infer/call_internal.h"
#include "infer/infer.h"
#include "kernels/conv/team.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/subnormal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct hd_call *present;

static void add_line(struct hd_call *call, const char *line)
{
    const size_t room = HEDDLE_MESSAGE - call->used;
    call->errors++;
    if (!call->message || room < 2)
        return;
    const int length =
        snprintf(call->message + call->used, room, "%s%s", call->used > 0 ? "\n" : "", line);
    call->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void take_line(enum hd_log_level level, const char *line, void *arg)
{
    static const char prefix[] = "error: ";
    (void)arg;
    if (level != HD_LOG_ERROR || !present)
        return;
    add_line(present,
             strncmp(line, prefix, sizeof prefix - 1) == 0 ? line + sizeof prefix - 1 : line);
}

static void take_log(void)
{
    hd_log_set_sink(take_line, NULL);
}

void hd_call_begin(struct hd_call *call, char *message)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, take_log);
    *call = (struct hd_call){.message = message,
                             .float_mode = hd_subnormals_get_mode(),
                             .team = hd_team_set_size(1),
                             .outer = present};
    if (message)
        message[0] = '\0';
    hd_subnormals_flush();
    present = call;
}

int hd_call_end(struct hd_call *call, int status)
{
    if (status == HD_OK && call->errors > 0)
        status = HD_ERR_TASK;
    if (status != HD_OK && call->errors == 0)
        add_line(call, hd_status_get_text(status));
    present = call->outer;
    hd_team_set_size(call->team);
    hd_subnormals_set_mode(call->float_mode);
    return status;
}

void hd_call_report(const struct hd_diag *diag)
{
    const char *line;
    for (int64_t i = 0; present && (line = hd_diag_get_line(diag, i)); i++)
        add_line(present, line);
}
