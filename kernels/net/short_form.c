/* SPDX-License-Identifier: Apache-2.0 */
/* DI-engine's nets as lists of layers, under its names (docs/di-engine.md 2.1, 3.1). */
#include "kernels/net/net_internal.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* The convolutions of DI-engine's ConvEncoder. */
enum { CONVS = 3 };
static const int64_t kernels[CONVS] = {8, 4, 3}, strides[CONVS] = {4, 2, 1};

/* -- Mistakes ---------------------------------------------------------------------------------- */

static bool has_room(const struct hd_net_fields *fields)
{
    for (int d = 1; d < 3; d++) {
        int64_t side = fields->obs_shape[d];
        for (int i = 0; i < CONVS; i++)
            side = hd_count_windows(side, kernels[i], strides[i], 0);
        if (side < 1)
            return false;
    }
    return true;
}

int hd_short_form_check(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p)
{
    if (fields->obs_dims != 3)
        return HD_OK;
    if (fields->norm != HD_NORM_NONE) {
        mistake_p->field = "norm";
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "sync_batch_norm is for dense nets; convolutional ones (an obs_shape of three "
                 "numbers) take none");
    } else if (fields->n_hidden != 3 && fields->n_hidden != 4) {
        mistake_p->field = "encoder_hidden_size_list";
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "a convolutional encoder takes 3 numbers (channels of three convolutions; the "
                 "last is the width of the dense layer too) or 4 (that width apart), found %lld",
                 (long long)fields->n_hidden);
    } else if (!has_room(fields)) {
        mistake_p->field = "obs_shape";
        snprintf(mistake_p->message, HD_NET_MESSAGE,
                 "images of %lld x %lld are too small for convolutions of 8, 4 and 3 with "
                 "strides 4, 2 and 1",
                 (long long)fields->obs_shape[1], (long long)fields->obs_shape[2]);
    }
    return mistake_p->field ? HD_ERR_INPUT : HD_OK;
}

/* -- Layers ------------------------------------------------------------------------------------ */

enum { HIDDEN_LAYERS = 3, HEAD_LAYERS = HIDDEN_LAYERS + 2 };

int64_t hd_short_form_count_max(const struct hd_net_fields *fields)
{
    return HIDDEN_LAYERS * fields->n_hidden + 2 + HD_NET_STREAMS * HEAD_LAYERS;
}

static struct hd_layer *add(struct hd_layer_list *list, const struct hd_layer_type *type)
{
    struct hd_layer *layer = &list->layers[list->n++];
    *layer = (struct hd_layer){.type = type};
    return layer;
}

static void add_dense(struct hd_layer_list *list, const char *module, int64_t out)
{
    struct hd_layer *layer = add(list, &hd_layer_dense);
    layer->fields[HD_DENSE_OUT] = out;
    snprintf(layer->module, sizeof layer->module, "%s", module);
}

/* Adds modules `first`, `first` + 1, … of the Sequential `name`: a dense layer, a batch norm if the
 * net has them, and a ReLU. */
static void add_hidden(const struct hd_net_fields *fields, struct hd_layer_list *list,
                       const char *name, int first, int64_t out)
{
    char module[HD_MODULE_NAME];
    snprintf(module, sizeof module, "%s.%d", name, first);
    add_dense(list, module, out);
    if (fields->norm == HD_NORM_SYNC_BATCH) {
        struct hd_layer *norm = add(list, &hd_layer_batch_norm);
        snprintf(norm->module, sizeof norm->module, "%s.%d", name, first + 1);
    }
    add(list, &hd_layer_relu);
}

/* Adds DI-engine's FCEncoder: init, then main.0, main.2, …, because its modules include the
 * activations. DI-engine's has no batch norm; with batch norm, layers are named as in its fc_block
 * and MLP: init.0, the norm init.1, main.0, the norm main.1, main.3, … */
static void add_dense_encoder(const struct hd_net_fields *fields, struct hd_layer_list *list)
{
    const bool norm = fields->norm == HD_NORM_SYNC_BATCH;
    if (norm) {
        add_hidden(fields, list, "encoder.init", 0, fields->hidden[0]);
    } else {
        add_dense(list, "encoder.init", fields->hidden[0]);
        add(list, &hd_layer_relu);
    }
    for (int64_t i = 1; i < fields->n_hidden; i++)
        add_hidden(fields, list, "encoder.main", (norm ? 3 : 2) * (int)(i - 1), fields->hidden[i]);
}

/* Adds DI-engine's ConvEncoder. */
static void add_conv_encoder(const struct hd_net_fields *fields, struct hd_layer_list *list)
{
    for (int i = 0; i < CONVS; i++) {
        struct hd_layer *layer = add(list, &hd_layer_conv);
        layer->fields[HD_CONV_CHANNELS] = fields->hidden[i];
        layer->fields[HD_CONV_KERNEL] = kernels[i];
        layer->fields[HD_CONV_STRIDE] = strides[i];
        snprintf(layer->module, sizeof layer->module, "encoder.main.%d", 2 * i);
        add(list, &hd_layer_relu);
    }
    add(list, &hd_layer_flatten);
    add_dense(list, "encoder.mid", fields->hidden[fields->n_hidden - 1]);
}

/* Adds a stream: a hidden layer as wide as the encoder's last one, and an output layer. */
static void add_stream(const struct hd_net_fields *fields, struct hd_layer_list *list,
                       const char *hidden, const char *last, enum hd_output output)
{
    const int64_t first = list->n;
    add_hidden(fields, list, hidden, 0, fields->hidden[fields->n_hidden - 1]);
    const bool log_std = fields->log_std && output == HD_OUTPUT_ACTIONS;
    add_dense(list, last, output == HD_OUTPUT_ACTIONS ? fields->actions / (log_std ? 2 : 1) : 1);
    if (log_std)
        snprintf(add(list, &hd_layer_log_std)->module, HD_MODULE_NAME, "actor_head");
    list->streams[list->n_streams++] = (struct hd_stream){output, list->n - first};
}

void hd_short_form_write(const struct hd_net_fields *fields, struct hd_layer_list *list)
{
    if (fields->obs_dims == 3)
        add_conv_encoder(fields, list);
    else
        add_dense_encoder(fields, list);
    list->trunk = list->n;
    switch (fields->heads) {
    case HD_HEADS_Q:
        add_stream(fields, list, "head.Q.0", "head.Q.1.0", HD_OUTPUT_ACTIONS);
        break;
    case HD_HEADS_DUELING:
        add_stream(fields, list, "head.A.0", "head.A.1.0", HD_OUTPUT_ACTIONS);
        add_stream(fields, list, "head.V.0", "head.V.1.0", HD_OUTPUT_VALUE);
        break;
    case HD_HEADS_ACTOR_CRITIC:
        add_stream(fields, list, "critic_head.main", "critic_head.last", HD_OUTPUT_VALUE);
        add_stream(fields, list, "actor_head.Q.0", "actor_head.Q.1.0", HD_OUTPUT_ACTIONS);
        break;
    }
}

/* -- The form of a list ------------------------------------------------------------------------ */

/* Returns whether `n` layers are those of a hidden layer: dense, with batch norm or without, and a
 * ReLU. */
static bool is_hidden(const struct hd_layer *layers, int64_t n, bool norm)
{
    return n == (norm ? 3 : 2) && layers[0].type == &hd_layer_dense &&
           (!norm || layers[1].type == &hd_layer_batch_norm) &&
           layers[n - 1].type == &hd_layer_relu;
}

static bool are_hidden(const struct hd_layer *layers, int64_t n, bool norm)
{
    const int64_t hidden = norm ? 3 : 2;
    for (int64_t i = 0; i < n; i += hidden)
        if (!is_hidden(layers + i, hidden < n - i ? hidden : n - i, norm))
            return false;
    return true;
}

/* Returns whether the trunk has hidden layers only, and whether they have batch norms. */
static bool has_hidden_trunk(const struct hd_layer_list *list, bool *norm_p)
{
    *norm_p = list->trunk > 1 && list->layers[1].type == &hd_layer_batch_norm;
    return list->obs.dims == 1 && list->trunk > 0 && are_hidden(list->layers, list->trunk, *norm_p);
}

/* A stream has a hidden layer as wide as its input, and an output layer. */
bool hd_short_form_is_dense(const struct hd_layer_list *list)
{
    bool norm;
    if (!has_hidden_trunk(list, &norm))
        return false;
    for (int i = 0; i < list->n_streams; i++) {
        const struct hd_layer *first = list->layers + hd_layer_list_find_stream(list, i);
        if (!is_hidden(first, list->streams[i].layers - 1, norm) ||
            !hd_shape_is_equal(&first->in, &first->out))
            return false;
    }
    return true;
}

/* -- DI-engine's convolutional form, with any number of channels ------------------------------- */

enum { MID = 2 * CONVS + 1 };

static bool is_conv(const struct hd_layer *layer, int i)
{
    return layer[0].type == &hd_layer_conv && layer[1].type == &hd_layer_relu &&
           layer->fields[HD_CONV_KERNEL] == kernels[i] &&
           layer->fields[HD_CONV_STRIDE] == strides[i] && layer->fields[HD_CONV_PADDING] == 0;
}

bool hd_short_form_is_conv(const struct hd_layer_list *list)
{
    if (list->obs.dims != 3 || list->trunk != MID + 1 ||
        list->layers[MID - 1].type != &hd_layer_flatten ||
        list->layers[MID].type != &hd_layer_dense)
        return false;
    for (int i = 0; i < CONVS; i++)
        if (!is_conv(&list->layers[2 * i], i))
            return false;
    for (int i = 0; i < list->n_streams; i++) {
        const struct hd_layer *first = list->layers + hd_layer_list_find_stream(list, i);
        if (!is_hidden(first, list->streams[i].layers - 1, false) ||
            !hd_shape_is_equal(&first->in, &first->out))
            return false;
    }
    return true;
}
