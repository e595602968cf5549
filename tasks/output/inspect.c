/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/output/inspect.h"

#include "kernels/conv/conv.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/safetensors.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/eval_result.h"
#include "tasks/types/output/moments.h"

#include <inttypes.h>
#include <string.h>

static const char *const scale_name = "obs_norm.scale", *const shift_name = "obs_norm.shift";

/* -- Writing ----------------------------------------------------------------------------------- */

/* Hashes that identify a policy, written as metadata; an empty text where the policy has no such
 * value. */
enum { PARAM_HASH, OBS_NORM_HASH, BATCH_NORM_STATS_HASH, N_HASHES };
static const char *const hash_keys[N_HASHES] = {"param_hash", "obs_norm_hash",
                                                "batch_norm_stats_hash"};

struct hashes {
    char text[N_HASHES][32];
};

static bool has_same_hashes(const char *path, const struct hashes *hashes)
{
    struct hd_safetensors *file;
    FILE *there = fopen(path, "rb");
    if (!there)
        return false;
    fclose(there);
    if (hd_safetensors_open(path, &file) != HD_OK)
        return false;
    bool same = true;
    for (int i = 0; i < N_HASHES; i++) {
        const char *found = hd_safetensors_get_metadata(file, hash_keys[i]);
        same &= strcmp(found ? found : "", hashes->text[i]) == 0;
    }
    hd_safetensors_close(file);
    return same;
}

/* Converts the net's tensors to PyTorch's layout, one after another in memory[count of all]. */
static int export_tensors(const struct hd_net *net, const float *params,
                          struct hd_tensor_data *tensors, float *memory)
{
    for (int i = 0; i < hd_net_count_tensors(net); i++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, i);
        float *row_major = memory + tensor->offset;
        tensors[i] =
            (struct hd_tensor_data){.name = tensor->name, .data = row_major, .dims = tensor->dims};
        memcpy(tensors[i].shape, tensor->shape, (size_t)tensor->dims * sizeof *tensor->shape);
        HD_TRY(hd_net_export_tensor(net, params, i, row_major));
    }
    return HD_OK;
}

static struct hd_tensor_data elements_tensor(const char *name, const float *data, int64_t n)
{
    return (struct hd_tensor_data){.name = name, .data = data, .dims = 1, .shape = {n}};
}

static int export_norm(const struct hd_weights *weights, struct hd_tensor_data *tensors)
{
    if (!weights->obs_norm)
        return 0;
    const int64_t n = hd_moments_count_elements(weights->obs_norm);
    float *scale, *shift;
    hd_moments_get_scales(weights->obs_norm, weights->obs_norm_data, &scale, &shift);
    tensors[0] = elements_tensor(scale_name, scale, n);
    tensors[1] = elements_tensor(shift_name, shift, n);
    return 2;
}

/* The buffers of a batch norm beside its parameters, by PyTorch's names. */
enum { BATCHES, RUNNING_MEAN, RUNNING_VAR, N_BUFFERS };
static const char *const buffer_names[N_BUFFERS] = {"num_batches_tracked", "running_mean",
                                                    "running_var"};
struct buffer_name {
    char text[HD_TENSOR_NAME + 32];
};

static int count_norms(const struct hd_weights *weights)
{
    return weights->batch_norm_stats
               ? hd_net_count_norms(hd_params_get_net(weights->batch_norm_stats))
               : 0;
}

static struct buffer_name name_buffer(const struct hd_net_norm *norm, int which)
{
    struct buffer_name name;
    snprintf(name.text, sizeof name.text, "%s.%s", norm->name, buffer_names[which]);
    return name;
}

/* Makes tensors of buffer `which` of all norms, whose names are written to names[norms]. */
static int export_buffers(const struct hd_weights *weights, int which, struct buffer_name *names,
                          struct hd_tensor_data *tensors)
{
    const int n = count_norms(weights);
    const float *running = hd_batch_norm_stats_get_running(weights->batch_norm_stats_data);
    for (int i = 0; i < n; i++) {
        const struct hd_net_norm *norm =
            hd_net_get_norm(hd_params_get_net(weights->batch_norm_stats), i);
        const int64_t at = which == RUNNING_MEAN ? norm->mean : norm->var;
        names[i] = name_buffer(norm, which);
        tensors[i] = elements_tensor(names[i].text, running + at, norm->features);
        if (which == BATCHES)
            tensors[i] = (struct hd_tensor_data){
                .name = names[i].text,
                .data = hd_batch_norm_stats_get_batches(weights->batch_norm_stats_data),
                .dtype = HD_DTYPE_I64};
    }
    return n;
}

static struct hashes hash_all(const struct hd_weights *weights)
{
    struct hashes hashes = {0};
    const size_t bytes = sizeof hashes.text[0];
    snprintf(hashes.text[PARAM_HASH], bytes, "%016" PRIx64,
             hd_value_hash(weights->params, weights->data));
    if (count_norms(weights) > 0)
        snprintf(hashes.text[BATCH_NORM_STATS_HASH], bytes, "%016" PRIx64,
                 hd_value_hash(weights->batch_norm_stats, weights->batch_norm_stats_data));
    if (!weights->obs_norm)
        return hashes;
    const int64_t n = hd_moments_count_elements(weights->obs_norm);
    float *scale, *shift;
    hd_moments_get_scales(weights->obs_norm, weights->obs_norm_data, &scale, &shift);
    snprintf(hashes.text[OBS_NORM_HASH], bytes, "%016" PRIx64,
             hd_hash_floats(hd_hash_floats(0, scale, n), shift, n));
    return hashes;
}

static int write_file(const struct hd_file_put *put, const char *path,
                      const struct hd_tensor_data *tensors, int64_t n, const struct hashes *hashes,
                      int64_t train_iter)
{
    char updates[32];
    const char *keys[2 + N_HASHES] = {"format", "train_iter"};
    const char *values[2 + N_HASHES] = {"pt", updates};
    int n_keys = 2;
    snprintf(updates, sizeof updates, "%lld", (long long)train_iter);
    for (int i = 0; i < N_HASHES; i++) {
        if (!hashes->text[i][0])
            continue;
        keys[n_keys] = hash_keys[i];
        values[n_keys++] = hashes->text[i];
    }
    return hd_safetensors_put(put, path, tensors, n, keys, values, n_keys);
}

int hd_weights_save(const struct hd_weights *weights, const struct hd_file_put *put,
                    const char *path, int64_t train_iter)
{
    const struct hd_net *net = hd_params_get_net(weights->params);
    const int n = hd_net_count_tensors(net), norms = count_norms(weights);
    const struct hd_tensor *last = hd_net_get_tensor(net, n - 1);
    const struct hashes hashes = hash_all(weights);
    if (has_same_hashes(path, &hashes))
        return HD_OK;
    struct hd_tensor_data *tensors = hd_alloc(n + N_BUFFERS * norms + 2, sizeof *tensors);
    struct buffer_name *names = hd_alloc(N_BUFFERS * norms + 1, sizeof *names);
    float *memory = hd_alloc(last->offset + last->count, sizeof *memory);
    int status = tensors && names && memory ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        /* The integers of eight bytes come first, so that they are aligned in the file. */
        int64_t at = export_buffers(weights, BATCHES, names, tensors);
        status = export_tensors(net, weights->data, tensors + at, memory);
        at += n;
        at += export_buffers(weights, RUNNING_MEAN, names + norms, tensors + at);
        at += export_buffers(weights, RUNNING_VAR, names + 2 * norms, tensors + at);
        at += export_norm(weights, tensors + at);
        if (status == HD_OK)
            status = write_file(put, path, tensors, at, &hashes, train_iter);
    }
    hd_free(memory);
    hd_free(names);
    hd_free(tensors);
    return status;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static int import_tensor(const struct hd_safetensors *file, const struct hd_net *net, int i,
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

static int import_buffers(const struct hd_safetensors *file, const struct hd_weights *weights)
{
    float *running = hd_batch_norm_stats_get_running(weights->batch_norm_stats_data);
    for (int i = 0; i < count_norms(weights); i++) {
        const struct hd_net_norm *norm =
            hd_net_get_norm(hd_params_get_net(weights->batch_norm_stats), i);
        HD_TRY(hd_safetensors_copy(file, name_buffer(norm, RUNNING_MEAN).text, 1, &norm->features,
                                   running + norm->mean));
        HD_TRY(hd_safetensors_copy(file, name_buffer(norm, RUNNING_VAR).text, 1, &norm->features,
                                   running + norm->var));
    }
    return HD_OK;
}

static int import_all(const struct hd_safetensors *file, const struct hd_weights *weights)
{
    const struct hd_net *net = hd_params_get_net(weights->params);
    for (int i = 0; i < hd_net_count_tensors(net); i++)
        HD_TRY(import_tensor(file, net, i, weights->data));
    hd_net_refresh(net, weights->data, 0, hd_net_count_params(net));
    HD_TRY(import_buffers(file, weights));
    if (!weights->obs_norm)
        return HD_OK;
    const int64_t n = hd_moments_count_elements(weights->obs_norm);
    float *scale, *shift;
    hd_moments_get_scales(weights->obs_norm, weights->obs_norm_data, &scale, &shift);
    HD_TRY(hd_safetensors_copy(file, scale_name, 1, &n, scale));
    return hd_safetensors_copy(file, shift_name, 1, &n, shift);
}

int hd_weights_load(const struct hd_weights *weights, const char *path)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_open(path, &file));
    int status = import_all(file, weights);
    hd_safetensors_close(file);
    return status;
}

int hd_weights_has_obs_norm(const char *path, bool *normalised_p)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_open(path, &file));
    *normalised_p = false;
    for (int64_t i = 0; i < hd_safetensors_count(file); i++)
        *normalised_p |= strcmp(hd_safetensors_get_name(file, i), scale_name) == 0;
    hd_safetensors_close(file);
    return HD_OK;
}

/* -- Outputs ----------------------------------------------------------------------------------- */

/* Observations of bytes come divided by 255, as DI-engine's nets take them, but the moments are
 * those of bytes. */
static const struct hd_obs_norm *norm_of_floats(const struct hd_weights *weights,
                                                struct hd_obs_norm *norm_p, float *scaled)
{
    const struct hd_view view = {.data = weights->obs_norm_data, .spec = weights->obs_norm};
    if (!weights->obs_norm || !hd_moments_get_obs_norm(&view, norm_p))
        return NULL;
    const bool bytes = hd_net_has_u8_obs(hd_params_get_net(weights->params));
    for (int64_t j = 0; j < hd_moments_count_elements(weights->obs_norm); j++)
        scaled[j] = norm_p->scale[j] * (bytes ? 255.0f : 1.0f);
    norm_p->scale = scaled;
    return norm_p;
}

static int print_outputs(const struct hd_weights *weights, const float *obs, int64_t rows,
                         FILE *file)
{
    enum { ROWS_AT_ONCE = 64 };
    const struct hd_net *net = hd_params_get_net(weights->params);
    const int64_t outputs = hd_net_count_outputs(net),
                  max = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
    const int64_t rest = max > 0 ? rows % max : 0;
    struct hd_obs_norm norm;
    HD_TRY(hd_net_prepare(net, max, 0));
    HD_TRY(hd_net_prepare(net, rest, 0));
    int64_t bytes = hd_net_get_forward_bytes(net, max),
            rest_bytes = hd_net_get_forward_bytes(net, rest);
    void *work = hd_alloc(bytes > rest_bytes ? bytes : rest_bytes, 1);
    float *q = hd_alloc(max * outputs, sizeof *q),
          *scaled = hd_alloc(hd_net_count_obs(net), sizeof *q);
    int status = work && q && scaled ? HD_OK : HD_ERR_NOMEM;
    for (int64_t first = 0; status == HD_OK && first < rows; first += max) {
        int64_t n = rows - first < max ? rows - first : max;
        const struct hd_obs_norm *scales = norm_of_floats(weights, &norm, scaled);
        const float *rows_obs = obs + first * hd_net_count_obs(net);
        if (hd_net_count_levels(net) > 0)
            hd_net_forward_running(net, weights->data,
                                   hd_batch_norm_stats_get_running(weights->batch_norm_stats_data),
                                   scales, rows_obs, n, work, q);
        else
            hd_net_forward_floats(net, weights->data, scales, rows_obs, n, work, q);
        for (int64_t i = 0; i < n * outputs; i++)
            fprintf(file, "%.9e%c", q[i], (i + 1) % outputs ? ' ' : '\n');
    }
    if (status == HD_OK && fflush(file) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "the outputs cannot be written: %m");
    hd_free(scaled);
    hd_free(q);
    hd_free(work);
    return status;
}

int hd_weights_print_outputs(const struct hd_weights *weights, const char *obs_path, FILE *file)
{
    const struct hd_net *net = hd_params_get_net(weights->params);
    struct hd_safetensors *tensors;
    int64_t shape[HD_TENSOR_DIMS], row = 1;
    int dims;
    HD_TRY(hd_safetensors_open(obs_path, &tensors));
    float *obs = NULL;
    int status = hd_safetensors_get_shape(tensors, "obs", shape, &dims);
    for (int i = 1; status == HD_OK && i < dims; i++)
        row *= shape[i];
    if (status == HD_OK && (dims < 2 || row != hd_net_count_obs(net)))
        status = hd_fail(HD_ERR_INPUT,
                         "%s: a row of tensor 'obs' has %lld numbers, the net takes "
                         "%lld",
                         obs_path, dims < 2 ? 0 : (long long)row, (long long)hd_net_count_obs(net));
    if (status == HD_OK && !(obs = hd_alloc(shape[0] * row, sizeof *obs)))
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_safetensors_copy(tensors, "obs", dims, shape, obs);
    if (status == HD_OK)
        status = print_outputs(weights, obs, shape[0], file);
    hd_free(obs);
    hd_safetensors_close(tensors);
    return status;
}

const double *hd_eval_result_get_returns(const void *data, int64_t *n_p)
{
    const struct hd_eval_result *result = data;
    *n_p = result->episodes;
    return result->returns;
}

void hd_arithmetic_describe_libraries(char *text, size_t bytes)
{
    hd_conv_describe_library(text, bytes);
}
