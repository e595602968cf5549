/* SPDX-License-Identifier: Apache-2.0 */
/* Builds without CUDA have no NCCL. */
#if !HD_CUDA
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/nccl/comm_nccl.h"

static int refuse(void)
{
    return hd_fail(HD_ERR_UNSUPPORTED, "this build has no CUDA, hence no NCCL");
}

int hd_nccl_get_version(int *version_p)
{
    (void)version_p;
    return refuse();
}

int hd_nccl_join(const struct hd_nccl_options *options, struct hd_rendezvous *rendezvous,
                 struct hd_device_comm **device_comm_p)
{
    (void)options, (void)rendezvous, (void)device_comm_p;
    return refuse();
}
#endif
