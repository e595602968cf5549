/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the net of a policy to programs that compute it by other means, and gives them its
 * numbers. */
#include "infer/call_internal.h"
#include "infer/policy_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/types/base/policy_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- The description: values are NULL where there is no memory, and so is what holds them ------ */

static json_t *append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *describe_sizes(int dims, const int64_t *sizes)
{
    json_t *list = json_array();
    for (int i = 0; i < dims; i++)
        list = append(list, json_integer(sizes[i]));
    return list;
}

static json_t *describe_tensor(const char *name, int dims, const int64_t *shape)
{
    return json_pack("{s:s, s:o}", "name", name, "shape", describe_sizes(dims, shape));
}

static json_t *describe_fields(const struct hd_layer *layer)
{
    json_t *fields = json_object();
    for (int i = 0; i < hd_layer_type_count_fields(layer->type); i++)
        if (json_object_set_new(fields, layer->type->fields[i].name,
                                json_integer(layer->fields[i])) != 0) {
            json_decref(fields);
            return NULL;
        }
    return fields;
}

static void name_statistic(const struct hd_net_norm *norm, bool variance, char name[96])
{
    snprintf(name, 96, "%s.running_%s", norm->name, variance ? "var" : "mean");
}

static json_t *describe_tensors(const struct hd_net *net, const struct hd_layer *layer)
{
    struct hd_tensor unused[HD_LAYER_TENSORS];
    const int n = hd_layer_list_tensors(layer, unused);
    json_t *list = json_array();
    for (int t = 0; t < n; t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, layer->tensor + t);
        list = append(list, describe_tensor(tensor->name, tensor->dims, tensor->shape));
    }
    for (int variance = 0; variance < 2 && layer->type->batch; variance++) {
        const struct hd_net_norm *norm = hd_net_get_norm(net, layer->norm);
        char name[96];
        name_statistic(norm, variance, name);
        list = append(list, describe_tensor(name, 1, &norm->features));
    }
    return list;
}

static json_t *describe_layers(const struct hd_net *net, int64_t first, int64_t n);

static json_t *describe_layer(const struct hd_net *net, int64_t i)
{
    const struct hd_layer *layer = &hd_net_get_layers(net)->layers[i];
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "type", layer->type->name,
                     "module", layer->module, "fields", describe_fields(layer), "in",
                     describe_sizes(layer->in.dims, layer->in.size), "out",
                     describe_sizes(layer->out.dims, layer->out.size), "tensors",
                     describe_tensors(net, layer), "state", (json_int_t)layer->state, "layers",
                     describe_layers(net, i + 1, layer->body));
}

/* Describes the layers [first, first + n), each with those inside of it. */
static json_t *describe_layers(const struct hd_net *net, int64_t first, int64_t n)
{
    const struct hd_layer *layers = hd_net_get_layers(net)->layers;
    json_t *list = json_array();
    for (int64_t i = first; i < first + n; i += 1 + layers[i].body)
        list = append(list, describe_layer(net, i));
    return list;
}

/* Returns the name of the part that an input reads; NULL: the observation is one array. */
static const char *find_part(const struct heddle_policy *policy, const struct hd_net_input *input)
{
    for (int i = 0; i < policy->parts.n; i++)
        if (policy->parts.part[i].offset == input->offset)
            return policy->parts.part[i].name;
    return NULL;
}

/* An input ends in `concat`, which says nothing that the order of the inputs does not. */
static json_t *describe_inputs(const struct heddle_policy *policy)
{
    const struct hd_layer_list *layers = hd_net_get_layers(policy->net);
    json_t *list = json_array();
    int64_t first = 0;
    for (int i = 0; i < layers->n_inputs; i++) {
        const struct hd_net_input *input = &layers->inputs[i];
        list = append(
            list, json_pack("{s:s?, s:o, s:b, s:o}", "part", find_part(policy, input), "shape",
                            describe_sizes(input->shape.dims, input->shape.size), "bytes",
                            input->u8, "layers",
                            describe_layers(policy->net, first, input->layers - layers->joined)));
        first += input->layers;
    }
    return list;
}

static json_t *describe_streams(const struct hd_net *net)
{
    const struct hd_layer_list *layers = hd_net_get_layers(net);
    json_t *list = json_array();
    int64_t first = layers->trunk;
    for (int i = 0; i < layers->n_streams; i++) {
        const struct hd_stream *stream = &layers->streams[i];
        list = append(list, json_pack("{s:b, s:o}", "value", stream->output == HD_OUTPUT_VALUE,
                                      "layers", describe_layers(net, first, stream->layers)));
        first += stream->layers;
    }
    return list;
}

static json_t *describe_obs_norm(const struct heddle_policy *policy)
{
    const int64_t n = hd_net_count_obs(policy->net);
    if (!policy->arrays.scale)
        return json_null();
    return json_pack("{s:f, s:o, s:o}", "clip", (double)policy->arrays.clip, "scale",
                     describe_tensor(hd_obs_scale_name, 1, &n), "shift",
                     describe_tensor(hd_obs_shift_name, 1, &n));
}

/* Bounds that there are not are null. */
static json_t *describe_side(const float *values, int dims)
{
    json_t *list = json_array();
    for (int i = 0; i < dims; i++)
        list = append(list, isfinite(values[i]) ? json_real((double)values[i]) : json_null());
    return list;
}

static json_t *describe_bounds(const struct hd_env_actions *box)
{
    if (box->kind != HD_ENV_BOX)
        return json_null();
    return json_pack("{s:o, s:o}", "low", describe_side(box->low, box->dims), "high",
                     describe_side(box->high, box->dims));
}

static json_t *describe_policy(const struct heddle_policy *policy, const char *yaml)
{
    const struct hd_net *net = policy->net;
    const struct hd_layer_list *layers = hd_net_get_layers(net);
    const int64_t first = hd_layer_list_find_trunk(layers);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:I, s:b, s:o}", "policy", yaml,
                     "precision", hd_config_get_text(policy->config, "runtime.precision"), "norm",
                     describe_obs_norm(policy), "inputs", describe_inputs(policy), "layers",
                     describe_layers(net, first, layers->trunk - first), "streams",
                     describe_streams(net), "dueling", hd_net_get_heads(net) == HD_HEADS_DUELING,
                     "value", hd_net_get_heads(net) == HD_HEADS_ACTOR_CRITIC, "actions",
                     (json_int_t)hd_net_count_actions(net), "squashed",
                     policy->algorithm->outputs->squashed, "bounds",
                     describe_bounds(&policy->bounds));
}

static int describe(const struct heddle_policy *policy, char *text, int64_t size, int64_t *bytes_p)
{
    char *yaml = hd_policy_file_describe(policy->config);
    json_t *tree = yaml ? describe_policy(policy, yaml) : NULL;
    char *json = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    free(yaml);
    if (!json)
        return HD_ERR_NOMEM;
    *bytes_p = (int64_t)strlen(json) + 1;
    if (*bytes_p <= size)
        memcpy(text, json, (size_t)*bytes_p);
    free(json);
    return HD_OK;
}

int heddle_policy_describe_net(const struct heddle_policy *policy, char *text, int64_t size,
                               int64_t *bytes_p, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, describe(policy, text, size, bytes_p));
}

/* -- Tensors ----------------------------------------------------------------------------------- */

/* An array of floats that is no parameter of the net; NULL: there is none of that name. */
struct found {
    const float *values;
    int64_t count;
};

static struct found find_array(const struct heddle_policy *policy, const char *name)
{
    const struct hd_policy_arrays *arrays = &policy->arrays;
    const int64_t n = hd_net_count_obs(policy->net);
    char statistic[96];
    for (int i = 0; i < 2 * hd_net_count_norms(policy->net); i++) {
        const struct hd_net_norm *norm = hd_net_get_norm(policy->net, i / 2);
        name_statistic(norm, i % 2, statistic);
        if (strcmp(statistic, name) == 0)
            return (struct found){arrays->running + (i % 2 ? norm->var : norm->mean),
                                  norm->features};
    }
    if (strcmp(name, hd_obs_scale_name) == 0)
        return (struct found){arrays->scale, n};
    return (struct found){strcmp(name, hd_obs_shift_name) == 0 ? arrays->shift : NULL, n};
}

static int check_count(const char *name, int64_t wanted, int64_t found)
{
    return wanted == found
               ? HD_OK
               : hd_fail(HD_ERR_INPUT, "tensor %s has %lld numbers, but there is room for %lld",
                         name, (long long)wanted, (long long)found);
}

static int copy_tensor(const struct heddle_policy *policy, const char *name, int64_t count,
                       float *values)
{
    for (int i = 0; i < hd_net_count_tensors(policy->net); i++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(policy->net, i);
        if (strcmp(tensor->name, name) != 0)
            continue;
        HD_TRY(check_count(name, tensor->count, count));
        return hd_net_export_tensor(policy->net, policy->arrays.params, i, values);
    }
    const struct found found = find_array(policy, name);
    if (!found.values)
        return hd_fail(HD_ERR_INPUT, "the policy has no tensor '%.100s'", name);
    HD_TRY(check_count(name, found.count, count));
    memcpy(values, found.values, (size_t)count * sizeof *values);
    return HD_OK;
}

int heddle_policy_copy_tensor(const struct heddle_policy *policy, const char *name, int64_t count,
                              float *values, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, copy_tensor(policy, name, count, values));
}
