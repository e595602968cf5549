/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/signals.h"

#include "runtime/base/status.h"

#include <unistd.h>

volatile sig_atomic_t hd_interrupted;
static volatile sig_atomic_t started;

static void on_signal(int signal_number)
{
    int status = signal_number == SIGTERM ? HD_ERR_STOPPED : HD_ERR_INTERRUPTED;
    if (hd_interrupted || !started)
        _exit(hd_status_exit_code(status));
    hd_interrupted = signal_number;
}

void hd_signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void hd_signals_started(void)
{
    started = 1;
}
