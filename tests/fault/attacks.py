# SPDX-License-Identifier: Apache-2.0
"""Attacks on the ports of a run, by another user of the host where this process may become one. The protocol of
runtime/ranks/handshake.h is spoken perfectly but for the secret."""

import encodings.idna  # noqa: F401  (another user may not be able to load it later)
import hashlib
import os
import socket
import struct
import sys
import threading
import time

NOBODY = 65534
MAGIC, VERSION, TAG = 0x4c444548, 3, 32
CHALLENGE, HELLO, WELCOME, GO, REFUSE, DATA, FAIL = range(1, 8)


def blake(data, key, size=32):
    return hashlib.blake2b(data, key=key, digest_size=size).digest()


def frame(kind, payload, key, count=0, number=0, size=None):
    head = struct.pack("=IHHiI", MAGIC, VERSION, kind, number, len(payload) if size is None else size)
    return head + payload + blake(struct.pack("=Q", count) + head + payload, key)


def receive(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionResetError("closed")
        data += more
    return data


def receive_frame(sock):
    head = receive(sock, 16)
    bytes_ = struct.unpack("=IHHiI", head)[4]
    return head + receive(sock, bytes_ + TAG)


def session_key(secret, listeners_nonce, nonce, rank):
    purpose = blake(b"heddle ranks 3\0rendezvous\0", secret)
    return blake(listeners_nonce + nonce + struct.pack("=i", rank), purpose, 64)[:32]


def hello(rank=1, world=2, config=7):
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip().encode()
    return struct.pack("=iiiiQ64s40s", rank, world, os.getpid(), 0, config, b"evil", boot_id)


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=5)
    sock.settimeout(5)
    return sock


HELLO_BYTES = 1152


def say_hello(port, then=(), secret=None, **fields):
    """A perfect hello, by a secret of its own unless one is given; `then` are further frames. Returns what the
    answer begins with; nothing: the connection was closed."""
    with connect(port) as sock:
        nonce = os.urandom(32)
        challenge = receive_frame(sock)
        body = hello(**fields).ljust(HELLO_BYTES, b"\0")
        key = session_key(secret or os.urandom(32), challenge[16:48], nonce, fields.get("rank", 1))
        sock.sendall(frame(HELLO, nonce + body, key) + b"".join(frame(kind, b"ha", key, 1) for kind in then))
        answer = receive_frame(sock) if secret else b""
        if not secret:
            expect_drop(sock)
        return answer


def replay(port, said):
    """Says what a rank of this run has said on another connection."""
    with connect(port) as sock:
        receive_frame(sock)
        sock.sendall(said)
        expect_drop(sock)


def expect_drop(sock):
    try:
        if sock.recv(1):
            sys.exit("rank 0 answered an unknown peer")
    except ConnectionResetError:
        pass


def send_bytes(port, data, reads=True):
    with connect(port) as sock:
        if reads:
            receive_frame(sock)
        try:
            sock.sendall(data)
            expect_drop(sock)
        except (BrokenPipeError, ConnectionResetError):
            pass


# -- By name: called with a port, and whatever they hold is let go at the end -----------------------------------


def garbage(port):
    send_bytes(port, os.urandom(65536))


def web_request(port):
    send_bytes(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def giant_length(port):
    send_bytes(port, frame(HELLO, b"x" * 100, b"k", size=2**32 - 1))


def half_a_hello(port):
    with connect(port) as sock:
        receive_frame(sock)
        sock.sendall(frame(HELLO, b"x" * 400, b"k")[:200])


def reflected(port):
    with connect(port) as sock:
        sock.sendall(receive_frame(sock))
        expect_drop(sock)


def perfect(port):
    say_hello(port)


def wrong_world(port):
    say_hello(port, world=3)


def other_config(port):
    say_hello(port, config=8)


def then_fail(port):
    say_hello(port, then=(FAIL,))


def then_go(port):
    say_hello(port, then=(GO, DATA))


def out_of_range(port):
    say_hello(port, rank=-5, world=2**31 - 1)


HELLOS = (perfect, wrong_world, other_config, then_fail, then_go, out_of_range, reflected)
BYTES = (garbage, web_request, giant_length, half_a_hello)


# Preloaded into rank 1: rank 0 goes on listening for its partner meanwhile.
LATE_HELLO = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
/* Says its hello late at other ports than rank 0's first. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    struct sockaddr_in to = {0};
    socklen_t length = sizeof to;
    if (getpeername(fd, (struct sockaddr *)&to, &length) == 0 && ntohs(to.sin_port) != atoi(getenv("MASTER_PORT")))
        usleep(atoi(getenv("LATE_US")));
    return next(fd, data, bytes, flags);
}
"""


def hold(port, n, said=b""):
    """Opens n connections that say nothing, or no more than this."""
    held = []
    for _ in range(n):
        try:
            held.append(connect(port))
            if said:
                held[-1].sendall(said)
        except OSError:  # some that came before were dropped
            pass
    return held


def drip(port, n, seconds):
    """Slow ones: a byte of a hello now and then."""
    held, data, end = hold(port, n), frame(HELLO, b"x" * 400, b"k"), time.monotonic() + seconds
    for byte in range(len(data)):
        if time.monotonic() > end:
            return
        for sock in held:
            try:
                sock.send(data[byte:byte + 1])
            except OSError:
                pass
        time.sleep(0.02)


def flood(port, seconds):
    """As many connections as one core makes."""
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            with socket.socket() as sock:
                sock.settimeout(0.2)
                sock.connect(("127.0.0.1", port))
                n += 1
        except OSError:
            pass
    return n


def become_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def as_nobody(attack, *arguments):
    """Calls it in a process of another user where this one is root; returns the process's id. Connections that
    were closed, or refused, are what is to be."""
    return as_myself(attack, *arguments, become=become_nobody)


def as_myself(attack, *arguments, become=lambda: None):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        become()
        attack(*arguments)
        code = 0
    except OSError:
        code = 0
    except BaseException as why:  # pylint: disable=broad-exception-caught
        print(f"{attack.__name__}: {why!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def listening_ports(pid):
    """The TCP ports at which a process listens."""
    inodes, ports = set(), set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in inodes:
                        ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    except OSError:
        pass
    return ports


class Recorder:
    """Stands between a rank and rank 0, passes on what both say, and keeps what the rank said."""

    def __init__(self, root_port):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port, self.root_port, self.said = self.server.getsockname()[1], root_port, b""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        rank, _ = self.server.accept()
        root = socket.create_connection(("127.0.0.1", self.root_port))
        threading.Thread(target=self.pass_on, args=(root, rank, False), daemon=True).start()
        self.pass_on(rank, root, True)

    def pass_on(self, source, target, keep):
        try:
            while data := source.recv(65536):
                self.said += data if keep else b""
                target.sendall(data)
        except OSError:
            pass
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
