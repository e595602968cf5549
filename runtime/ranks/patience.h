/* SPDX-License-Identifier: Apache-2.0 */
/* A patience says when somebody who waits should say so. One thread uses it. */
#pragma once

#include "runtime/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* Says when a wait is worth a line: 3 s after the first question, then less and less often. It
 * starts zeroed. */
struct hd_patience {
    int64_t next_ns, pause_ns;
};

static inline bool hd_patience_is_over(struct hd_patience *patience)
{
    const int64_t now_ns = hd_clock_get_ns();
    const bool over = patience->pause_ns > 0 && now_ns >= patience->next_ns;
    if (over || patience->pause_ns == 0) {
        patience->pause_ns = patience->pause_ns > 0 ? 2 * patience->pause_ns : 3000000000;
        patience->next_ns = now_ns + patience->pause_ns;
    }
    return over;
}
