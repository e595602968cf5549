/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in for UCX by itself: links of several ranks in one process. Messages of whoever does
 * not know the key are not taken, messages of other lengths and ranks that are gone are told.
 * test_message.c sends all kinds of messages between processes. */
#include "runtime/base/clock.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_ucx_plugin.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 3 << 20, SHORT = 4096, LINKS_MAX = 3, TIMEOUT_S = 20 };

static const struct hd_ucx_plugin *plugin;
static struct hd_links *links[LINKS_MAX];
static bool done[LINKS_MAX][8];

static void load(void)
{
    char why[512];
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_VFS_ENABLE", "n", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("UCX_NET_DEVICES", "lo", 0);
    setenv("UCX_TLS", "tcp,self", 0); /* there need be no RDMA device */
    plugin = hd_plugin_load("heddle_ucx.so", "hd_ucx_plugin", HD_UCX_ABI, false, "UCX",
                            "libucx-dev", why, sizeof why);
    ck_assert_msg(plugin != NULL, "%s", why);
}

/* Opens links as this rank of two, by a key of which `secret` is the first byte. */
static struct hd_links *open_links(int rank, uint8_t secret)
{
    const struct hd_ucx_options options = {.rank = rank, .ranks = 2, .key = {secret}};
    struct hd_links *opened;
    char why[512] = "";
    int status = plugin->open(&options, 1, &opened, why, sizeof why);
    ck_assert_msg(status == HD_OK, "%s", why);
    return opened;
}

static void introduce(struct hd_links *to, int rank, struct hd_links *whom)
{
    int64_t bytes;
    const void *address = plugin->get_address(whom, &bytes);
    ck_assert_int_eq(plugin->set_address(to, rank, address, bytes), HD_OK);
}

/* links[0] and links[1] know each other; links[2] claims to be rank 1, without the key. */
static void open_all(void)
{
    load();
    links[0] = open_links(0, 1);
    links[1] = open_links(1, 1);
    links[2] = open_links(1, 2);
    introduce(links[0], 1, links[1]);
    introduce(links[1], 0, links[0]);
    introduce(links[2], 0, links[0]);
}

static void close_all(bool orderly)
{
    for (int i = 0; i < LINKS_MAX; i++)
        if (links[i])
            links[i]->ops->close(links[i], orderly);
    memset(links, 0, sizeof links);
}

static void start(int of, bool out, int tag, void *data, int64_t bytes)
{
    const struct hd_comm_transfer transfer = {of == 0 ? 1 : 0, out, data, bytes};
    ck_assert_int_eq(links[of]->ops->start(links[of], tag, &transfer, 1), HD_OK);
}

/* Drives all links on until message `number` of links `of` has ended, or these fail. Returns their
 * status, or HD_ERR_WATCHDOG. */
static int drive(int of, int number)
{
    const int64_t end_ns = hd_clock_get_ns() + TIMEOUT_S * INT64_C(1000000000);
    while (!done[of][number] && hd_clock_get_ns() < end_ns)
        for (int i = 0; i < LINKS_MAX; i++) {
            const int status = links[i] ? links[i]->ops->progress(links[i], done[i]) : HD_OK;
            if (i == of && status != HD_OK)
                return status;
        }
    return done[of][number] ? HD_OK : HD_ERR_WATCHDOG;
}

static void reset_all(void)
{
    for (int i = 0; i < LINKS_MAX; i++)
        if (links[i])
            links[i]->ops->reset(links[i]);
    memset(done, 0, sizeof done);
}

/* -- Tests ------------------------------------------------------------------------------------- */

TEST(unknown_peers_are_not_heard)
{
    static unsigned char good[BYTES], evil[BYTES], got[BYTES];
    static const int64_t sizes[] = {1, SHORT, BYTES};
    open_all();
    memset(good, 1, sizeof good);
    memset(evil, 255, sizeof evil);
    for (int i = 0; i < 3; i++) {
        memset(got, 0, sizeof got);
        start(2, true, 7, evil, sizes[i]);
        start(0, false, 7, got, sizes[i]);
        for (int k = 0; k < 1000; k++)
            for (int l = 0; l < LINKS_MAX; l++)
                ck_assert_int_eq(links[l]->ops->progress(links[l], done[l]), HD_OK);
        ck_assert(!done[0][0]);
        ck_assert(!links[0]->ops->probe(links[0], 1, 7));
        start(1, true, 7, good, sizes[i]);
        ck_assert_int_eq(drive(0, 0), HD_OK);
        ck_assert_int_eq(drive(1, 0), HD_OK);
        ck_assert(memcmp(got, good, (size_t)sizes[i]) == 0);
        links[2]->ops->close(links[2], false);
        links[2] = open_links(1, 2);
        introduce(links[2], 0, links[0]);
        reset_all();
    }
    close_all(true);
}

/* links[0] say that they lost rank 1, and why. */
static void check_lost(const char *why)
{
    int rank = -1;
    const char *said = links[0]->ops->error(links[0], &rank);
    ck_assert_int_eq(rank, 1);
    ck_assert_msg(said[0] && strstr(said, why), "%s", said);
}

static void expect_other_length(int64_t sent, int64_t expected)
{
    static unsigned char from[BYTES], to[BYTES];
    open_all();
    start(1, true, 3, from, sent);
    start(0, false, 3, to, expected);
    ck_assert_int_eq(drive(0, 0), HD_ERR_PEER);
    check_lost("message");
    close_all(false);
    memset(done, 0, sizeof done);
}

TEST(other_lengths_are_told)
{
    expect_other_length(SHORT, SHORT + 4);
    expect_other_length(SHORT + 4, SHORT);
    expect_other_length(0, 4);
    expect_other_length(BYTES - 4, BYTES);
    expect_other_length(BYTES, BYTES - 4);
}

TEST(a_rank_that_goes_is_told)
{
    static unsigned char data[SHORT], other[SHORT];
    open_all();
    start(0, true, 1, data, SHORT);
    start(1, false, 1, other, SHORT);
    start(0, false, 2, data, SHORT);
    ck_assert_int_eq(drive(1, 0), HD_OK);
    ck_assert_int_eq(drive(0, 0), HD_OK);
    links[1]->ops->close(links[1], false);
    links[1] = NULL;
    ck_assert_int_eq(drive(0, 1), HD_ERR_PEER);
    check_lost("");
    close_all(false);
    memset(done, 0, sizeof done);
}
