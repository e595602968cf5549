/* SPDX-License-Identifier: Apache-2.0 */
/* Tells of errors of GPUs. After most of them a GPU is lost to the process: each later call returns
 * the same error, and StarPU waits for ever for what was on its way. A program with tasks on GPUs
 * therefore ends at the first one, wherever it is found. Thread safe. */
#pragma once

/* Has errors of GPUs told to end(arg, sentence), which does not return. NULL: no longer. Not while
 * another thread may tell of one. */
void hd_gpu_set_error_handler(void (*end)(void *arg, const char *sentence), void *arg);

/* Tells of an error of a GPU (CUDA's number): what failed, and the error's text and name. "GPU 0: a
 * CUDA graph: an illegal memory access was encountered (cudaErrorIllegalAddress)". The first calls
 * the program's function, if there is one, for callers that keep the error; the second logs the
 * sentence if there is none, and returns HD_ERR_DEVICE. */
void hd_gpu_end_if_asked(int gpu, const char *what, const char *text, const char *name);
int hd_gpu_fail(int gpu, const char *what, const char *text, const char *name);
