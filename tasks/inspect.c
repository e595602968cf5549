/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/inspect.h"

#include "kernels/conv.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/safetensors.h"
#include "tasks/types/params.h"
#include "tasks/types/verdict.h"

#include <inttypes.h>
#include <string.h>

static bool holds(const char *path, const char *hash)
{
    struct hd_safetensors *file;
    FILE *there = fopen(path, "rb");
    if (!there)
        return false;
    fclose(there);
    if (hd_safetensors_open(path, &file) != HD_OK)
        return false;
    const char *found = hd_safetensors_metadata(file, "param_hash");
    bool same = found && strcmp(found, hash) == 0;
    hd_safetensors_close(file);
    return same;
}

/* The tensors in PyTorch's layout, one after another in memory[count of all]. */
static int export_tensors(const struct hd_net *net, const float *params,
                          struct hd_tensor_data *tensors, float *memory)
{
    for (int i = 0; i < hd_net_tensors(net); i++) {
        const struct hd_tensor *tensor = hd_net_tensor(net, i);
        float *plain = memory + tensor->offset;
        tensors[i] =
            (struct hd_tensor_data){.name = tensor->name, .data = plain, .dims = tensor->dims};
        memcpy(tensors[i].shape, tensor->shape, (size_t)tensor->dims * sizeof *tensor->shape);
        HD_TRY(hd_net_export(net, params, i, plain));
    }
    return HD_OK;
}

int hd_weights_save(const struct hd_spec *params, const void *data, const char *path,
                    int64_t train_iter)
{
    const struct hd_net *net = hd_params_net(params);
    int n = hd_net_tensors(net);
    const struct hd_tensor *last = hd_net_tensor(net, n - 1);
    char updates[32], hash[32];
    snprintf(updates, sizeof updates, "%lld", (long long)train_iter);
    snprintf(hash, sizeof hash, "%016" PRIx64, hd_value_hash(params, data));
    if (holds(path, hash))
        return HD_OK;
    struct hd_tensor_data *tensors = hd_alloc(n, sizeof *tensors);
    float *memory = hd_alloc(last->offset + last->count, sizeof *memory);
    int status = tensors && memory ? export_tensors(net, data, tensors, memory) : HD_ERR_NOMEM;
    const char *const keys[] = {"format", "train_iter", "param_hash"};
    const char *const values[] = {"pt", updates, hash};
    if (status == HD_OK)
        status = hd_safetensors_write(path, tensors, n, keys, values, 3);
    hd_free(memory);
    hd_free(tensors);
    return status;
}

static int import_tensor(const struct hd_safetensors *file, const struct hd_net *net, int i,
                         float *params)
{
    const struct hd_tensor *tensor = hd_net_tensor(net, i);
    float *plain = hd_alloc(tensor->count, sizeof *plain);
    if (!plain)
        return HD_ERR_NOMEM;
    int status = hd_safetensors_copy(file, tensor->name, tensor->dims, tensor->shape, plain);
    if (status == HD_OK)
        status = hd_net_import(net, plain, i, params);
    hd_free(plain);
    return status;
}

static int import_tensors(const struct hd_safetensors *file, const struct hd_net *net, void *params)
{
    for (int i = 0; i < hd_net_tensors(net); i++)
        HD_TRY(import_tensor(file, net, i, params));
    hd_net_refresh(net, params, 0, hd_net_elements(net));
    return HD_OK;
}

int hd_weights_load(const struct hd_spec *params, void *data, const char *path)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_open(path, &file));
    int status = import_tensors(file, hd_params_net(params), data);
    hd_safetensors_close(file);
    return status;
}

static int print_outputs(const struct hd_net *net, const void *params, const float *obs,
                         int64_t rows, FILE *file)
{
    enum { ROWS_AT_ONCE = 64 };
    const int64_t outputs = hd_net_outputs(net), most = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
    const int64_t rest = most > 0 ? rows % most : 0;
    HD_TRY(hd_net_prepare(net, most, 0));
    HD_TRY(hd_net_prepare(net, rest, 0));
    int64_t bytes = hd_net_forward_bytes(net, most), rest_bytes = hd_net_forward_bytes(net, rest);
    void *work = hd_alloc(bytes > rest_bytes ? bytes : rest_bytes, 1);
    float *q = hd_alloc(most * outputs, sizeof *q);
    int status = work && q ? HD_OK : HD_ERR_NOMEM;
    for (int64_t first = 0; status == HD_OK && first < rows; first += most) {
        int64_t n = rows - first < most ? rows - first : most;
        hd_net_forward_floats(net, params, NULL, obs + first * hd_net_obs(net), n, work, q);
        for (int64_t i = 0; i < n * outputs; i++)
            fprintf(file, "%.9e%c", q[i], (i + 1) % outputs ? ' ' : '\n');
    }
    if (status == HD_OK && fflush(file) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "the outputs cannot be written: %m");
    hd_free(q);
    hd_free(work);
    return status;
}

int hd_weights_outputs(const struct hd_spec *params, const void *data, const char *obs_path,
                       FILE *file)
{
    const struct hd_net *net = hd_params_net(params);
    struct hd_safetensors *tensors;
    int64_t shape[HD_TENSOR_DIMS], row = 1;
    int dims;
    HD_TRY(hd_safetensors_open(obs_path, &tensors));
    float *obs = NULL;
    int status = hd_safetensors_shape(tensors, "obs", shape, &dims);
    for (int i = 1; status == HD_OK && i < dims; i++)
        row *= shape[i];
    if (status == HD_OK && (dims < 2 || row != hd_net_obs(net)))
        status = hd_fail(HD_ERR_INPUT,
                         "%s: a row of tensor 'obs' has %lld numbers, the net takes "
                         "%lld",
                         obs_path, dims < 2 ? 0 : (long long)row, (long long)hd_net_obs(net));
    if (status == HD_OK && !(obs = hd_alloc(shape[0] * row, sizeof *obs)))
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_safetensors_copy(tensors, "obs", dims, shape, obs);
    if (status == HD_OK)
        status = print_outputs(net, data, obs, shape[0], file);
    hd_free(obs);
    hd_safetensors_close(tensors);
    return status;
}

const double *hd_verdict_returns(const void *data, int64_t *n_p)
{
    const struct hd_verdict *verdict = data;
    *n_p = verdict->episodes;
    return verdict->returns;
}

void hd_arithmetic_libraries(char *text, size_t bytes)
{
    hd_conv_library(text, bytes);
}
