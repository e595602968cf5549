/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/workers.h"

#include "kernels/envs/gymnasium/turn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* -- Blocks ------------------------------------------------------------------------------------ */

static int64_t count_frame_bytes(const struct hd_bridge_description *description)
{
    int64_t bytes = description->element == HD_ENV_F32 ? (int64_t)sizeof(float) : 1;
    for (int64_t i = 0; i < description->dims; i++)
        bytes *= description->shape[i];
    return description->dims > 0 ? bytes : 0;
}

static int64_t align(int64_t bytes)
{
    return (bytes + HD_BRIDGE_ALIGNMENT - 1) / HD_BRIDGE_ALIGNMENT * HD_BRIDGE_ALIGNMENT;
}

static int64_t take(int64_t *used, int64_t count, int64_t size)
{
    const int64_t at = *used;
    *used += align(count * size);
    return at;
}

/* Fills the header's sizes and offsets and returns the bytes of a block. */
static int64_t lay_out(struct hd_bridge_header *h)
{
    const struct hd_bridge_description *d = &h->description;
    const int64_t number = d->action_dims * 4;
    int64_t used = 0;
    h->frame_bytes = count_frame_bytes(d);
    h->body_bytes = h->pickle_bytes > 0 ? h->pickle_bytes : d->limit * number;
    h->input_bytes = align((int64_t)sizeof(struct hd_bridge_input) + number);
    h->result_bytes = align((int64_t)sizeof(struct hd_bridge_result) + 2 * h->frame_bytes + number);
    take(&used, 1, sizeof *h);
    h->calls = take(&used, 1, sizeof(struct hd_bridge_calls));
    h->control = take(&used, h->controls, sizeof(struct hd_bridge_control));
    h->input = take(&used, h->envs, h->input_bytes);
    h->result = take(&used, h->envs, h->result_bytes);
    h->body = take(&used, h->controls * hd_bridge_count_agents(d), h->body_bytes);
    h->picture = take(&used, h->controls * d->height * d->width, 3);
    return used;
}

/* Returns the first env of a worker: worker w has the envs from w * m / n * agents on, of m
 * parallel envs or envs of one agent. */
static int64_t find_first(const struct hd_bridge_workers *workers, int64_t w)
{
    const int64_t agents = hd_bridge_count_agents(&workers->header.description);
    return w * (workers->envs / agents) / workers->n * agents;
}

int64_t hd_bridge_workers_find(const struct hd_bridge_workers *workers, int64_t env)
{
    const int64_t agents = hd_bridge_count_agents(&workers->header.description);
    return ((env / agents + 1) * workers->n - 1) / (workers->envs / agents);
}

/* A start waits, and who waits may have to end a worker. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* Makes the block of a worker, whose size is final: a worker that cut it would end this process. */
static int make_block(struct hd_bridge_workers *workers, int64_t w)
{
    struct hd_bridge_worker *worker = &workers->worker[w];
    struct hd_bridge_header header = workers->header;
    header.first = find_first(workers, w);
    header.envs = find_first(workers, w + 1) - header.first;
    worker->memory = memfd_create("heddle_gymnasium", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (worker->memory < 0 || ftruncate(worker->memory, workers->block_bytes) != 0 ||
        fcntl(worker->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return -1;
    void *block = mmap(NULL, (size_t)workers->block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                       worker->memory, 0);
    if (block == MAP_FAILED)
        return -1;
    worker->block = block;
    memcpy(block, &header, sizeof header);
    return 0;
}

int hd_bridge_workers_init(const struct hd_bridge_options *options,
                           const struct hd_bridge_description *description, int64_t envs,
                           int64_t controls, struct hd_bridge_workers *workers_p,
                           char message[HD_ENV_MESSAGE])
{
    const int64_t n = options->workers;
    *workers_p = (struct hd_bridge_workers){.options = options, .envs = envs, .n = n};
    init_lock(&workers_p->lock);
    struct hd_bridge_header *header = &workers_p->header;
    header->description = description ? *description : options->declaration;
    header->controls = controls;
    header->pickle_bytes = options->pickle_bytes;
    const int64_t agents = hd_bridge_count_agents(&header->description);
    header->envs = (envs / agents + n - 1) / n * agents;
    workers_p->block_bytes = lay_out(header);
    workers_p->worker = calloc((size_t)n, sizeof *workers_p->worker);
    if (!workers_p->worker)
        return hd_bridge_refuse(message, "out of memory");
    for (int64_t w = 0; w < n; w++)
        workers_p->worker[w].memory = -1;
    for (int64_t w = 0; w < n; w++)
        if (make_block(workers_p, w) != 0)
            return hd_bridge_refuse(message, "no memory to share with workers: %s",
                                    strerror(errno));
    return 0;
}

static void *get(const struct hd_bridge_workers *workers, int64_t worker, int64_t offset)
{
    return (char *)workers->worker[worker].block + offset;
}

/* Returns element `number` of an array over the controls of all workers. */
static void *get_of_control(const struct hd_bridge_workers *workers, int64_t array, int64_t number,
                            int64_t bytes)
{
    const int64_t n = workers->header.controls;
    return get(workers, number / n, array + number % n * bytes);
}

struct hd_bridge_control *hd_bridge_workers_get_control(const struct hd_bridge_workers *workers,
                                                        int64_t number)
{
    return get_of_control(workers, workers->header.control, number,
                          sizeof(struct hd_bridge_control));
}

char *hd_bridge_workers_get_body(const struct hd_bridge_workers *workers, int64_t control)
{
    const struct hd_bridge_header *h = &workers->header;
    const int64_t agents = hd_bridge_count_agents(&h->description);
    return get_of_control(workers, h->body, control, agents * h->body_bytes);
}

const char *hd_bridge_workers_get_picture(const struct hd_bridge_workers *workers, int64_t control)
{
    const struct hd_bridge_header *h = &workers->header;
    return get_of_control(workers, h->picture, control,
                          h->description.height * h->description.width * 3);
}

/* Returns element `env` of an array over the envs of all workers. */
static void *get_of_env(const struct hd_bridge_workers *workers, int64_t array, int64_t env,
                        int64_t bytes)
{
    const int64_t worker = hd_bridge_workers_find(workers, env);
    return get(workers, worker, array + (env - find_first(workers, worker)) * bytes);
}

struct hd_bridge_input *hd_bridge_workers_get_input(const struct hd_bridge_workers *workers,
                                                    int64_t env)
{
    return get_of_env(workers, workers->header.input, env, workers->header.input_bytes);
}

struct hd_bridge_result *hd_bridge_workers_get_result(const struct hd_bridge_workers *workers,
                                                      int64_t env)
{
    return get_of_env(workers, workers->header.result, env, workers->header.result_bytes);
}

/* Returns the worker of a control. */
static int64_t find_worker(const struct hd_bridge_workers *workers, int64_t control)
{
    return control / workers->header.controls;
}

static struct hd_bridge_calls *get_calls(const struct hd_bridge_workers *workers, int64_t worker)
{
    return get(workers, worker, workers->header.calls);
}

/* -- Processes --------------------------------------------------------------------------------- */

/* Finds the folder of this plug-in, where heddle_gymnasium.py is as well. */
static int find_folder(char folder[PATH_MAX], char *message)
{
    Dl_info info;
    if (!dladdr((const void *)&hd_bridge_workers_start, &info) || !info.dli_fname ||
        !realpath(info.dli_fname, folder))
        return hd_bridge_refuse(message, "the Gymnasium plug-in cannot find its own path");
    *strrchr(folder, '/') = '\0';
    return 0;
}

/* Joins two parts of a path; returns NULL without memory. */
static char *join(const char *folder, const char *file)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, file) < 0 ? NULL : path;
}

/* Returns the Python of the options, or of scripts/gymnasium beside this plug-in, or of
 * $HEDDLE_PYTHON, or the first in PATH; NULL without memory. */
static char *find_python(const struct hd_bridge_options *options, const char *folder)
{
    char *path = options->python[0] ? join(options->python, "bin/python")
                                    : join(folder, "gymnasium/bin/python");
    if (!path || access(path, X_OK) == 0)
        return path;
    free(path);
    if (options->python[0])
        return strdup(options->python);
    const char *named = getenv("HEDDLE_PYTHON");
    return strdup(named && *named ? named : "python3");
}

/* Signals are as in a new shell: what this process blocks or ignores does not matter to envs. */
static int spawn(const char *python, char *const *arguments, int memory, int alive, pid_t *pid_p)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, memory, memory); /* open in the process */
    posix_spawn_file_actions_adddup2(&files, alive, alive);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETPGROUP);
    const int error = posix_spawnp(pid_p, python, &files, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* The arguments of heddle_gymnasium.py. A block without a description is for a worker that has only
 * to give one: its number is -1. */
struct call {
    char folder[PATH_MAX], numbers[3][24];
    char *python, *program, **arguments;
};

static void release_call(struct call *call)
{
    free(call->python);
    free(call->program);
    free(call->arguments);
}

static int make_call(const struct hd_bridge_workers *workers, int64_t w, int alive,
                     struct call *call, char *message)
{
    const struct hd_bridge_options *options = workers->options;
    *call = (struct call){0};
    if (find_folder(call->folder, message) != 0)
        return -1;
    call->python = find_python(options, call->folder);
    call->program = join(call->folder, "heddle_gymnasium.py");
    call->arguments = calloc((size_t)options->n_arguments + 8, sizeof *call->arguments);
    if (!call->python || !call->program || !call->arguments)
        return hd_bridge_refuse(message, "out of memory");
    snprintf(call->numbers[0], sizeof *call->numbers, "%d", workers->worker[w].memory);
    snprintf(call->numbers[1], sizeof *call->numbers, "%d", alive);
    snprintf(call->numbers[2], sizeof *call->numbers, "%lld",
             workers->header.description.dims == 0 ? -1LL : (long long)w);
    char *const first[] = {call->python,     call->program,    call->numbers[0],
                           call->numbers[1], call->numbers[2], (char *)options->env_id};
    memcpy(call->arguments, first, sizeof first);
    memcpy(call->arguments + sizeof first / sizeof *first, options->argument,
           (size_t)options->n_arguments * sizeof *options->argument);
    return 0;
}

static int call_python(struct hd_bridge_workers *workers, int64_t w, int alive, char *message)
{
    struct call call;
    pid_t pid = 0;
    int status = make_call(workers, w, alive, &call, message);
    if (status == 0) {
        const int error =
            spawn(call.python, call.arguments, workers->worker[w].memory, alive, &pid);
        if (error != 0)
            status = hd_bridge_refuse(message, "Python (%.200s) cannot be started: %s", call.python,
                                      strerror(error));
    }
    workers->worker[w].pid = status == 0 ? pid : 0;
    release_call(&call);
    return status;
}

static int start_worker(struct hd_bridge_workers *workers, int64_t w, char *message)
{
    struct hd_bridge_worker *worker = &workers->worker[w];
    struct hd_bridge_control *control =
        hd_bridge_workers_get_control(workers, w * workers->header.controls);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return hd_bridge_refuse(message, "a worker cannot be started: %s", strerror(errno));
    control->at = -1;
    atomic_store(&control->turn, HD_BRIDGE_THEIRS);
    const int status = call_python(workers, w, ends[0], message);
    worker->alive = ends[1];
    close(ends[0]);
    if (status != 0) {
        close(ends[1]);
        return status;
    }
    close(worker->memory);
    worker->memory = -1;
    return 0;
}

/* Tells why workers failed: the first cause, whoever asks. Returns -1. */
static int fail(struct hd_bridge_workers *workers, const struct hd_bridge_user *user, int64_t env,
                char *message)
{
    pthread_mutex_lock(&workers->lock);
    if (workers->cause[0]) {
        strcpy(message, workers->cause);
    } else {
        user->name(user->group, env, message);
        strcpy(workers->cause, message);
    }
    pthread_mutex_unlock(&workers->lock);
    return -1;
}

/* The first control of each worker has the turn until the envs are made. */
static int launch(struct hd_bridge_workers *workers, char *message)
{
    for (int64_t w = 0; w < workers->n && !workers->cause[0]; w++)
        if (workers->worker[w].pid == 0 && start_worker(workers, w, message) != 0)
            return -1;
    return 0;
}

int hd_bridge_workers_launch(struct hd_bridge_workers *workers, char message[HD_ENV_MESSAGE])
{
    pthread_mutex_lock(&workers->lock);
    const int status = launch(workers, message);
    pthread_mutex_unlock(&workers->lock);
    return status;
}

int hd_bridge_workers_start(struct hd_bridge_workers *workers, const struct hd_bridge_user *user,
                            char message[HD_ENV_MESSAGE])
{
    int status = 0;
    pthread_mutex_lock(&workers->lock);
    if (workers->cause[0] || launch(workers, message) != 0)
        status = fail(workers, user, -1, message);
    else if (!workers->ready)
        status = hd_bridge_workers_await(workers, 0, workers->n, user, message);
    workers->ready |= status == 0;
    pthread_mutex_unlock(&workers->lock);
    return status;
}

/* Ends a worker and what it started: its keeper does. */
static void kill_worker(struct hd_bridge_worker *worker)
{
    if (worker->pid == 0)
        return;
    close(worker->alive);
    kill(worker->pid, SIGTERM);
    kill(worker->pid, SIGCONT);
    while (waitpid(worker->pid, &worker->status, 0) < 0 && errno == EINTR)
        ;
    worker->pid = 0;
}

static void release_worker(struct hd_bridge_worker *worker, int64_t block_bytes)
{
    kill_worker(worker);
    if (worker->block)
        munmap(worker->block, (size_t)block_bytes);
    if (worker->memory >= 0)
        close(worker->memory);
}

/* A run that has failed may leave a step under way. */
static bool is_idle(const struct hd_bridge_workers *workers)
{
    for (int64_t i = 0; i < workers->n * workers->header.controls; i++)
        if (hd_turn_is_given(hd_bridge_workers_get_control(workers, i)))
            return false;
    return true;
}

void hd_bridge_workers_release(struct hd_bridge_workers *workers)
{
    const double close_s = 1;
    const int64_t n = workers->worker ? workers->n : 0;
    const bool answers = workers->ready && !workers->cause[0] && is_idle(workers);
    for (int64_t w = 0; w < n && answers; w++)
        hd_bridge_workers_give(workers, w, HD_BRIDGE_CLOSE);
    for (int64_t w = 0; w < n && answers; w++)
        hd_turn_await(hd_bridge_workers_get_control(workers, w), close_s);
    for (int64_t w = 0; w < n; w++)
        release_worker(&workers->worker[w], workers->block_bytes);
    free(workers->worker);
    pthread_mutex_destroy(&workers->lock);
}

/* -- Commands ---------------------------------------------------------------------------------- */

void hd_bridge_workers_give(struct hd_bridge_workers *workers, int64_t number, int command)
{
    struct hd_bridge_control *control = hd_bridge_workers_get_control(workers, number);
    control->command = command;
    hd_turn_give(get_calls(workers, find_worker(workers, number)), control);
}

static double read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void say_status(int status, char *text, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(text, bytes, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, bytes, "exited with code %d", WEXITSTATUS(status));
}

/* Returns whether the worker's process has ended by itself. */
static bool has_ended(struct hd_bridge_worker *worker)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == worker->pid;
}

static int say_ended(struct hd_bridge_worker *worker, char *message)
{
    char how[96];
    const int pid = (int)worker->pid;
    kill_worker(worker);
    say_status(worker->status, how, sizeof how);
    return hd_bridge_refuse(message, "worker process %d %s", pid, how);
}

/* Python writes where it hangs (faulthandler), before the process is killed; of several groups that
 * hang one after the other, because it writes word by word. */
static int say_hung(struct hd_bridge_worker *worker, double seconds, char *message)
{
    static pthread_mutex_t one_writes = PTHREAD_MUTEX_INITIALIZER;
    const struct timespec writing = {0, 200000000};
    const int pid = (int)worker->pid;
    pthread_mutex_lock(&one_writes);
    kill(worker->pid, SIGUSR1);
    nanosleep(&writing, NULL);
    pthread_mutex_unlock(&one_writes);
    kill_worker(worker);
    return hd_bridge_refuse(
        message, "worker process %d gave no answer for %g s (env.options.timeout_s)", pid, seconds);
}

/* Ends a worker that has ended or is idle for too long. Returns -1 then, or where it failed before,
 * else 0. */
static int check_worker(struct hd_bridge_workers *workers, int64_t number, double idle_s,
                        const struct hd_bridge_user *user, char *message)
{
    enum { START_S = 60 }; /* Python may have much to import */
    const double timeout = workers->options->timeout_s;
    const double limit = workers->ready || timeout > START_S ? timeout : START_S;
    struct hd_bridge_worker *worker = &workers->worker[find_worker(workers, number)];
    int status = -1;
    pthread_mutex_lock(&workers->lock);
    if (!workers->cause[0] && has_ended(worker))
        say_ended(worker, message);
    else if (!workers->cause[0] && idle_s >= limit)
        say_hung(worker, limit, message);
    else
        status = workers->cause[0] ? -1 : 0;
    if (status != 0)
        fail(workers, user, hd_bridge_workers_get_control(workers, number)->at, message);
    pthread_mutex_unlock(&workers->lock);
    return status;
}

/* Tells that an env has written where only its worker may. */
static int say_overwritten(struct hd_bridge_workers *workers, int64_t number, char *message)
{
    return hd_bridge_refuse(message,
                            "worker process %d has written over the memory that it shares with "
                            "this program (native code of an env?)",
                            (int)workers->worker[find_worker(workers, number)].pid);
}

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

struct hd_bridge_wait hd_bridge_workers_begin_wait(const struct hd_bridge_workers *workers,
                                                   int64_t first, int64_t n)
{
    const double now = read_clock();
    return (struct hd_bridge_wait){
        .first = first,
        .next = first,
        .end = first + n,
        .since = now,
        .looked = now,
        .done = atomic_load(&get_calls(workers, find_worker(workers, first))->done)};
}

/* Waits for one turn after another; returns whether all are back. */
static bool await_turns(const struct hd_bridge_workers *workers, struct hd_bridge_wait *wait,
                        double seconds)
{
    double until = 0;
    for (;;) {
        struct hd_bridge_control *control = hd_bridge_workers_get_control(workers, wait->next);
        if (hd_turn_is_given(control)) {
            const double now = seconds > 0 ? read_clock() : 0;
            until = until > 0 ? until : now + seconds;
            if (!hd_turn_await(control, until - now))
                return false;
        }
        if (++wait->next == wait->end)
            return true;
        wait->done = atomic_load(&get_calls(workers, find_worker(workers, wait->next))->done);
    }
}

/* Returns whether a worker of those that have a turn is lost. */
static bool look(struct hd_bridge_workers *workers, struct hd_bridge_wait *wait, double now,
                 const struct hd_bridge_user *user)
{
    char unused[HD_ENV_MESSAGE]; /* the cause is kept */
    const uint32_t done = atomic_load(&get_calls(workers, find_worker(workers, wait->next))->done);
    wait->since = done == wait->done ? wait->since : now;
    wait->done = done;
    wait->looked = now;
    for (int64_t i = wait->next; i < wait->end && !wait->lost; i++)
        wait->lost =
            check_worker(workers, i, i == wait->next ? now - wait->since : 0, user, unused) != 0;
    return wait->lost;
}

bool hd_bridge_workers_wait(struct hd_bridge_workers *workers, struct hd_bridge_wait *wait,
                            double seconds, const struct hd_bridge_user *user)
{
    const double look_s = min_of(workers->options->timeout_s, 0.25);
    if (wait->lost || wait->next == wait->end ||
        await_turns(workers, wait, min_of(seconds, look_s)))
        return true;
    const double now = read_clock();
    return now - wait->looked >= look_s && look(workers, wait, now, user);
}

int hd_bridge_workers_end_wait(struct hd_bridge_workers *workers, const struct hd_bridge_wait *wait,
                               const struct hd_bridge_user *user, char message[HD_ENV_MESSAGE])
{
    if (wait->lost)
        return fail(workers, user, -1, message);
    for (int64_t i = wait->first; i < wait->end; i++) {
        const struct hd_bridge_control *control = hd_bridge_workers_get_control(workers, i);
        if (!hd_turn_is_done(control) || control->failed < 0 || control->failed > 1)
            say_overwritten(workers, i, message);
        else if (control->failed)
            hd_bridge_refuse(message, "%.*s", HD_BRIDGE_TEXT - 1, control->error);
        else
            continue;
        return fail(workers, user, control->at, message);
    }
    return 0;
}

int hd_bridge_workers_await(struct hd_bridge_workers *workers, int64_t first, int64_t n,
                            const struct hd_bridge_user *user, char message[HD_ENV_MESSAGE])
{
    struct hd_bridge_wait wait = hd_bridge_workers_begin_wait(workers, first, n);
    while (!hd_bridge_workers_wait(workers, &wait, workers->options->timeout_s, user))
        ;
    return hd_bridge_workers_end_wait(workers, &wait, user, message);
}
