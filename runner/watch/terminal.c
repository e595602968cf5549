/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/watch/terminal.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The other screen, without a cursor; and back: plain text, the cursor, the first screen. */
static const char enter[] = "\033[?1049h\033[?25l\033[2J", leave[] = "\033[0m\033[?25h\033[?1049l";

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { N_CRASHES = sizeof crashes / sizeof *crashes };

static struct termios before;
static struct sigaction handlers[N_CRASHES]; /* that were there before */
static atomic_bool taken;

/* Calls nothing that a signal handler may not. */
static void give_back(void)
{
    if (!atomic_exchange(&taken, false))
        return;
    const ssize_t written = write(STDOUT_FILENO, leave, sizeof leave - 1);
    (void)written; /* a terminal that is gone needs nothing back */
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

/* Leaves the signal to whoever caught it before: a fault occurs again when this returns. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    give_back();
    for (int i = 0; i < N_CRASHES; i++)
        if (crashes[i] == number)
            sigaction(number, &handlers[i], NULL);
    if (info->si_code <= 0)
        raise(number);
}

static void catch_crashes(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_CRASHES; i++)
        sigaction(crashes[i], &action, &handlers[i]);
}

int hd_terminal_open(void)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return hd_fail(HD_ERR_INPUT, "watch draws on a terminal, and stdin and stdout are none; "
                                     "--http PORT serves a page for a browser instead");
    struct termios raw = before;
    cfmakeraw(&raw);
    catch_crashes();
    taken = true;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    fputs(enter, stdout);
    fflush(stdout);
    return HD_OK;
}

void hd_terminal_close(void)
{
    if (!taken)
        return;
    fflush(stdout);
    give_back();
    for (int i = 0; i < N_CRASHES; i++)
        sigaction(crashes[i], &handlers[i], NULL);
}

struct hd_terminal_size hd_terminal_get_size(void)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    const int columns = size.ws_col > 0 ? size.ws_col : 80,
              rows = size.ws_row > 0 ? size.ws_row : 24;
    return (struct hd_terminal_size){.columns = columns,
                                     .rows = rows,
                                     .height = size.ws_ypixel > 0 ? size.ws_ypixel : 20 * rows,
                                     .width = size.ws_xpixel > 0 ? size.ws_xpixel : 10 * columns};
}

int hd_terminal_read_key(int timeout_ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char key = 0;
    if (poll(&in, 1, timeout_ms) <= 0)
        return 0;
    const ssize_t n = read(STDIN_FILENO, &key, 1);
    return n == 1 ? key : n == 0 ? HD_TERMINAL_QUIT : 0; /* a terminal that is gone */
}
