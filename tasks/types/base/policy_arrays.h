/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a policy that is used and not trained: they are read from a file of weights, and
 * turn observations into the net's outputs. Reading is for one thread at a time, passes are thread
 * safe on different memory. */
#pragma once

#include "kernels/net/net.h"

/* All borrowed. */
struct hd_policy_arrays {
    const struct hd_net *net;
    void *params;         /* an instance of the net's parameters */
    float *running;       /* [hd_net_count_running]; NULL: the net has no batch norm */
    float *scale, *shift; /* [hd_net_count_obs]; NULL: observations are not normalised */
    float clip;           /* of normalised observations: policy.collect.clip_obs */
    const char
        *strip_prefix; /* what the file's names have before those of the net; NULL: nothing */
};

/* Reads a file that hd_weights_save wrote. It must have every tensor of the net in its shape, those
 * of running statistics and normalisation if these arrays are given, and no other. Returns HD_OK,
 * HD_ERR_NOMEM, HD_ERR_INPUT (there is no such file), HD_ERR_SYSTEM or HD_ERR_FORMAT (logged,
 * naming file and tensor). */
int hd_policy_arrays_read(const struct hd_policy_arrays *arrays, const char *path);

/* Copies tensor i of a net from an open file to an instance of its parameters, which hd_net_refresh
 * has to follow. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_FORMAT (logged). */
struct hd_safetensors;
int hd_weights_import_tensor(const struct hd_safetensors *file, const struct hd_net *net, int i,
                             float *params);

/* Returns whether a net has a parameter tensor of that name. */
bool hd_weights_has_place(const struct hd_net *net, const char *name);

/* The names of the file's tensors of scale and shift. */
extern const char *const hd_obs_scale_name, *const hd_obs_shift_name;

/* Says whether the policy in a file normalises observations. Errors as for hd_policy_arrays_read.
 */
int hd_weights_has_obs_norm(const char *path, bool *normalised_p);

/* The most rows of a pass: more are cut in passes of so many and one of the rest. */
enum { HD_POLICY_ROWS = 64 };

/* Makes what passes of `rows` observations need, and stores the bytes of their work memory. Returns
 * HD_OK or an error of hd_net_create. */
int hd_policy_prepare(const struct hd_policy_arrays *arrays, int64_t rows, int64_t *work_bytes_p);

/* Computes out[rows][hd_net_count_outputs] of obs[rows]: floats, which for a net of bytes are these
 * divided by 255, or what the net takes. A recurrent net takes the rows for the steps of one
 * episode, from its beginning. `work` is 64-byte aligned. A failure of the library, which is
 * logged, makes out NaN. */
void hd_policy_forward(const struct hd_policy_arrays *arrays, bool floats, const void *obs,
                       int64_t rows, void *work, float *out);

/* Does the same with a recurrent net and the next steps of as many episodes, at most
 * HD_POLICY_ROWS, and replaces their states[rows][hd_net_count_state] by those after the steps. */
void hd_policy_forward_step(const struct hd_policy_arrays *arrays, bool floats, const void *obs,
                            int64_t rows, float *states, void *work, float *out);
