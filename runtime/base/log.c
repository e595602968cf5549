/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

static struct {
    pthread_mutex_t lock;
    void (*sink)(enum hd_log_level, const char *, void *);
    void *sink_arg;
    enum hd_log_level level;
    int rank, world;
    bool progress_shown;
    char last_error[1024];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = HD_LOG_INFO, .rank = -1, .world = 1};

void hd_log_set_sink(void (*sink)(enum hd_log_level, const char *, void *), void *arg)
{
    pthread_mutex_lock(&state.lock);
    state.sink = sink;
    state.sink_arg = arg;
    pthread_mutex_unlock(&state.lock);
}

void hd_log_set_level(enum hd_log_level level)
{
    pthread_mutex_lock(&state.lock);
    state.level = level;
    pthread_mutex_unlock(&state.lock);
}

void hd_log_set_rank(int rank, int world)
{
    pthread_mutex_lock(&state.lock);
    state.rank = rank;
    state.world = world;
    pthread_mutex_unlock(&state.lock);
}

static void write_all(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

/* Takes no lock, which the thread that crashes may hold, and formats without the library. */
void hd_log_write_last(const char *text, size_t length)
{
    char digits[16];
    size_t at = sizeof digits;
    int rank = state.rank;
    if (state.progress_shown)
        write_all("\n", 1);
    if (rank >= 0 && state.world > 1) {
        do
            digits[--at] = (char)('0' + rank % 10);
        while ((rank /= 10) > 0);
        write_all("[rank ", 6);
        write_all(digits + at, sizeof digits - at);
        write_all("] ", 2);
    }
    write_all(text, length);
    write_all("\n", 1);
}

static void emit(enum hd_log_level level, const char *message)
{
    static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
    char line[LINE_MAX_BYTES];
    int used = 0;
    if (state.progress_shown && !state.sink)
        used = snprintf(line, sizeof line, "\r\033[K");
    state.progress_shown = false;
    int start = used;
    if (state.rank >= 0 && state.world > 1 && level <= HD_LOG_WARN)
        used += snprintf(line + used, sizeof line - (size_t)used, "[rank %d] ", state.rank);
    used += snprintf(line + used, sizeof line - (size_t)used, "%s%s", names[level], message);
    if (used > (int)sizeof line - 2)
        used = (int)sizeof line - 2;
    if (state.sink) {
        state.sink(level, line + start, state.sink_arg);
        return;
    }
    line[used] = '\n';
    write_all(line, (size_t)used + 1);
}

/* Replaces what a terminal would take for commands: names and exceptions come from outside. */
static void make_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if ((*c < ' ' && *c != '\n' && *c != '\t') || *c == 127)
            *c = '?';
        else if (*c == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0) /* the same in UTF-8 */
            c[0] = c[1] = '?';
}

static void log_va(enum hd_log_level level, const char *format, va_list args)
{
    int saved_errno = errno;
    pthread_mutex_lock(&state.lock);
    bool quiet_rank = state.rank > 0 && level >= HD_LOG_INFO;
    if (level <= state.level && !quiet_rank) {
        char message[LINE_MAX_BYTES - 64];
        vsnprintf(message, sizeof message, format, args);
        make_printable(message);
        if (level == HD_LOG_ERROR)
            snprintf(state.last_error, sizeof state.last_error, "%.*s",
                     (int)sizeof state.last_error - 1, message);
        emit(level, message);
    }
    pthread_mutex_unlock(&state.lock);
    errno = saved_errno;
}

void hd_log(enum hd_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(level, format, args);
    va_end(args);
}

int hd_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(HD_LOG_ERROR, format, args);
    va_end(args);
    return status;
}

void hd_log_get_last_error(char *text, int64_t bytes)
{
    pthread_mutex_lock(&state.lock);
    snprintf(text, (size_t)bytes, "%s", state.last_error);
    pthread_mutex_unlock(&state.lock);
}

bool hd_log_can_show_progress(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* Returns how many characters fit beside the cursor; a terminal may not know its width. */
static int get_width(void)
{
    struct winsize size;
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known && size.ws_col < LINE_MAX_BYTES / 2 ? size.ws_col - 1 : LINE_MAX_BYTES / 2;
}

void hd_log_show_progress(const char *line)
{
    if (!hd_log_can_show_progress())
        return;
    pthread_mutex_lock(&state.lock);
    if (line || state.progress_shown) {
        char text[LINE_MAX_BYTES];
        int n = line ? snprintf(text, sizeof text, "\r\033[K%.*s", get_width(), line)
                     : snprintf(text, sizeof text, "\n");
        write_all(text, (size_t)n);
        state.progress_shown = line != NULL;
    }
    pthread_mutex_unlock(&state.lock);
}
