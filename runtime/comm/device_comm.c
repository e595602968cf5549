/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/comm/device_comm.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"

static int report_late(struct hd_device_comm *device_comm)
{
    char text[512], others[512] = "";
    hd_device_comm_report(device_comm, text, sizeof text);
    if (device_comm->comm)
        hd_comm_report(device_comm->comm, others, sizeof others);
    return hd_fail(HD_ERR_WATCHDOG, "%s%s%s", text, others[0] ? "; " : "", others);
}

int hd_device_comm_wait(struct hd_device_comm *device_comm, int64_t sequence, int64_t timeout_ns,
                        bool (*cancelled)(void *arg), void *arg)
{
    enum { SPIN_NS = 100000 };
    char why[HD_DEVICE_COMM_MESSAGE_BYTES];
    const int64_t start_ns = hd_clock_get_ns();
    while (!hd_device_comm_test(device_comm, sequence)) {
        const int64_t waited_ns = hd_clock_get_ns() - start_ns;
        HD_TRY(hd_device_comm_get_error(device_comm, why, sizeof why));
        if (device_comm->comm && hd_comm_is_aborted(device_comm->comm))
            return HD_ERR_PEER;
        if (cancelled && cancelled(arg))
            return HD_ERR_STOPPED;
        if (timeout_ns > 0 && waited_ns > timeout_ns)
            return report_late(device_comm);
        if (waited_ns > SPIN_NS)
            hd_nap(waited_ns - SPIN_NS);
    }
    return HD_OK;
}
