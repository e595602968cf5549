/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a data set of one or two files of any bytes: what opens can be indexed without further
 * checks. */
#include "runtime/base/status.h"
#include "runtime/io/dataset.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 2 };

static void check_action(const struct hd_dataset_info *info, const struct hd_dataset_rows *rows,
                         int64_t i)
{
    const int64_t dims = info->action_dims;
    for (int64_t d = 0; d < dims; d++)
        if (info->continuous)
            fuzz_check(isfinite(((const float *)rows->action)[i * dims + d]), "a finite action");
        else
            fuzz_check(((const int32_t *)rows->action)[i * dims + d] >= 0 &&
                           ((const int32_t *)rows->action)[i * dims + d] < info->actions[d],
                       "an action that is one");
}

/* Reads the rows as training does. */
static void use(const struct hd_dataset_info *info, const struct hd_dataset_rows *rows)
{
    size_t frame = (size_t)hd_dataset_get_frame_bytes(info);
    for (int64_t i = 0; i < rows->transitions; i++) {
        for (int64_t k = 0; k < info->stack; k++) {
            int64_t at = i * info->stack + k;
            fuzz_touch((const char *)rows->frame + (size_t)rows->obs[at] * frame, frame);
            fuzz_touch((const char *)rows->frame + (size_t)rows->next_obs[at] * frame, frame);
        }
        check_action(info, rows, i);
        fuzz_touch(&rows->reward[i], sizeof rows->reward[i]);
        fuzz_touch(&rows->env[i], sizeof rows->env[i]);
        fuzz_touch(&rows->episode[i], sizeof rows->episode[i]);
        fuzz_touch(&rows->done[i], 1);
        fuzz_touch(&rows->truncated[i], 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_part parts[FILES_MAX];
    char name[64];
    struct hd_dataset *dataset;
    int n = fuzz_split(data, bytes, FILES_MAX, parts);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "transitions-%05d-of-%05d.safetensors", i + 1, n);
        fuzz_write(name, parts[i]);
    }
    if (hd_dataset_open(fuzz_path(""), &dataset) == HD_OK) {
        const struct hd_dataset_info *info = hd_dataset_get_info(dataset);
        fuzz_touch(info->env_type, strlen(info->env_type));
        fuzz_touch(info->env_id, strlen(info->env_id));
        for (int64_t i = 0; i < info->transitions;) {
            const struct hd_dataset_rows *rows = hd_dataset_find(dataset, i);
            fuzz_check(rows->first <= i && i < rows->first + rows->transitions, "a row's file");
            use(info, rows);
            i = rows->first + rows->transitions;
        }
        hd_dataset_close(dataset);
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "transitions-%05d-of-%05d.safetensors", i + 1, n);
        unlink(fuzz_path(name));
    }
    return 0;
}
