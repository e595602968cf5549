/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/sockets.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 1 << 25, PART = 1 << 16, REPEATS = 5 };

/* Opens both ends of a connection. */
static int open_ends(int ends[2])
{
    int listener, port;
    HD_TRY(hd_rendezvous_listen("127.0.0.1", 0, true, &listener, &port));
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[1] = -1;
    if (ends[0] >= 0 && connect(ends[0], (const struct sockaddr *)&address, sizeof address) == 0)
        ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    const int error = errno;
    close(listener);
    if (ends[1] >= 0)
        return HD_OK;
    if (ends[0] >= 0)
        close(ends[0]);
    return hd_fail(HD_ERR_SYSTEM, "this host cannot connect to itself: %s", strerror(error));
}

/* Sends parts that the socket's buffer holds, and receives each before the next. */
static int move(const int ends[2], const char *from, char *to)
{
    for (int64_t done = 0; done < BYTES; done += PART) {
        ssize_t n = send(ends[0], from + done, PART, MSG_NOSIGNAL);
        for (int64_t got = 0; n > 0 && got < PART; got += n)
            n = recv(ends[1], to + done + got, (size_t)(PART - got), 0);
        if (n <= 0)
            return hd_fail(HD_ERR_SYSTEM, "sockets of this host fail: %s", strerror(errno));
    }
    return HD_OK;
}

static int measure(const int ends[2], char *memory, double *bytes_per_s_p)
{
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        const int64_t begin_ns = hd_clock_get_ns();
        HD_TRY(move(ends, memory, memory + BYTES));
        const int64_t ns = hd_clock_get_ns() - begin_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    *bytes_per_s_p = BYTES / ((double)best_ns * 1e-9);
    return HD_OK;
}

int hd_sockets_measure(double *bytes_per_s_p)
{
    int ends[2];
    char *memory = hd_alloc(2 * (int64_t)BYTES, 1);
    if (!memory)
        return HD_ERR_NOMEM;
    int status = open_ends(ends);
    if (status == HD_OK) {
        status = measure(ends, memory, bytes_per_s_p);
        close(ends[0]);
        close(ends[1]);
    }
    hd_free(memory);
    return status;
}
