/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/process.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void hd_process_open_standard_descriptors(void)
{
    int fd = STDIN_FILENO;
    while (fd >= 0 && fd <= STDERR_FILENO) /* the lowest free number is taken */
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
}

void hd_process_buffer_output(void)
{
    static char buffer[1 << 16];
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

/* Appends a word to text[bytes], in quotes where a shell would not read it as one word. */
static void append_word(const char *word, char *text, size_t bytes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,+@%";
    const char *quote = *word && word[strspn(word, plain)] == '\0' ? "" : "'";
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s%s%s", used > 0 ? " " : "", quote, word, quote);
}

void hd_process_get_command(char text_p[HD_COMMAND_BYTES])
{
    const char *launcher = getenv("HD_COMMAND");
    char words[HD_COMMAND_BYTES] = "";
    text_p[0] = '\0';
    if (launcher) {
        snprintf(text_p, HD_COMMAND_BYTES, "%s", launcher);
        return;
    }
    FILE *file = fopen("/proc/self/cmdline", "re");
    if (!file)
        return;
    const size_t n = fread(words, 1, sizeof words - 1, file);
    for (const char *word = words; word < words + n; word += strlen(word) + 1)
        append_word(word, text_p, HD_COMMAND_BYTES);
    fclose(file);
}

void hd_process_export_command(void)
{
    char command[HD_COMMAND_BYTES];
    hd_process_get_command(command);
    setenv("HD_COMMAND", command, 1);
}

static int check_limit(int resource, rlim_t unit, rlim_t min, const char *what, const char *command)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur / unit >= min)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%s is limited to %llu, at least %llu are needed ('%s' shows the "
                   "limit and sets it)",
                   what, (unsigned long long)(limit.rlim_cur / unit), (unsigned long long)min,
                   command);
}

int hd_process_check_limits(void)
{
    enum { FILES_MIN = 32, STACK_MIN_KIB = 1024 };
    HD_TRY(check_limit(RLIMIT_STACK, 1024, STACK_MIN_KIB, "the stack in KiB", "ulimit -s"));
    return check_limit(RLIMIT_NOFILE, 1, FILES_MIN, "the number of open files", "ulimit -n");
}

int hd_process_end(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        hd_log(HD_LOG_ERROR, "stdout cannot be written%s%s", errno ? ": " : "",
               errno ? strerror(errno) : "");
    return code ? code : hd_status_get_exit_code(HD_ERR_SYSTEM);
}
