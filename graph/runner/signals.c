/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/signals.h"

#include "runtime/base/status.h"

#include <signal.h>
#include <unistd.h>

atomic_int hd_interrupted, hd_asked_to_stop;
static atomic_int started;
static unsigned grace;

/* The first SIGTERM asks for a checkpoint and, in case that none comes, for an alarm. */
static void on_signal(int signal_number)
{
    int status = signal_number == SIGINT ? HD_ERR_INTERRUPTED : HD_ERR_STOPPED;
    if (hd_interrupted || !started)
        _exit(hd_status_get_exit_code(status));
    if (signal_number == SIGTERM && !hd_asked_to_stop && grace > 0) {
        hd_asked_to_stop = 1;
        alarm(grace);
        return;
    }
    hd_interrupted = signal_number == SIGINT ? SIGINT : SIGTERM;
}

void hd_signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of a write */
}

void hd_signals_set_started(int sigterm_grace_s)
{
    grace = (unsigned)sigterm_grace_s;
    started = 1;
}
