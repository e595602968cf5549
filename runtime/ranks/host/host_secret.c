/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/host/host_secret.h"

#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/patience.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 512, PAUSE_MS = 20 };

static void get_folder(char path[PATH])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, PATH, "%s/heddle-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid());
}

static bool is_private(int fd, mode_t type)
{
    struct stat info;
    return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == type && info.st_uid == geteuid() &&
           !(info.st_mode & 077);
}

static int open_folder(struct hd_host_secret *shared)
{
    char path[PATH];
    get_folder(path);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return hd_fail(HD_ERR_SYSTEM, "directory %s cannot be made: %m (set TMPDIR?)", path);
    shared->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (shared->folder < 0 || !is_private(shared->folder, S_IFDIR))
        return hd_fail(HD_ERR_INPUT,
                       "%s is not a directory of this user that is closed to others (set TMPDIR, "
                       "or HEDDLE_SECRET?)",
                       path);
    return HD_OK;
}

/* At one time only one run of a network namespace meets at a port. */
static void choose_name(const struct hd_world *world, struct hd_host_secret *shared)
{
    char network[64] = "", text[HD_KEY_BYTES + 128];
    if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0)
        network[0] = '\0';
    snprintf(text, sizeof text, "%s %d %d %s", network, world->master_port, world->world,
             world->store_key);
    snprintf(shared->name, sizeof shared->name, "secret-%016" PRIx64, hd_hash_text(text));
}

/* Returns whether a rank 0 that lives has left a secret. */
static bool take(const struct hd_host_secret *shared, uint8_t secret_p[HD_SECRET_BYTES])
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    const int fd =
        openat(shared->folder, shared->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool found = fd >= 0 && is_private(fd, S_IFREG) && fcntl(fd, F_OFD_GETLK, &lock) == 0 &&
                       lock.l_type == F_WRLCK &&
                       pread(fd, secret_p, HD_SECRET_BYTES, 0) == HD_SECRET_BYTES;
    if (fd >= 0)
        close(fd);
    return found;
}

/* The file gets its name when it is locked and whole. */
static bool leave(struct hd_host_secret *shared, const uint8_t secret[HD_SECRET_BYTES])
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char draft[sizeof shared->name + 16];
    snprintf(draft, sizeof draft, "%s.%d", shared->name, getpid());
    unlinkat(shared->folder, draft, 0); /* of an earlier process of this number */
    shared->fd =
        openat(shared->folder, draft, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return shared->fd >= 0 && fcntl(shared->fd, F_OFD_SETLK, &lock) == 0 &&
           write(shared->fd, secret, HD_SECRET_BYTES) == HD_SECRET_BYTES &&
           renameat(shared->folder, draft, shared->folder, shared->name) == 0;
}

static int draw(struct hd_world *world, struct hd_host_secret *shared)
{
    char path[PATH];
    if (take(shared, world->secret))
        return hd_fail(HD_ERR_SYSTEM,
                       "rank 0 of another run waits for its ranks at port %d of this host; choose "
                       "another one (MASTER_PORT)",
                       world->master_port);
    hd_secret_draw(world->secret);
    if (leave(shared, world->secret))
        return HD_OK;
    const int error = errno;
    get_folder(path);
    return hd_fail(HD_ERR_SYSTEM,
                   "rank 0 cannot leave the secret of the run in %s: %s (set TMPDIR, or "
                   "HEDDLE_SECRET?)",
                   path, strerror(error));
}

static int await(struct hd_world *world, const struct hd_host_secret *shared)
{
    struct hd_patience patience = {0};
    char path[PATH];
    int64_t timeout_ns;
    HD_TRY(hd_rendezvous_read_timeout(0, &timeout_ns));
    const int64_t deadline_ns = hd_clock_get_ns() + timeout_ns;
    get_folder(path);
    while (!take(shared, world->secret)) {
        if (hd_clock_get_ns() >= deadline_ns)
            return hd_fail(HD_ERR_SYSTEM,
                           "rank %d has found no secret of rank 0 in %s within %lld s: rank 0 has "
                           "not started, or is another user or in another container; HEDDLE_SECRET "
                           "can give all ranks one",
                           world->rank, path, (long long)(timeout_ns / 1000000000));
        if (hd_patience_is_over(&patience) && world->local_rank == 1)
            hd_log(HD_LOG_WARN, "waiting for rank 0 to leave the secret of the run in %s", path);
        poll(NULL, 0, PAUSE_MS);
    }
    return HD_OK;
}

int hd_host_secret_share(struct hd_world *world, struct hd_host_secret *shared_p)
{
    *shared_p = (struct hd_host_secret){.folder = -1, .fd = -1};
    int status = open_folder(shared_p);
    choose_name(world, shared_p);
    if (status == HD_OK)
        status = world->rank == 0 ? draw(world, shared_p) : await(world, shared_p);
    world->has_secret = status == HD_OK;
    if (status != HD_OK)
        hd_host_secret_remove(shared_p);
    return status;
}

void hd_host_secret_remove(struct hd_host_secret *shared)
{
    if (shared->fd >= 0) {
        unlinkat(shared->folder, shared->name, 0);
        close(shared->fd);
    }
    if (shared->folder >= 0)
        close(shared->folder);
    shared->folder = shared->fd = -1;
}
