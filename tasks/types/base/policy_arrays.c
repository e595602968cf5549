/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/policy_arrays.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"

#include <stdio.h>
#include <string.h>

const char *const hd_obs_scale_name = "obs_norm.scale", *const hd_obs_shift_name = "obs_norm.shift";

/* -- Reading ----------------------------------------------------------------------------------- */

int hd_weights_import_tensor(const struct hd_safetensors *file, const struct hd_net *net, int i,
                             float *params)
{
    const struct hd_tensor *tensor = hd_net_get_tensor(net, i);
    float *row_major = hd_alloc(tensor->count, sizeof *row_major);
    if (!row_major)
        return HD_ERR_NOMEM;
    int status = hd_safetensors_copy(file, tensor->name, tensor->dims, tensor->shape, row_major);
    if (status == HD_OK)
        status = hd_net_import_tensor(net, row_major, i, params);
    hd_free(row_major);
    return status;
}

static int import_running(const struct hd_safetensors *file, const struct hd_net *net,
                          float *running)
{
    for (int i = 0; i < hd_net_count_norms(net); i++) {
        const struct hd_net_norm *norm = hd_net_get_norm(net, i);
        for (int variance = 0; variance < 2; variance++) {
            char name[HD_TENSOR_NAME + 32];
            snprintf(name, sizeof name, "%s.running_%s", norm->name, variance ? "var" : "mean");
            HD_TRY(hd_safetensors_copy(file, name, 1, &norm->features,
                                       running + (variance ? norm->var : norm->mean)));
        }
    }
    return HD_OK;
}

static int import_all(const struct hd_safetensors *file, const struct hd_policy_arrays *arrays)
{
    const struct hd_net *net = arrays->net;
    const int64_t n = hd_net_count_obs(net);
    for (int i = 0; i < hd_net_count_tensors(net); i++)
        HD_TRY(hd_weights_import_tensor(file, net, i, arrays->params));
    hd_net_refresh(net, arrays->params, 0, hd_net_count_params(net));
    if (arrays->running)
        HD_TRY(import_running(file, net, arrays->running));
    if (!arrays->scale)
        return HD_OK;
    HD_TRY(hd_safetensors_copy(file, hd_obs_scale_name, 1, &n, arrays->scale));
    return hd_safetensors_copy(file, hd_obs_shift_name, 1, &n, arrays->shift);
}

bool hd_weights_has_place(const struct hd_net *net, const char *name)
{
    for (int i = 0; i < hd_net_count_tensors(net); i++)
        if (strcmp(hd_net_get_tensor(net, i)->name, name) == 0)
            return true;
    return false;
}

/* Returns whether a name is that of a buffer of a batch norm. */
static bool is_buffer(const struct hd_net *net, const char *name)
{
    const char *const buffers[] = {"running_mean", "running_var", "num_batches_tracked"};
    const char *dot = strrchr(name, '.');
    bool known = false;
    for (int i = 0; dot && i < 3; i++)
        known |= strcmp(dot + 1, buffers[i]) == 0;
    for (int i = 0; known && i < hd_net_count_norms(net); i++) {
        const char *norm = hd_net_get_norm(net, i)->name;
        if (strlen(norm) == (size_t)(dot - name) && strncmp(norm, name, strlen(norm)) == 0)
            return true;
    }
    return false;
}

static bool is_expected(const struct hd_policy_arrays *arrays, const char *name)
{
    const bool norm = strcmp(name, hd_obs_scale_name) == 0 || strcmp(name, hd_obs_shift_name) == 0;
    return norm ? arrays->scale != NULL
                : hd_weights_has_place(arrays->net, name) || is_buffer(arrays->net, name);
}

/* Prefixes of names, and what they come from. */
static const char *const wrappers[][2] = {{"module.", "DistributedDataParallel"},
                                          {"_orig_mod.", "torch.compile"},
                                          {"model.", "Lightning"}};

/* A net would take its part of another net's tensors, and act by it. */
static int refuse_unexpected(const char *path, const char *name)
{
    for (int i = 0; i < (int)(sizeof wrappers / sizeof *wrappers); i++) {
        const char *prefix = wrappers[i][0];
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return hd_fail(HD_ERR_FORMAT,
                           "%s has the tensor '%s': %s puts '%s' before a net's names; "
                           "--strip-prefix %s takes it away",
                           path, name, wrappers[i][1], prefix, prefix);
    }
    return hd_fail(HD_ERR_FORMAT,
                   "%s has the tensor '%s', which the net does not have: it holds the weights of "
                   "another net than that of the run file",
                   path, name);
}

static int check_names(const struct hd_safetensors *file, const struct hd_policy_arrays *arrays,
                       const char *path)
{
    for (int64_t i = 0; i < hd_safetensors_count(file); i++)
        if (!is_expected(arrays, hd_safetensors_get_name(file, i)))
            return refuse_unexpected(path, hd_safetensors_get_name(file, i));
    return HD_OK;
}

int hd_policy_arrays_read(const struct hd_policy_arrays *arrays, const char *path)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_open(path, &file));
    if (arrays->strip_prefix)
        hd_safetensors_strip_prefix(file, arrays->strip_prefix);
    int status = check_names(file, arrays, path);
    if (status == HD_OK)
        status = import_all(file, arrays);
    hd_safetensors_close(file);
    return status;
}

int hd_weights_has_obs_norm(const char *path, bool *normalised_p)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_map(path, &file)); /* who loads them compares their hash */
    *normalised_p = false;
    for (int64_t i = 0; i < hd_safetensors_count(file); i++)
        *normalised_p |= strcmp(hd_safetensors_get_name(file, i), hd_obs_scale_name) == 0;
    hd_safetensors_close(file);
    return HD_OK;
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Scales for observations of bytes that come as floats stand before the memory of a pass. */
static int64_t count_scale_bytes(const struct hd_policy_arrays *arrays)
{
    return arrays->scale
               ? hd_align_up(hd_net_count_obs(arrays->net) * (int64_t)sizeof *arrays->scale)
               : 0;
}

static int64_t count_state_bytes(const struct hd_net *net)
{
    return hd_align_up(hd_net_count_state(net) * (int64_t)sizeof(float));
}

int hd_policy_prepare(const struct hd_policy_arrays *arrays, int64_t rows, int64_t *work_bytes_p)
{
    const struct hd_net *net = arrays->net;
    const int64_t most = rows < HD_POLICY_ROWS ? rows : HD_POLICY_ROWS;
    const int64_t rest = most > 0 ? rows % most : 0;
    HD_TRY(hd_net_prepare(net, most, 0));
    HD_TRY(hd_net_prepare(net, rest, 0));
    const int64_t bytes = hd_net_get_forward_bytes(net, most, 1);
    const int64_t rest_bytes = hd_net_get_forward_bytes(net, rest, 1);
    *work_bytes_p = count_scale_bytes(arrays) + count_state_bytes(net) +
                    (bytes > rest_bytes ? bytes : rest_bytes);
    return HD_OK;
}

/* The moments of a net of bytes are those of bytes, also if these come divided by 255, as
 * DI-engine's nets take them. */
static const float *scale_floats(const struct hd_policy_arrays *arrays, bool floats, float *scaled)
{
    if (!floats || !hd_net_has_u8_obs(arrays->net))
        return arrays->scale;
    for (int64_t j = 0; j < hd_net_count_obs(arrays->net); j++)
        scaled[j] = arrays->scale[j] * 255.0f;
    return scaled;
}

static void forward(const struct hd_policy_arrays *arrays, bool floats,
                    const struct hd_obs_norm *norm, const void *obs, int64_t rows, void *work,
                    float *out)
{
    const struct hd_net_pass pass = {.params = arrays->params,
                                     .running = arrays->running,
                                     .norm = norm,
                                     .obs = obs,
                                     .rows = rows,
                                     .floats = floats,
                                     .work = work};
    hd_net_forward(arrays->net, &pass, out);
}

/* Makes the normalisation of a pass, whose scales may stand in its work memory; returns NULL for
 * none. */
static const struct hd_obs_norm *make_norm(const struct hd_policy_arrays *arrays, bool floats,
                                           void *work, struct hd_obs_norm *norm)
{
    if (!arrays->scale)
        return NULL;
    *norm = (struct hd_obs_norm){
        .scale = scale_floats(arrays, floats, work), .shift = arrays->shift, .limit = arrays->clip};
    return norm;
}

static void forward_step(const struct hd_policy_arrays *arrays, bool floats,
                         const struct hd_obs_norm *norm, const void *obs, int64_t rows,
                         float *states, void *work, float *out)
{
    const struct hd_net_sequences step = {.steps = 1, .state = states, .next_state = states};
    const struct hd_net_pass pass = {.params = arrays->params,
                                     .norm = norm,
                                     .obs = obs,
                                     .rows = rows,
                                     .floats = floats,
                                     .sequences = &step,
                                     .work = work};
    hd_net_forward(arrays->net, &pass, out);
}

void hd_policy_forward_step(const struct hd_policy_arrays *arrays, bool floats, const void *obs,
                            int64_t rows, float *states, void *work, float *out)
{
    struct hd_obs_norm norm;
    forward_step(arrays, floats, make_norm(arrays, floats, work, &norm), obs, rows, states,
                 (char *)work + count_scale_bytes(arrays), out);
}

/* The state stands first in the work memory. */
static void forward_episode(const struct hd_policy_arrays *arrays, bool floats,
                            const struct hd_obs_norm *norm, const char *obs, int64_t row_bytes,
                            int64_t rows, void *work, float *out)
{
    const int64_t outputs = hd_net_count_outputs(arrays->net),
                  state_bytes = count_state_bytes(arrays->net);
    memset(work, 0, (size_t)state_bytes);
    for (int64_t i = 0; i < rows; i++)
        forward_step(arrays, floats, norm, obs + i * row_bytes, 1, work, (char *)work + state_bytes,
                     out + i * outputs);
}

void hd_policy_forward(const struct hd_policy_arrays *arrays, bool floats, const void *obs,
                       int64_t rows, void *work, float *out)
{
    const struct hd_net *net = arrays->net;
    const int64_t outputs = hd_net_count_outputs(net);
    const int64_t row_bytes =
        floats ? hd_net_count_obs(net) * (int64_t)sizeof(float) : hd_net_get_obs_bytes(net);
    char *pass_work = (char *)work + count_scale_bytes(arrays);
    struct hd_obs_norm scales;
    const struct hd_obs_norm *norm = make_norm(arrays, floats, work, &scales);
    if (hd_net_count_state(net) > 0) {
        forward_episode(arrays, floats, norm, obs, row_bytes, rows, pass_work, out);
        return;
    }
    for (int64_t first = 0; first < rows; first += HD_POLICY_ROWS) {
        const int64_t n = rows - first < HD_POLICY_ROWS ? rows - first : HD_POLICY_ROWS;
        forward(arrays, floats, norm, (const char *)obs + first * row_bytes, n, pass_work,
                out + first * outputs);
    }
}
