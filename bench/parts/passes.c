/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the passes through a net: one that acts, or one forward and backward as in an update.
 * Rows of recurrent nets are sequences of STEPS, 1 by default. */
#include "bench/parts/nets.h"
#include "bench/parts/parts.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

static void act(void *arg)
{
    hd_bench_passes_forward(arg);
}

static void update(void *arg)
{
    hd_bench_passes_forward(arg);
    hd_bench_passes_backward(arg);
}

static int measure(int argc, char **argv)
{
    struct hd_bench_passes passes;
    struct hd_net *net;
    const int64_t rows = hd_part_parse_number(argc, argv, 3, 256);
    const int64_t steps = hd_part_parse_number(argc, argv, 4, 1);
    const bool acts = argc > 2 && strcmp(argv[2], "act") == 0;
    if (argc < 3 || rows == 0 || steps == 0 || rows % steps != 0 ||
        (!acts && strcmp(argv[2], "update") != 0))
        return HD_ERR_INPUT;
    const int status = hd_bench_net_create(argv[0], argv[1], &net);
    if (status == HD_ERR_INPUT)
        fprintf(stderr, "no net %s in %s\n", argv[0], argv[1]);
    HD_TRY(status);
    HD_TRY(hd_bench_passes_make(net, rows, steps, !acts, &passes));
    hd_part_report(NULL, 1e3 * hd_part_measure_seconds(acts ? act : update, &passes), "ms");
    return HD_OK;
}

const struct hd_bench_part hd_part_passes = {
    HD_BENCH_NETS " f32|bf16 act|update [ROWS [STEPS]]",
    "one pass through a net, one thread, forward alone or forward and backward", measure};
