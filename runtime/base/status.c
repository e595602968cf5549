/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/status.h"

const char *hd_status_get_text(int status)
{
    switch (status) {
#define HD_STATUS_TEXT(name, value, exit_code, text)                                               \
    case value:                                                                                    \
        return text;
        HD_STATUS_MAP(HD_STATUS_TEXT)
#undef HD_STATUS_TEXT
    }
    return "unknown status";
}

int hd_status_get_exit_code(int status)
{
    switch (status) {
#define HD_STATUS_EXIT(name, value, exit_code, text)                                               \
    case value:                                                                                    \
        return exit_code;
        HD_STATUS_MAP(HD_STATUS_EXIT)
#undef HD_STATUS_EXIT
    }
    return 1;
}

bool hd_status_is_stop(int status)
{
    return status == HD_ERR_STOPPED || status == HD_ERR_INTERRUPTED;
}
