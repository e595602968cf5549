/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/signals.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* A process may get the same Ctrl-C from the terminal and from its launcher. */
enum { SAME_NS = 200000000 };

atomic_int hd_interrupted, hd_asked_to_stop;
static atomic_int started;
static unsigned grace;
static atomic_int_fast64_t asked_ns; /* when the first signal came */

static void ask(int number)
{
    hd_asked_to_stop = number;
    asked_ns = hd_clock_get_ns();
    if (grace > 0)
        alarm(grace);
    else
        hd_interrupted = number;
}

static void on_signal(int number)
{
    if (!started)
        _exit(hd_status_get_exit_code(number == SIGINT ? HD_ERR_INTERRUPTED : HD_ERR_STOPPED));
    if (!hd_asked_to_stop)
        ask(number);
    else if (number == SIGALRM && !hd_interrupted)
        hd_interrupted = hd_asked_to_stop;
    else if (number == SIGINT && hd_clock_get_ns() - asked_ns > SAME_NS) {
        if (hd_interrupted)
            _exit(hd_status_get_exit_code(HD_ERR_INTERRUPTED));
        hd_interrupted = SIGINT;
    }
}

void hd_signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal}, hangup;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of a write */
}

void hd_signals_set_started(int sigterm_grace_s)
{
    grace = (unsigned)sigterm_grace_s;
    started = 1;
}

void hd_signals_announce(void)
{
    static atomic_bool announced;
    const int number = hd_asked_to_stop;
    if (!number || grace == 0 || atomic_exchange(&announced, true))
        return;
    if (number == SIGINT)
        hd_log(HD_LOG_INFO, "stopping after this iteration, with a checkpoint; Ctrl-C again stops "
                            "at once");
    else
        hd_log(HD_LOG_INFO, "SIG%s: stopping after this iteration, with a checkpoint",
               sigabbrev_np(number));
}
