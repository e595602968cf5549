/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of layers of the tests. One thread at a time. */
#pragma once

#include "kernels/net/net.h"

#include <stdbool.h>

/* A layer with its fields; `inside` is the number of layers in a residual. */
#define L(name, ...)                                                                               \
    {                                                                                              \
        .type = &hd_layer_##name, .fields = {__VA_ARGS__}, .module = #name                         \
    }
#define RESIDUAL(inside)                                                                           \
    {                                                                                              \
        .type = &hd_layer_residual, .body = inside                                                 \
    }

enum { MAX_LIST = 24 };

struct list_case {
    const char *name;
    int dims;
    int64_t shape[3];
    bool u8;
    int64_t actions, rows;
    enum hd_heads heads;
    int64_t trunk;
    struct hd_stream streams[2];
    int n_streams;
    struct hd_layer layers[MAX_LIST];
    struct hd_net_input inputs[3]; /* in place of dims, shape and u8 */
    int n_inputs;
    int64_t frames, frame_bytes;
};

#define Q_STREAM(n) .heads = HD_HEADS_Q, .n_streams = 1, .streams = {{HD_OUTPUT_ACTIONS, n}}
#define DUELING_STREAMS(a, v)                                                                      \
    .heads = HD_HEADS_DUELING, .n_streams = 2,                                                     \
    .streams = {{HD_OUTPUT_ACTIONS, a}, {HD_OUTPUT_VALUE, v}}
#define ACTOR_CRITIC_STREAMS(v, a)                                                                 \
    .heads = HD_HEADS_ACTOR_CRITIC, .n_streams = 2,                                                \
    .streams = {{HD_OUTPUT_VALUE, v}, {HD_OUTPUT_ACTIONS, a}}

enum { WIDE_LIST = 9 }; /* number of the one with several stages */

static const struct list_case lists[] = {
    {"dense layers and activations",
     1,
     {5},
     false,
     3,
     7,
     Q_STREAM(1),
     .trunk = 7,
     .layers = {L(dense, 17), L(tanh), L(layer_norm), L(dense, 9), L(gelu), L(dense, 6), L(relu),
                L(dense, 3)}},
    {"convolutions with strides, padding and a residual",
     3,
     {3, 11, 9},
     true,
     4,
     5,
     ACTOR_CRITIC_STREAMS(3, 1),
     .trunk = 10,
     .layers = {L(conv, 5, 3, 2, 1), L(relu), L(max_pool, 3, 2, 1), RESIDUAL(4), L(relu),
                L(conv, 5, 3, 1, 1), L(relu), L(conv, 5, 3, 1, 1), L(flatten), L(tanh), L(dense, 8),
                L(gelu), L(dense, 1), L(dense, 4)}},
    {"embedding",
     1,
     {4},
     false,
     5,
     9,
     DUELING_STREAMS(1, 3),
     .trunk = 4,
     .layers = {L(embedding, 6, 3), L(layer_norm), L(flatten), L(relu), L(dense, 5), L(dense, 7),
                L(tanh), L(dense, 1)}},
    {"norms and pools of images",
     3,
     {4, 10, 7},
     false,
     2,
     6,
     Q_STREAM(2),
     .trunk = 6,
     .layers = {L(layer_norm), L(conv, 6, 1, 1, 0), L(tanh), L(max_pool, 2, 0, 0), L(layer_norm),
                L(flatten), L(gelu), L(dense, 2)}},
    {"residuals inside of residuals, also of the observation",
     1,
     {6},
     false,
     3,
     8,
     Q_STREAM(1),
     .trunk = 9,
     .layers = {RESIDUAL(2), L(dense, 6), L(tanh), RESIDUAL(4), L(dense, 6), RESIDUAL(1), L(gelu),
                L(layer_norm), L(tanh), L(dense, 3)}},
    {"images of several parts",
     3,
     {16, 20, 21},
     true,
     3,
     2,
     Q_STREAM(1),
     .trunk = 4,
     .layers = {L(conv, 7, 5, 1, 2), L(relu), L(max_pool, 4, 4, 2), L(flatten), L(dense, 3)}},
    {"a kernel that its stride does not divide, and streams of two widths",
     3,
     {3, 12, 16},
     true,
     3,
     5,
     ACTOR_CRITIC_STREAMS(3, 3),
     .trunk = 8,
     .layers = {L(conv, 16, 3, 2, 0), L(relu), L(conv, 32, 3, 1, 1), L(relu), L(max_pool, 2, 1, 0),
                L(flatten), L(dense, 40), L(tanh), L(dense, 24), L(relu), L(dense, 1), L(dense, 13),
                L(relu), L(dense, 3)}},
    {"streams of output layers alone behind an image",
     3,
     {5, 9, 9},
     false,
     4,
     6,
     DUELING_STREAMS(1, 1),
     .trunk = 6,
     .layers = {L(conv, 19, 2, 1, 0), L(tanh), L(conv, 33, 3, 3, 1), L(flatten), L(dense, 50),
                L(relu), L(dense, 4), L(dense, 1)}},
    {"an image that several layers read, and deviations",
     3,
     {2, 8, 6},
     false,
     4,
     4,
     ACTOR_CRITIC_STREAMS(4, 4),
     .trunk = 0,
     .layers = {L(conv, 16, 3, 1, 1), L(relu), L(flatten), L(dense, 1), L(conv, 8, 2, 2, 0),
                L(flatten), L(dense, 2), L(log_std)}},
    {"a wide layer in a stage of its own",
     1,
     {30},
     false,
     6,
     3,
     ACTOR_CRITIC_STREAMS(1, 1),
     .trunk = 5,
     .layers = {L(dense, 640), L(relu), L(dense, 500), L(tanh), L(layer_norm), L(dense, 1),
                L(dense, 6)}},
    {"no trunk",
     1,
     {7},
     false,
     4,
     5,
     DUELING_STREAMS(3, 1),
     .trunk = 0,
     .layers = {L(dense, 5), L(tanh), L(dense, 4), L(dense, 1)}},
    {"dense layers with ReLUs, before an output layer alone",
     1,
     {4},
     false,
     1,
     19,
     Q_STREAM(1),
     .trunk = 4,
     .layers = {L(dense, 24), L(relu), L(dense, 17), L(relu), L(dense, 1)}},
    {"dense layers with ReLUs, before streams of two depths",
     1,
     {3},
     false,
     2,
     6,
     ACTOR_CRITIC_STREAMS(5, 1),
     .trunk = 2,
     .layers = {L(dense, 12), L(relu), L(dense, 9), L(relu), L(dense, 20), L(relu), L(dense, 1),
                L(dense, 2)}},
    {"parameters as deviations",
     1,
     {3},
     false,
     4,
     9,
     ACTOR_CRITIC_STREAMS(1, 2),
     .trunk = 2,
     .layers = {L(dense, 12), L(tanh), L(dense, 1), L(dense, 2), L(log_std)}},
    {"parameters as deviations, after dense layers with ReLUs",
     1,
     {5},
     false,
     6,
     7,
     ACTOR_CRITIC_STREAMS(1, 4),
     .trunk = 2,
     .layers = {L(dense, 12), L(relu), L(dense, 1), L(dense, 11), L(relu), L(dense, 3),
                L(log_std)}},
    {"groups of channels",
     3,
     {6, 7, 8},
     true,
     3,
     4,
     Q_STREAM(1),
     .trunk = 8,
     .layers = {L(group_norm, 2), L(conv, 32, 3, 1, 1), L(group_norm, 4), L(tanh),
                L(conv, 20, 2, 2, 0), L(group_norm, 1), L(relu), L(flatten), L(dense, 3)}},
    {"inputs: an image, numbers, and numbers as they come, with an activation of all", .actions = 3,
     .rows = 7, ACTOR_CRITIC_STREAMS(1, 3), .n_inputs = 3, .frames = 1, .frame_bytes = 244,
     .inputs = {{{3, {3, 9, 8}}, true, 0, 4}, {{1, {5}}, false, 216, 3}, {{1, {2}}, false, 236, 1}},
     .trunk = 11,
     .layers = {L(conv, 5, 3, 2, 1), L(relu), L(flatten), L(concat), L(dense, 6), L(tanh),
                L(concat), L(concat), L(tanh), L(dense, 11), L(tanh), L(dense, 1), L(dense, 9),
                L(relu), L(dense, 3)}},
    {"inputs of two frames, an image that two of them read, and streams of what they make",
     .actions = 4, .rows = 5, DUELING_STREAMS(3, 1), .n_inputs = 3, .frames = 2, .frame_bytes = 48,
     .inputs = {{{3, {2, 7, 5}}, true, 0, 5},
                {{1, {6}}, false, 36, 2},
                {{3, {2, 7, 5}}, true, 0, 3}},
     .trunk = 10,
     .layers = {L(conv, 16, 3, 1, 1), L(relu), L(max_pool, 2, 2, 0), L(flatten), L(concat),
                L(layer_norm), L(concat), L(flatten), L(dense, 8), L(concat), L(dense, 13), L(relu),
                L(dense, 4), L(dense, 1)}},
};
enum {
    N_LISTS = sizeof lists / sizeof *lists,
    N_GPU_LISTS = N_LISTS - 3 /* GPUs do not compute the last ones */
};

static const struct list_case impala = {
    "a residual net of images so large that it goes through its rows in parts",
    3,
    {4, 40, 40},
    true,
    5,
    37,
    ACTOR_CRITIC_STREAMS(1, 1),
    .trunk = 13,
    .layers = {L(conv, 16, 3, 1, 1), L(max_pool, 3, 2, 1), RESIDUAL(4), L(relu),
               L(conv, 16, 3, 1, 1), L(relu), L(conv, 16, 3, 1, 1), L(conv, 32, 3, 1, 1),
               L(max_pool, 3, 2, 1), L(relu), L(flatten), L(dense, 64), L(relu), L(dense, 1),
               L(dense, 5)}};

/* Nets with states, whose rows are sequences of 6 steps. */
static const struct list_case recurrent[] = {
    {"gru",
     1,
     {5},
     false,
     3,
     18,
     ACTOR_CRITIC_STREAMS(1, 1),
     .trunk = 3,
     .layers = {L(dense, 9), L(tanh), L(gru, 7), L(dense, 1), L(dense, 3)}},
    {"lstm",
     1,
     {3},
     false,
     2,
     12,
     ACTOR_CRITIC_STREAMS(1, 1),
     .trunk = 2,
     .layers = {L(lstm, 20), L(relu), L(dense, 1), L(dense, 2)}},
    {"states of several layers, also of heads, and more sequences than a vector has numbers",
     1,
     {4},
     false,
     2,
     108,
     ACTOR_CRITIC_STREAMS(2, 3),
     .trunk = 4,
     .layers = {L(gru, 6), L(layer_norm), L(lstm, 5), L(tanh), L(gru, 3), L(dense, 1), L(gelu),
                L(lstm, 4), L(dense, 2)}},
    {"images",
     3,
     {2, 9, 8},
     true,
     2,
     6,
     Q_STREAM(1),
     .trunk = 4,
     .layers = {L(conv, 3, 4, 2, 1), L(relu), L(flatten), L(gru, 8), L(dense, 2)}},
    {"sequences of two parts",
     1,
     {3},
     false,
     1,
     84,
     Q_STREAM(1),
     .trunk = 3,
     .layers = {L(dense, 16), L(gru, 64), L(lstm, 48), L(dense, 1)}},
    {"inputs, of which one has a state, before a state of all", .actions = 2, .rows = 12,
     ACTOR_CRITIC_STREAMS(1, 1), .n_inputs = 2, .frames = 1, .frame_bytes = 40,
     .inputs = {{{1, {4}}, false, 24, 2}, {{3, {2, 3, 4}}, true, 0, 4}}, .trunk = 7,
     .layers = {L(gru, 5), L(concat), L(conv, 3, 2, 1, 0), L(relu), L(flatten), L(concat),
                L(lstm, 6), L(dense, 1), L(dense, 2)}},
};
enum { N_RECURRENT = sizeof recurrent / sizeof *recurrent, STEPS = 6 };

static const struct list_case normed[] = {
    {"batch norm of features",
     1,
     {4},
     false,
     3,
     11,
     ACTOR_CRITIC_STREAMS(3, 1),
     .trunk = 5,
     .layers = {L(dense, 9), L(batch_norm), L(tanh), L(dense, 5), L(batch_norm), L(dense, 6),
                L(batch_norm), L(dense, 1), L(dense, 3)}},
    {"batch norm of images",
     3,
     {2, 8, 7},
     true,
     2,
     6,
     Q_STREAM(1),
     .trunk = 10,
     .layers = {L(conv, 4, 3, 1, 1), L(batch_norm), L(relu), RESIDUAL(4), L(batch_norm), L(relu),
                L(conv, 4, 3, 1, 1), L(batch_norm), L(max_pool, 2, 2, 0), L(flatten), L(dense, 2)}},
    {"batch norm of the observation",
     1,
     {5},
     false,
     2,
     8,
     Q_STREAM(2),
     .trunk = 3,
     .layers = {RESIDUAL(1), L(batch_norm), L(gelu), L(batch_norm), L(dense, 2)}},
    {"batch norm of inputs and of what they make", .actions = 2, .rows = 7, Q_STREAM(1),
     .n_inputs = 2, .frames = 1, .frame_bytes = 44,
     .inputs = {{{3, {2, 4, 3}}, true, 0, 5}, {{1, {5}}, false, 24, 4}}, .trunk = 11,
     .layers = {L(conv, 4, 2, 1, 0), L(batch_norm), L(relu), L(flatten), L(concat), L(dense, 6),
                L(batch_norm), L(tanh), L(concat), L(batch_norm), L(gelu), L(dense, 2)}},
};
enum { N_NORMED = sizeof normed / sizeof *normed };

static inline struct hd_net_fields list_fields(const struct list_case *list)
{
    struct hd_net_fields fields = {.obs_dims = list->dims,
                                   .obs_shape = list->shape,
                                   .obs_u8 = list->u8,
                                   .actions = list->actions,
                                   .heads = list->heads,
                                   .layers = list->layers,
                                   .trunk = list->trunk,
                                   .n_streams = list->n_streams,
                                   .n_inputs = list->n_inputs,
                                   .frames = list->frames,
                                   .frame_bytes = list->frame_bytes};
    for (int i = 0; i < list->n_inputs; i++)
        fields.inputs[i] = list->inputs[i];
    for (int i = 0; i < list->n_streams; i++)
        fields.streams[i] = list->streams[i];
    return fields;
}
