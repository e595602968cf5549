/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/impl/impl.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

void hd_impl_destroy(struct hd_impl *impl)
{
    if (!impl)
        return;
    if (impl->type->destroy)
        impl->type->destroy(impl);
    hd_free(impl);
}

int hd_impl_begin(struct hd_impl_run *run)
{
    return run->impl->type->begin ? run->impl->type->begin(run) : HD_OK;
}

int hd_impl_end(struct hd_impl_run *run)
{
    return run->impl->type->end ? run->impl->type->end(run) : HD_OK;
}
