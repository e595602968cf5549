/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/output/inspect.h"

#include "kernels/conv/conv.h"
#include "kernels/conv/isa.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/safetensors.h"
#include "runtime/io/logbook.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_arrays.h"
#include "tasks/types/base/policy_file.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/collect/surplus.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/eval_result.h"
#include "tasks/types/output/moments.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
    char why[HD_INPUT_WHY];
    if (!hd_input_check(path, HD_INPUT_RUN, why) || hd_safetensors_open(path, &file) != HD_OK)
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
    tensors[0] = elements_tensor(hd_obs_scale_name, scale, n);
    tensors[1] = elements_tensor(hd_obs_shift_name, shift, n);
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
                      const struct hd_weights *weights, int64_t train_iter)
{
    char updates[32];
    const char *keys[5 + N_HASHES] = {"format", "train_iter", "heddle_version"};
    const char *values[5 + N_HASHES] = {"pt", updates, HD_VERSION};
    int n_keys = 3;
    if (weights->about) {
        keys[n_keys] = hd_policy_file_key;
        values[n_keys++] = weights->about;
    }
    if (weights->origins) {
        keys[n_keys] = hd_policy_file_origins_key;
        values[n_keys++] = weights->origins;
    }
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
            status = write_file(put, path, tensors, at, &hashes, weights, train_iter);
    }
    hd_free(memory);
    hd_free(names);
    hd_free(tensors);
    return status;
}

int hd_weights_save_in_step(struct hd_context *context, const struct hd_weights *weights,
                            char *path, bool spare)
{
    const struct hd_file_put put = {spare ? hd_logbook_put_spare_file : hd_logbook_put_file,
                                    context->logbook};
    struct hd_weights described = *weights;
    described.about = hd_logbook_get_policy(context->logbook);
    described.origins = hd_logbook_get_origins(context->logbook);
    int status = path ? hd_weights_save(&described, &put, path, context->update) : HD_ERR_NOMEM;
    if (path && status != HD_OK)
        status = hd_body_fail(context, "weights cannot be written to %s", path);
    hd_free(path);
    return status;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static struct hd_policy_arrays find_arrays(const struct hd_weights *weights)
{
    struct hd_policy_arrays arrays = {.net = hd_params_get_net(weights->params),
                                      .params = weights->data,
                                      .strip_prefix = weights->strip_prefix};
    if (count_norms(weights) > 0)
        arrays.running = hd_batch_norm_stats_get_running(weights->batch_norm_stats_data);
    if (!weights->obs_norm)
        return arrays;
    hd_moments_get_scales(weights->obs_norm, weights->obs_norm_data, &arrays.scale, &arrays.shift);
    arrays.clip = hd_moments_get_clip(weights->obs_norm);
    return arrays;
}

int hd_weights_load(const struct hd_weights *weights, const char *path)
{
    const struct hd_policy_arrays arrays = find_arrays(weights);
    return hd_policy_arrays_read(&arrays, path);
}

/* -- Outputs ----------------------------------------------------------------------------------- */

static int print_outputs(const struct hd_weights *weights, const float *obs, int64_t rows,
                         FILE *file)
{
    const struct hd_policy_arrays arrays = find_arrays(weights);
    const int64_t outputs = hd_net_count_outputs(arrays.net);
    int64_t bytes;
    HD_TRY(hd_policy_prepare(&arrays, rows, &bytes));
    void *work = hd_alloc(bytes, 1);
    float *out = hd_alloc(rows * outputs, sizeof *out);
    int status = work && out ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        hd_policy_forward(&arrays, true, obs, rows, work, out);
        for (int64_t i = 0; i < rows * outputs; i++)
            fprintf(file, "%.9e%c", out[i], (i + 1) % outputs ? ' ' : '\n');
        if (fflush(file) != 0)
            status = hd_fail(HD_ERR_SYSTEM, "the outputs cannot be written: %m");
    }
    hd_free(out);
    hd_free(work);
    return status;
}

int hd_weights_print_outputs(const struct hd_weights *weights, const char *obs_path, FILE *file)
{
    const struct hd_net *net = hd_params_get_net(weights->params);
    struct hd_safetensors *tensors;
    int64_t shape[HD_TENSOR_DIMS], row = 1;
    int dims;
    if (hd_net_has_inputs(net))
        return hd_fail(HD_ERR_INPUT, "--obs: the net has several inputs, and a file of one tensor "
                                     "holds none of them apart: Python's heddle.load(...).forward "
                                     "takes them (docs/howto/python.md)");
    HD_TRY(hd_safetensors_open(obs_path, &tensors));
    float *obs = NULL;
    int status = hd_safetensors_get_shape(tensors, "obs", shape, &dims);
    for (int i = 1; status == HD_OK && i < dims; i++)
        row *= shape[i];
    if (status == HD_OK && dims < 2)
        status = hd_fail(HD_ERR_INPUT,
                         "%s: tensor 'obs' has %d dimension%s, expected the rows and what is in "
                         "one: [1, %lld] for one observation",
                         obs_path, dims, dims == 1 ? "" : "s", (long long)hd_net_count_obs(net));
    else if (status == HD_OK && row != hd_net_count_obs(net))
        status = hd_fail(HD_ERR_INPUT,
                         "%s: a row of tensor 'obs' has %lld numbers, the net takes "
                         "%lld",
                         obs_path, (long long)row, (long long)hd_net_count_obs(net));
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

static void print_step(const struct hd_net_step *step, FILE *file)
{
    char layer[64];
    snprintf(layer, sizeof layer, "%s%s%s", step->layer, step->activation ? " " : "",
             step->activation ? step->activation : "");
    fprintf(file, "    %-22s %-18s %-24s %-12s %12" PRId64 " %10" PRId64 " %12" PRId64 "\n",
            step->module, layer, step->implementation, step->form, step->weight_bytes,
            step->output_bytes, step->multiply_adds);
}

void hd_inspect_print_net(const struct hd_spec *spec, FILE *file)
{
    enum { ROWS = 32 };
    if (spec->type != &hd_type_params || (spec->init && spec->init->type == spec->type))
        return;
    const struct hd_net *net = hd_params_get_net(spec);
    fprintf(file, "  %s: %" PRId64 " parameters; %d rows a pass on CPUs\n", spec->name,
            hd_net_count_params(net), ROWS);
    fprintf(file, "    %-22s %-18s %-24s %-12s %12s %10s %12s\n", "module", "layer",
            "implementation", "output", "weights, B", "sample, B", "multiply-adds");
    for (int i = 0; i < hd_net_count_steps(net); i++) {
        struct hd_net_step step;
        hd_net_describe_step(net, i, ROWS, &step);
        print_step(&step, file);
    }
}

void hd_inspect_print_parts(const struct hd_config *config, FILE *file)
{
    const struct hd_obs_shape obs = hd_obs_shape_read(config);
    char text[HD_OBS_TEXT];
    if (hd_obs_has_parts(&obs))
        fprintf(file, "  observations: %s, %" PRId64 " bytes\n", hd_obs_shape_write(&obs, text),
                obs.obs_bytes);
}

int64_t hd_inspect_batch(const struct hd_config *config, char *text, size_t bytes)
{
    const int64_t rows = hd_learn_shape_read(config).rows;
    const int n = snprintf(text, bytes, "%" PRId64, rows);
    if (!hd_policy_get(config)->on_policy)
        return 0;
    const struct hd_minibatch_split split = hd_minibatch_split_read(config);
    const int64_t used = split.count == 1 ? split.rows : split.samples;
    snprintf(text + n, bytes - (size_t)n,
             "; an epoch uses %" PRId64 " of %" PRId64 " samples in %" PRId64 " minibatch%s", used,
             split.samples, split.count, split.count == 1 ? "" : "es");
    return split.samples - used;
}

int64_t hd_inspect_fragment(const struct hd_config *config)
{
    return hd_fragment_read(config);
}

int64_t hd_inspect_surplus(const struct hd_config *config)
{
    const int64_t surplus = hd_surplus_count(config);
    return surplus > 0 && hd_surplus_read(config, true) != HD_SURPLUS_KEEP ? surplus : 0;
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

const char *hd_arithmetic_get_isa(void)
{
    return hd_isa_get_name();
}

const struct hd_env_actions *hd_inspect_actions(const struct hd_spec *spec)
{
    return spec->type == &hd_type_envs ? &hd_envs_get_shape(spec)->frame.actions : NULL;
}

void hd_inspect_best(const struct hd_spec *spec, const void *data, double *mean_p,
                     int64_t *update_p)
{
    const struct hd_envs envs = hd_envs_get(spec, (void *)data, 0);
    if (!isfinite(*envs.best_mean))
        return;
    *mean_p = *envs.best_mean;
    *update_p = *envs.best_update;
}
