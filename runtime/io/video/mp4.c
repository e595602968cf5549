/* SPDX-License-Identifier: Apache-2.0 */
/* MP4, by the program ffmpeg: it reads plain pictures from a pipe and writes to the file that it
 * inherits. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/video/video_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_FD = 3 };

extern char **environ;

struct writer {
    struct hd_video_start start;
    pid_t process; /* 0: none */
    int pipe;      /* to it; -1: closed */
    uint8_t *picture;
};

/* Starts ffmpeg with the descriptor of the pipe as its input and that of the file as FILE_FD. */
static int spawn(struct writer *writer, int input)
{
    char size[48], rate[24];
    snprintf(size, sizeof size, "%lldx%lld", (long long)writer->start.width,
             (long long)writer->start.height);
    snprintf(rate, sizeof rate, "%lld", (long long)writer->start.fps);
    /* Most players want sides of an even number of pixels, and yuv420p. */
    char *words[] = {"ffmpeg",   "-loglevel",
                     "error",    "-nostdin",
                     "-f",       "rawvideo",
                     "-pix_fmt", "rgb24",
                     "-s",       size,
                     "-r",       rate,
                     "-i",       "pipe:0",
                     "-vf",      "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                     "-pix_fmt", "yuv420p",
                     "-f",       "mp4",
                     "-y",       "file:/dev/fd/3",
                     NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(writer->start.file), FILE_FD);
    const int error = posix_spawnp(&writer->process, "ffmpeg", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        return HD_OK;
    writer->process = 0;
    if (error == ENOENT)
        return hd_fail(HD_ERR_INPUT,
                       "%s: the program ffmpeg writes .mp4, and there is none on the path; .gif "
                       "and .png need no program",
                       writer->start.path);
    return hd_fail(HD_ERR_SYSTEM, "ffmpeg cannot be started: %s", strerror(error));
}

static int mp4_begin(const struct hd_video_start *start, void **writer_p)
{
    int ends[2];
    struct writer *writer = hd_alloc(1, sizeof *writer);
    if (!writer)
        return HD_ERR_NOMEM;
    *writer_p = writer;
    *writer = (struct writer){.start = *start, .pipe = -1};
    writer->picture = hd_alloc(start->height * start->width, 3);
    if (!writer->picture)
        return HD_ERR_NOMEM;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return hd_fail(HD_ERR_SYSTEM, "no pipe to ffmpeg: %m");
    writer->pipe = ends[1];
    const int status = spawn(writer, ends[0]);
    close(ends[0]);
    return status;
}

/* Keeps the whole picture, of which a part is new, and sends it. */
static int mp4_add(void *memory, const struct hd_video_part *part)
{
    struct writer *writer = memory;
    const int64_t bytes = 3 * writer->start.width * writer->start.height;
    for (int64_t row = 0; row < part->height; row++)
        memcpy(writer->picture + 3 * ((part->top + row) * part->stride + part->left),
               hd_video_part_get_row(part, row), (size_t)(3 * part->width));
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = write(writer->pipe, writer->picture + done, (size_t)(bytes - done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hd_fail(HD_ERR_SYSTEM, "%s: ffmpeg takes no more pictures: %m",
                           writer->start.path);
        done += n;
    }
    return HD_OK;
}

/* Returns whether ffmpeg has ended well. */
static bool wait_for_end(struct writer *writer)
{
    int how = -1;
    if (writer->pipe >= 0)
        close(writer->pipe);
    writer->pipe = -1;
    while (waitpid(writer->process, &how, 0) < 0 && errno == EINTR) {
    }
    writer->process = 0;
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static int end(void *memory)
{
    struct writer *writer = memory;
    return wait_for_end(writer)
               ? HD_OK
               : hd_fail(HD_ERR_SYSTEM, "%s: ffmpeg has failed", writer->start.path);
}

static void mp4_release(void *memory)
{
    struct writer *writer = memory;
    if (writer->process > 0) {
        kill(writer->process, SIGKILL);
        wait_for_end(writer);
    }
    if (writer->pipe >= 0)
        close(writer->pipe);
    hd_free(writer->picture);
    hd_free(writer);
}

const struct hd_video_format hd_video_mp4 = {
    .begin = mp4_begin, .add = mp4_add, .end = end, .release = mp4_release};
