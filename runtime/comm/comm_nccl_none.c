/* SPDX-License-Identifier: Apache-2.0 */
/* In builds without CUDA: there are no communicators, so most of this is never called. */
#if !HD_CUDA
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_nccl.h"

#include <stdio.h>

static int refuse(void)
{
    return hd_fail(HD_ERR_UNSUPPORTED, "this build has no CUDA, hence no NCCL");
}

int hd_nccl_get_version(int *version_p)
{
    (void)version_p;
    return refuse();
}

int hd_nccl_make_unique_id(unsigned char id[HD_NCCL_ID_BYTES])
{
    (void)id;
    return refuse();
}

int hd_nccl_create(const struct hd_nccl_options *options, const unsigned char id[HD_NCCL_ID_BYTES],
                   struct hd_nccl **nccl_p)
{
    (void)options;
    (void)id;
    (void)nccl_p;
    return refuse();
}

int hd_nccl_join(const struct hd_nccl_options *options, struct hd_rendezvous *rendezvous,
                 struct hd_nccl **nccl_p)
{
    (void)options;
    (void)rendezvous;
    (void)nccl_p;
    return refuse();
}

void hd_nccl_destroy(struct hd_nccl *nccl)
{
    (void)nccl;
}

void hd_nccl_abort(struct hd_nccl *const *nccls, int n)
{
    (void)nccls;
    (void)n;
}

int64_t hd_nccl_get_scratch_bytes(int64_t n, int ranks)
{
    (void)n;
    (void)ranks;
    return 0;
}

int hd_nccl_post(struct hd_nccl *nccl, int64_t sequence,
                 const struct hd_nccl_collective *collective)
{
    (void)nccl;
    (void)sequence;
    (void)collective;
    return refuse();
}

bool hd_nccl_test(struct hd_nccl *nccl, int64_t sequence)
{
    (void)nccl;
    (void)sequence;
    return false;
}

int hd_nccl_wait(struct hd_nccl *nccl, int64_t sequence, int64_t timeout_ns,
                 bool (*cancelled)(void *arg), void *arg)
{
    (void)nccl;
    (void)sequence;
    (void)timeout_ns;
    (void)cancelled;
    (void)arg;
    return refuse();
}

int hd_nccl_get_error(struct hd_nccl *nccl, char *text, size_t bytes)
{
    (void)nccl;
    snprintf(text, bytes, "no NCCL");
    return HD_ERR_UNSUPPORTED;
}

void hd_nccl_report(struct hd_nccl *nccl, char *text, size_t bytes)
{
    (void)nccl;
    snprintf(text, bytes, "no NCCL");
}
#endif
