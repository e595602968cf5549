/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/outputs/videos.h"

#include "runner/base/signals.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/io/base/run_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 200, NICE_MOST = 19, WORDS = 16, TELL_S = 5 };

/* Most pictures of a video: a minute. */
static const char frames_max[] = "1800";

void hd_videos_open(struct hd_train *train)
{
    struct hd_videos *videos = &train->outputs.videos;
    const struct hd_config *config = train->run_spec.config;
    videos->wanted = hd_config_get_int(config, "policy.eval.video_every") > 0 &&
                     train->timing.watch.after < 0; /* nobody looks at runs that are timed */
    sched_getaffinity(0, sizeof videos->cores, &videos->cores);
}

/* Returns the number of updates of the oldest weights that wait, or -1. */
static int64_t find_oldest(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int64_t oldest = -1;
    while (directory && (entry = readdir(directory))) {
        int64_t updates;
        if (hd_run_dir_parse_name(entry->d_name, ".safetensors", &updates) &&
            hd_run_dir_has(dirfd(directory), entry->d_name, S_IFREG) &&
            (oldest < 0 || updates < oldest))
            oldest = updates;
    }
    if (directory)
        closedir(directory);
    return oldest;
}

/* -- The process ------------------------------------------------------------------------------- */

/* Runs in the child. */
static void exec_eval(const struct hd_videos *videos, char *const *words, pid_t parent)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE, SIGXFSZ};
    sigset_t none;
    setpgid(0, 0); /* the terminal's Ctrl-C is for the run, which stops this */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* which died before the prctl */
        _exit(1);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpriority(PRIO_PROCESS, 0, NICE_MOST);
    sched_setaffinity(0, sizeof videos->cores, &videos->cores);
    const int null_fd = open("/dev/null", O_RDWR);
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* the lock of the run directory among them */
    execv("/proc/self/exe", words);
    _exit(127);
}

static void start(struct hd_train *train, int64_t updates)
{
    struct hd_videos *videos = &train->outputs.videos;
    char *config = hd_format("%s/total_config.yaml", train->dir);
    char *video = hd_format("%s/video/iteration_%" PRId64 ".gif", train->dir, updates);
    hd_free(videos->weights);
    videos->weights = hd_format("%s/video/iteration_%" PRId64 ".safetensors", train->dir, updates);
    char *words[WORDS] = {"runner",           "eval",    config,       "--weights", videos->weights,
                          "--video",          video,     "--episodes", "1",         "--max-frames",
                          (char *)frames_max, "--quiet", NULL};
    const pid_t parent = getpid();
    const pid_t process = config && video && videos->weights ? fork() : -1;
    if (process == 0)
        exec_eval(videos, words, parent);
    videos->process = process > 0 ? process : 0;
    hd_free(config);
    hd_free(video);
}

/* Takes the weights away: the video is there, or cannot be made. */
static void note_end(struct hd_videos *videos, int how)
{
    videos->process = 0;
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        hd_log(HD_LOG_WARN, "no video of %s could be made", videos->weights);
    if (unlink(videos->weights) != 0)
        videos->wanted = false; /* else it would be made again and again */
}

/* Returns whether no video is being made. */
static bool reap(struct hd_videos *videos)
{
    int how;
    if (videos->process > 0 && waitpid(videos->process, &how, WNOHANG) == videos->process)
        note_end(videos, how);
    return videos->process == 0;
}

/* Starts the next video, if there is one to make. */
static bool start_next(struct hd_train *train)
{
    char *folder = hd_format("%s/video", train->dir);
    const int64_t updates = folder ? find_oldest(folder) : -1;
    hd_free(folder);
    if (updates >= 0)
        start(train, updates);
    return train->outputs.videos.process > 0;
}

/* -- During a run ------------------------------------------------------------------------------ */

void hd_videos_poll(struct hd_train *train)
{
    struct hd_videos *videos = &train->outputs.videos;
    const int64_t now_ns = hd_clock_get_ns();
    if (!videos->wanted || now_ns - videos->looked_ns < LOOK_MS * INT64_C(1000000))
        return;
    videos->looked_ns = now_ns;
    if (reap(videos))
        start_next(train);
}

void hd_videos_finish(struct hd_train *train)
{
    struct hd_videos *videos = &train->outputs.videos;
    const int64_t tell_ns = hd_clock_get_ns() + TELL_S * INT64_C(1000000000);
    bool told = false;
    while (videos->wanted && !hd_asked_to_stop && (!reap(videos) || start_next(train))) {
        if (!told && hd_clock_get_ns() > tell_ns) {
            hd_log(HD_LOG_WARN,
                   "training is over, but the video of %s is still being made; Ctrl-C "
                   "ends the run without it",
                   videos->weights);
            told = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

void hd_videos_stop(struct hd_train *train)
{
    struct hd_videos *videos = &train->outputs.videos;
    if (videos->process > 0) {
        kill(videos->process, SIGKILL);
        waitpid(videos->process, NULL, 0);
    }
    videos->process = 0;
    hd_free(videos->weights);
    videos->weights = NULL;
}
