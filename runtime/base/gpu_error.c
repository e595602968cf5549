/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/gpu_error.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdio.h>

static struct {
    void (*end)(void *arg, const char *sentence);
    void *arg;
} handler;

void hd_gpu_set_error_handler(void (*end)(void *arg, const char *sentence), void *arg)
{
    handler.end = end;
    handler.arg = arg;
}

void hd_gpu_end_if_asked(int gpu, const char *what, const char *text, const char *name)
{
    char sentence[512];
    if (!handler.end)
        return;
    snprintf(sentence, sizeof sentence, "GPU %d: %s: %s (%s)", gpu, what, text, name);
    handler.end(handler.arg, sentence);
}

int hd_gpu_fail(int gpu, const char *what, const char *text, const char *name)
{
    hd_gpu_end_if_asked(gpu, what, text, name);
    return hd_fail(HD_ERR_DEVICE, "GPU %d: %s: %s (%s)", gpu, what, text, name);
}
