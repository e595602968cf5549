/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a rank that others may open: an anonymous file (memfd), which has no name that could be
 * left behind and does not count against the size of /dev/shm, which containers keep small. */
#include "runtime/comm/comm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAME = 32 };

static void write_name(const struct hd_comm_file *file, char name[NAME])
{
    snprintf(name, NAME, "heddle-%016" PRIx64, file->token);
}

int hd_comm_file_create(struct hd_comm_file *file_p)
{
    uint8_t drawn[HD_SECRET_BYTES];
    char name[NAME];
    hd_secret_draw(drawn);
    *file_p = (struct hd_comm_file){.pid = getpid()};
    memcpy(&file_p->token, drawn, sizeof file_p->token);
    write_name(file_p, name);
    file_p->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return file_p->fd;
}

/* In another pid namespace the path leads nowhere or to a file of another program, and to open a
 * pipe or a device may wait or do something: so the link has to have the name first. */
int hd_comm_file_open(const struct hd_comm_file *file)
{
    char path[64], name[NAME], expected[64], found[64] = "";
    snprintf(path, sizeof path, "/proc/%d/fd/%d", file->pid, file->fd);
    write_name(file, name);
    snprintf(expected, sizeof expected, "/memfd:%s (deleted)", name);
    if (readlink(path, found, sizeof found - 1) < 0)
        return -1;
    errno = ENOENT;
    return strcmp(found, expected) == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
}
