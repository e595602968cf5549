/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in exports one symbol, `hd_ucx_plugin`, and uses no symbols of the program. Functions
 * return HD_OK, or a status with a sentence in text[bytes]. One thread at a time, but links of
 * several channels may be used at once. */
#pragma once

#include "runtime/comm/comm_links.h"

enum { HD_UCX_ABI = 2, HD_UCX_KEY = 16 };

struct hd_ucx_options {
    int rank, ranks;
    uint8_t key[HD_UCX_KEY]; /* of all ranks: makes tags that unknown peers cannot guess */
};

struct hd_ucx_plugin {
    int abi;
    /* Opens links_p[channels] that know no other rank yet. Their close releases them. */
    int (*open)(const struct hd_ucx_options *options, int channels, struct hd_links **links_p,
                char *text, int64_t bytes);
    /* Returns address[*bytes_p], by which others reach this rank, on any channel; borrowed until
     * close. */
    const void *(*get_address)(struct hd_links *links, int64_t *bytes_p);
    /* Takes a copy of the address of `rank`, for all channels. Returns HD_OK or HD_ERR_NOMEM. */
    int (*set_address)(struct hd_links *links, int rank, const void *address, int64_t bytes);
};
