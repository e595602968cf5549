/* SPDX-License-Identifier: Apache-2.0 */
/* link MBIT DELAY_US DEVICE...: a switch between Ethernet devices that it makes (TAP), each of
 * which hangs on a full-duplex cable of this rate; frames arrive DELAY_US after they have left. The
 * kernels of small machines have no netem. Nothing is lost: a device waits while its cable is full.
 * It writes "ready" when the devices are there, which the caller then moves to network namespaces,
 * and runs until it is killed, with a real-time priority, so that what it serves does not keep it
 * waiting. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS = 16,
    FRAME = 66000,        /* with the header of an offloaded segment */
    OFFLOAD = 10,         /* bytes of struct virtio_net_hdr */
    FRAMES = 4096,        /* on their way to a device */
    BACKLOG_NS = 1000000, /* of a cable, before its device waits */
    SEGMENT = 1448,
    EXTRA = 90 /* bytes that each segment of a large frame costs on the cable */
};

struct frame {
    int64_t due_ns;
    int bytes;
    char *data;
};

struct port {
    int fd;
    uint8_t mac[6];               /* of its namespace, once it has sent something */
    int64_t sent_ns, received_ns; /* when the cable is free, either way */
    struct frame frames[FRAMES];  /* to the device, in order */
    unsigned first, end;
};

static struct port ports[PORTS];
static int n_ports;
static int64_t delay_ns;
static double ns_per_byte;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int open_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0 ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
        fail(name);
    return fd;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Has the frame wait for its time at a device. */
static void queue(struct port *to, int64_t sent_ns, int64_t cable_ns, const char *data, int bytes)
{
    struct frame *frame = &to->frames[to->end % FRAMES];
    if (to->end - to->first == FRAMES)
        return;
    to->received_ns = later(sent_ns, to->received_ns + cable_ns);
    if (!frame->data && !(frame->data = malloc(FRAME)))
        fail("memory");
    memcpy(frame->data, data, (size_t)bytes);
    frame->bytes = bytes;
    frame->due_ns = to->received_ns + delay_ns;
    to->end++;
}

static void take(struct port *from, const char *data, int bytes, int64_t now)
{
    const uint8_t *target = (const uint8_t *)data + OFFLOAD;
    const double on_cable = bytes + (double)((bytes + SEGMENT - 1) / SEGMENT) * EXTRA;
    const int64_t cable_ns = (int64_t)(on_cable * ns_per_byte);
    bool known = false;
    memcpy(from->mac, target + 6, 6);
    from->sent_ns = later(now, from->sent_ns) + cable_ns;
    for (int i = 0; i < n_ports; i++)
        known |= memcmp(ports[i].mac, target, 6) == 0;
    for (int i = 0; i < n_ports; i++)
        if (&ports[i] != from && (!known || memcmp(ports[i].mac, target, 6) == 0))
            queue(&ports[i], from->sent_ns, cable_ns, data, bytes);
}

/* Delivers what is due at a device; returns when the next frame will be. */
static int64_t deliver(struct port *to, int64_t now)
{
    for (; to->first != to->end; to->first++) {
        const struct frame *frame = &to->frames[to->first % FRAMES];
        if (frame->due_ns > now)
            return frame->due_ns;
        (void)!write(to->fd, frame->data, (size_t)frame->bytes);
    }
    return INT64_MAX;
}

static void run(void)
{
    static char data[FRAME];
    for (;;) {
        struct pollfd polled[PORTS];
        int64_t now = now_ns(), next = INT64_MAX;
        for (int i = 0; i < n_ports; i++) {
            const int64_t due = deliver(&ports[i], now), room = ports[i].sent_ns - BACKLOG_NS;
            polled[i] = (struct pollfd){.fd = room > now ? -1 : ports[i].fd, .events = POLLIN};
            next = due < next ? due : next;
            next = room > now && room < next ? room : next;
        }
        const int64_t wait = later(next - now, 0);
        const struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        if (ppoll(polled, (nfds_t)n_ports, next == INT64_MAX ? NULL : &timeout, NULL) <= 0)
            continue;
        now = now_ns();
        for (int i = 0; i < n_ports; i++) {
            const ssize_t n = polled[i].revents ? read(ports[i].fd, data, sizeof data) : 0;
            if (n > OFFLOAD)
                take(&ports[i], data, (int)n, now);
        }
    }
}

int main(int argc, char **argv)
{
    const struct sched_param priority = {.sched_priority = 1};
    if (argc < 4 || argc - 3 > PORTS || atof(argv[1]) <= 0) {
        fprintf(stderr, "usage: link MBIT DELAY_US DEVICE...   (at most %d)\n", PORTS);
        return 2;
    }
    ns_per_byte = 8000 / atof(argv[1]);
    delay_ns = (int64_t)(1000 * atof(argv[2]));
    for (int i = 3; i < argc; i++)
        ports[n_ports++].fd = open_device(argv[i]);
    prctl(PR_SET_TIMERSLACK, 1);
    sched_setscheduler(0, SCHED_FIFO, &priority); /* without the right to, it is less exact */
    puts("ready");
    fflush(stdout);
    run();
}
