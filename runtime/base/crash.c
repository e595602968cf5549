/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/crash.h"

#include "runtime/base/log.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { STACK_BYTES = 65536, TEXT_BYTES = 1024, FILES_MAX = 64 };

static _Thread_local struct {
    const char *task, *part;
    int64_t iteration, shard;
    bool has_stack;
    char stack[STACK_BYTES]; /* memory is taken when it is used */
} here;

static struct {
    atomic_uintptr_t address; /* 0: free */
    int64_t bytes;
    const char *path;
} files[FILES_MAX];

/* -- Text -------------------------------------------------------------------------------------- */
/* A signal handler may not call snprintf. */

struct text {
    size_t used;
    char bytes[TEXT_BYTES];
};

static void append(struct text *text, const char *part)
{
    for (; *part && text->used < sizeof text->bytes - 1; part++)
        text->bytes[text->used++] = *part;
}

static void append_number(struct text *text, uint64_t number, unsigned base)
{
    char digits[32];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    append(text, digits + at);
}

static void append_task(struct text *text)
{
    if (!here.task) {
        append(text, "outside of any task");
        return;
    }
    append(text, "task ");
    append(text, here.task);
    append(text, " of iteration ");
    append_number(text, (uint64_t)here.iteration, 10);
    if (here.shard >= 0) {
        append(text, ", shard ");
        append_number(text, (uint64_t)here.shard, 10);
    }
    if (here.part) {
        append(text, ", in ");
        append(text, here.part);
    }
}

/* Says where the fault is, or who sent the signal. */
static void append_cause(struct text *text, const siginfo_t *info)
{
    if (info->si_code == SI_USER) {
        append(text, ", sent by process ");
        append_number(text, (uint64_t)info->si_pid, 10);
        return;
    }
    if (info->si_code <= 0 || info->si_signo == SIGABRT)
        return;
    append(text, " at address 0x");
    append_number(text, (uintptr_t)info->si_addr, 16);
}

static void append_file(struct text *text, uintptr_t address)
{
    for (int i = 0; i < FILES_MAX; i++) {
        const uintptr_t begin = atomic_load(&files[i].address);
        if (begin == 0 || address < begin || address - begin >= (uintptr_t)files[i].bytes)
            continue;
        append(text, ": ");
        append(text, files[i].path);
        append(text, " was cut while it was read");
        return;
    }
}

/* -- The handler ------------------------------------------------------------------------------- */

static void on_crash(int number, siginfo_t *info, void *context)
{
    static atomic_bool crashed;
    (void)context;
    struct text text = {0};
    while (atomic_exchange(&crashed, true)) /* another thread tells, and ends the process */
        pause();
    const char *name = sigdescr_np(number);
    append(&text, "error: ");
    append_task(&text);
    append(&text, ": signal ");
    append_number(&text, (uint64_t)number, 10);
    append(&text, " (");
    append(&text, name ? name : "unknown");
    append(&text, ")");
    append_cause(&text, info);
    if (number == SIGBUS)
        append_file(&text, (uintptr_t)info->si_addr);
    hd_log_write_last(text.bytes, text.used);
    /* The fault occurs again when this returns; what was sent is sent again. */
    signal(number, SIG_DFL);
    if (info->si_code <= 0)
        raise(number);
}

void hd_crash_catch(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; !SANITIZED && i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

/* -- What threads do --------------------------------------------------------------------------- */

void hd_crash_enter_task(const char *name, int64_t iteration, int64_t shard)
{
    if (!here.has_stack && !SANITIZED) {
        sigaltstack(&(stack_t){.ss_sp = here.stack, .ss_size = sizeof here.stack}, NULL);
        here.has_stack = true;
    }
    here.iteration = iteration;
    here.shard = shard;
    here.part = NULL;
    here.task = name;
}

void hd_crash_leave_task(void)
{
    here.task = NULL;
}

void hd_crash_set_part(const char *part)
{
    here.part = part;
}

void hd_crash_add_file(const void *address, int64_t bytes, const char *path)
{
    for (int i = 0; i < FILES_MAX; i++)
        if (atomic_load(&files[i].address) == 0) {
            files[i].bytes = bytes;
            files[i].path = path;
            atomic_store(&files[i].address, (uintptr_t)address);
            return;
        }
}

void hd_crash_forget_file(const void *address)
{
    for (int i = 0; i < FILES_MAX; i++)
        if (atomic_load(&files[i].address) == (uintptr_t)address)
            atomic_store(&files[i].address, 0);
}
