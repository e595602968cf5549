/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy episodes of pixel_pong, played on a GPU. Thread safe on different memory; the functions
 * only launch kernels on `stream`. Host scalars are fixed in a captured CUDA graph. */
#ifndef HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_EVALUATION_H
#define HD_KERNELS_ENVS_PIXEL_PONG_PIXEL_PONG_EVALUATION_H

#include "kernels/envs/played.h"

/* The envs of an evaluation, in device memory. An env that has played all its episodes rests. */
struct hd_pixel_pong_evaluation {
    int64_t envs, stack;  /* E; frames of an observation */
    int64_t max_steps;    /* of an episode */
    void *group;          /* group of E envs */
    uint8_t *obs;         /* [E][stack][84 * 84]: oldest first, 4-byte aligned */
    char *played;         /* [E][played_bytes]: a struct hd_played of each env */
    int64_t played_bytes; /* of one env, a multiple of 8 */
};

/* Starts the first episode of each env that is to play any. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_pixel_pong_begin_evaluation_cuda(const struct hd_pixel_pong_evaluation *evaluation,
                                        void *stream);

/* Plays a step of each env that does not rest by the action of its largest output, of
 * out[E][outputs]; actions come first. Where an episode ends, starts the next one. Returns HD_OK or
 * HD_ERR_DEVICE (logged). */
int hd_pixel_pong_evaluate_cuda(const struct hd_pixel_pong_evaluation *evaluation, const float *out,
                                int64_t outputs, void *stream);

#endif
