/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a net with their shapes, and what can be wrong with them. */
#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

static int blame(struct hd_net_mistake *mistake_p, const struct hd_layer *layer)
{
    mistake_p->field = "layers";
    mistake_p->source = layer->source;
    return HD_ERR_INPUT;
}

/* Says what a layer takes and what it gets, from which layer (NULL: the observation). */
static int refuse_input(const struct hd_layer *layer, const struct hd_layer *before,
                        const char *takes, struct hd_net_mistake *mistake_p)
{
    char shape[HD_SHAPE_TEXT];
    hd_shape_describe(&layer->in, shape);
    snprintf(mistake_p->message, HD_NET_MESSAGE, "%s %s; it gets %s from %s", layer->type->name,
             takes, shape, before ? before->type->name : "the observation");
    return blame(mistake_p, layer);
}

/* Shapes along a sequence of layers. */
struct walk {
    struct hd_layer *layers;
    struct hd_shape shape;
    const struct hd_layer *last,
        *before; /* the layer whose output has this shape, and that before it; NULL: there is none
                  */
};

static int infer(struct walk *walk, int64_t first, int64_t n, struct hd_net_mistake *mistake_p);

/* A layer with a state is a step of the list itself. */
static int check_states(const struct hd_layer *layer, struct hd_net_mistake *mistake_p)
{
    for (int64_t i = 1; i <= layer->body; i++)
        if (layer[i].type->states > 0) {
            snprintf(mistake_p->message, HD_NET_MESSAGE, "%s cannot stand inside of %s",
                     layer[i].type->name, layer->type->name);
            return blame(mistake_p, &layer[i]);
        }
    return HD_OK;
}

static int infer_body(const struct walk *around, int64_t i, struct hd_net_mistake *mistake_p)
{
    const struct hd_layer *layer = &around->layers[i];
    struct walk inside = *around;
    char in[HD_SHAPE_TEXT], out[HD_SHAPE_TEXT];
    HD_TRY(check_states(layer, mistake_p));
    HD_TRY(infer(&inside, i + 1, layer->body, mistake_p));
    if (layer->body > 0 && hd_shape_is_equal(&inside.shape, &layer->in))
        return HD_OK;
    hd_shape_describe(&layer->in, in);
    hd_shape_describe(&inside.shape, out);
    snprintf(mistake_p->message, HD_NET_MESSAGE,
             layer->body > 0
                 ? "%s adds its input, %s, to the output of its layers, %s; both shapes "
                   "must be equal"
                 : "%s contains no layers",
             layer->type->name, in, out);
    return blame(mistake_p, layer);
}

static int infer(struct walk *walk, int64_t first, int64_t n, struct hd_net_mistake *mistake_p)
{
    char takes[HD_LAYER_MESSAGE];
    for (int64_t i = first; i < first + n; i += 1 + walk->layers[i].body) {
        struct hd_layer *layer = &walk->layers[i];
        layer->in = walk->shape;
        const bool fits = layer->type->infer(layer, takes);
        if (!fits)
            return refuse_input(layer, walk->last, takes, mistake_p);
        if (walk->last && layer->type->observation)
            return refuse_input(layer, walk->last, "takes the observation alone", mistake_p);
        if (layer->type->has_body)
            HD_TRY(infer_body(walk, i, mistake_p));
        walk->shape = layer->out;
        walk->before = walk->last;
        walk->last = layer;
    }
    return HD_OK;
}

/* A stream ends in a dense layer with a number for each action, or one; parameters behind it may
 * make half of the numbers. */
static int check_output(const struct hd_net_fields *fields, const struct hd_stream *stream,
                        const struct walk *walk, struct hd_net_mistake *mistake_p)
{
    const int64_t wanted = stream->output == HD_OUTPUT_ACTIONS ? fields->actions : 1;
    const bool log_std = walk->last && walk->last->type == &hd_layer_log_std;
    const struct hd_layer *last = log_std ? walk->before : walk->last;
    char shape[HD_SHAPE_TEXT];
    if (last && walk->shape.size[0] == wanted && last->type == &hd_layer_dense)
        return HD_OK;
    hd_shape_describe(&walk->shape, shape);
    snprintf(mistake_p->message, HD_NET_MESSAGE, "a head of [%lld] numbers ends in %s of %s",
             (long long)wanted, walk->last ? walk->last->type->name : "the observation", shape);
    mistake_p->field = "layers";
    mistake_p->source = walk->last ? walk->last->source : NULL;
    return HD_ERR_INPUT;
}

/* Heads have one stream for the actions, and another one for a value where there is one. */
static bool has_streams(const struct hd_net_fields *fields, const struct hd_layer_list *list)
{
    const bool value = fields->heads != HD_HEADS_Q;
    int actions = 0;
    for (int i = 0; i < list->n_streams; i++)
        actions += list->streams[i].output == HD_OUTPUT_ACTIONS;
    return actions == 1 && list->n_streams == (value ? 2 : 1);
}

/* Inputs end in `concat`, which writes its part of what they make together. */
static int infer_inputs(struct hd_layer_list *list, struct walk *trunk,
                        struct hd_net_mistake *mistake_p)
{
    int64_t end = 0, numbers = 0;
    for (int i = 0; i < list->n_inputs && list->joined; i++) {
        const struct hd_net_input *input = &list->inputs[i];
        struct walk walk = {.layers = list->layers, .shape = input->shape};
        HD_TRY(infer(&walk, end, input->layers, mistake_p));
        end += input->layers;
        list->layers[end - 1].fields[HD_CONCAT_FIRST] = numbers;
        numbers += walk.shape.size[0];
        trunk->last = walk.last;
    }
    end = 0;
    for (int i = 0; i < list->n_inputs && list->joined; i++) {
        end += list->inputs[i].layers;
        trunk->shape = list->layers[end - 1].out = (struct hd_shape){1, {numbers}};
    }
    return HD_OK;
}

static int infer_all(const struct hd_net_fields *fields, struct hd_layer_list *list,
                     struct hd_net_mistake *mistake_p)
{
    struct walk trunk = {.layers = list->layers, .shape = list->obs};
    const int64_t first = hd_layer_list_find_trunk(list);
    if (!has_streams(fields, list)) {
        mistake_p->field = "heads";
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "the heads do not yield what policy.type needs");
        return HD_ERR_INPUT;
    }
    HD_TRY(infer_inputs(list, &trunk, mistake_p));
    HD_TRY(infer(&trunk, first, list->trunk - first, mistake_p));
    for (int i = 0; i < list->n_streams; i++) {
        const struct hd_stream *stream = &list->streams[i];
        struct walk walk = trunk;
        HD_TRY(infer(&walk, hd_layer_list_find_stream(list, i), stream->layers, mistake_p));
        HD_TRY(check_output(fields, stream, &walk, mistake_p));
    }
    return HD_OK;
}

/* Sums over a batch would need all samples at once, where a layer with a state needs them in the
 * order of time. */
static int check_norms(const struct hd_layer_list *list, struct hd_net_mistake *mistake_p)
{
    const struct hd_layer *norm = NULL, *recurrent = NULL;
    for (const struct hd_layer *layer = list->layers; layer < list->layers + list->n; layer++) {
        norm = layer->type->batch ? layer : norm;
        recurrent = layer->type->states > 0 ? layer : recurrent;
    }
    if (!norm || !recurrent)
        return HD_OK;
    snprintf(mistake_p->message, HD_NET_MESSAGE, "a net with %s cannot have %s", norm->type->name,
             recurrent->type->name);
    return blame(mistake_p, recurrent);
}

/* The list of the fields has as many layers as trunk and streams say. */
static void copy_list(const struct hd_net_fields *fields, struct hd_layer_list *list)
{
    list->trunk = fields->trunk;
    list->n_streams = fields->n_streams;
    memcpy(list->streams, fields->streams, sizeof list->streams);
    list->n = hd_layer_list_find_stream(list, list->n_streams);
    memcpy(list->layers, fields->layers, (size_t)list->n * sizeof *list->layers);
}

static int64_t count_list(const struct hd_net_fields *fields)
{
    int64_t n = fields->trunk;
    for (int i = 0; i < fields->n_streams; i++)
        n += fields->streams[i].layers;
    return n;
}

/* One array is an input without layers. */
static void take_obs(const struct hd_net_fields *fields, struct hd_layer_list *list)
{
    list->joined = fields->n_inputs > 0;
    list->n_inputs = list->joined ? fields->n_inputs : 1;
    list->frames = list->joined ? fields->frames : 1;
    if (!list->joined) {
        list->obs.dims = fields->obs_dims;
        memcpy(list->obs.size, fields->obs_shape, (size_t)fields->obs_dims * sizeof(int64_t));
        list->inputs[0] = (struct hd_net_input){.shape = list->obs, .u8 = fields->obs_u8};
        list->frame_bytes =
            hd_shape_count(&list->obs) * (int64_t)(fields->obs_u8 ? 1 : sizeof(float));
        return;
    }
    list->frame_bytes = fields->frame_bytes;
    memcpy(list->inputs, fields->inputs, (size_t)list->n_inputs * sizeof *list->inputs);
    list->obs.dims = 1;
    for (int i = 0; i < list->n_inputs; i++)
        list->obs.size[0] += hd_shape_count(&list->inputs[i].shape);
}

int hd_layer_list_create(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p,
                         struct hd_layer_list *list_p)
{
    struct hd_layer_list list = {0};
    if (fields->n_inputs == 0 && fields->obs_dims != 1 && fields->obs_dims != 3) {
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "expected one number (a dense net) or [channels, height, width] (a convolutional "
                 "net), found %d numbers",
                 fields->obs_dims);
        mistake_p->field = "obs_shape";
        return HD_ERR_INPUT;
    }
    take_obs(fields, &list);
    if (!fields->layers)
        HD_TRY(hd_short_form_check(fields, mistake_p));
    list.layers = hd_alloc(fields->layers ? count_list(fields) : hd_short_form_count_max(fields),
                           sizeof *list.layers);
    if (!list.layers)
        return HD_ERR_NOMEM;
    if (fields->layers)
        copy_list(fields, &list);
    else
        hd_short_form_write(fields, &list);
    int status = infer_all(fields, &list, mistake_p);
    if (status == HD_OK)
        status = check_norms(&list, mistake_p);
    if (status != HD_OK) {
        hd_free(list.layers);
        return status;
    }
    *list_p = list;
    return HD_OK;
}
