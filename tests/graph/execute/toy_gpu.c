/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/execute/toy_gpu.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/device.h"

#if HD_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>

enum { PORTS = 8 };

/* -- Memory ------------------------------------------------------------------------------------ */

/* Copies from memory that is not pinned read it when they are queued, so what bodies work on is
 * pinned. Functions on a stream may not call CUDA: memory is used again, and never freed. */
static struct block {
    struct block *next;
    void *memory;
    int64_t bytes;
    bool taken;
} * blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them */

static struct block *find_free(int64_t bytes)
{
    struct block *block = blocks;
    while (block && (block->taken || block->bytes < bytes))
        block = block->next;
    return block;
}

static struct block *make_block(int64_t bytes)
{
    struct block *block = hd_alloc(1, sizeof *block);
    *block = (struct block){.next = blocks, .memory = hd_pinned_alloc(bytes), .bytes = bytes};
    return blocks = block;
}

static void *take_memory(int64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct block *block = find_free(bytes);
    if (!block)
        block = make_block(bytes);
    block->taken = true;
    pthread_mutex_unlock(&lock);
    return block->memory;
}

static void give_memory(const void *memory)
{
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block; block = block->next)
        if (block->memory == memory)
            block->taken = false;
    pthread_mutex_unlock(&lock);
}

/* -- Bodies ------------------------------------------------------------------------------------ */

struct call {
    struct hd_context context;
    struct hd_view views[PORTS];
    const void *args;
    hd_toy_body *body;
    char message[HD_MESSAGE_BYTES];
};

static void run_call(void *arg)
{
    struct call *call = arg;
    if (call->body(&call->context, call->views, call->args) != HD_OK)
        abort(); /* toys do not fail there */
}

static void free_call(void *arg)
{
    struct call *call = arg;
    for (int i = 0; i < PORTS; i++)
        give_memory(call->views[i].data);
    hd_free(call);
}

static int checked(cudaError_t error)
{
    return error == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

/* Copies an instance, or its bytes of a bucket. */
static int copy(const struct hd_spec *spec, int bucket, void *to, const void *from, void *stream)
{
    int64_t at, bytes, lo, hi;
    if (bucket < 0)
        return hd_device_copy(to, from, spec->bytes, stream);
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    for (int i = 0; (bytes = hd_value_get_byte_range(spec, bucket, lo, hi, i, &at)) >= 0; i++)
        HD_TRY(hd_device_copy((char *)to + at, (const char *)from + at, bytes, stream));
    return HD_OK;
}

int hd_toy_queue(struct hd_context *context, const struct hd_view *views, const void *args,
                 const struct hd_port *ports, bool by_bucket, hd_toy_body *body)
{
    struct call *call = hd_alloc(1, sizeof *call);
    call->context = *context;
    call->context.message = call->message;
    call->args = args;
    call->body = body;
    for (int i = 0; ports[i].name; i++) {
        call->views[i] = views[i];
        if (!views[i].data)
            continue;
        call->views[i].data = take_memory(views[i].spec->bytes);
        HD_TRY(copy(views[i].spec, -1, call->views[i].data, views[i].data, context->stream));
    }
    HD_TRY(checked(cudaLaunchHostFunc(context->stream, run_call, call)));
    for (int i = 0; ports[i].name; i++) {
        const int bucket =
            by_bucket && views[i].spec && views[i].spec->type->flat ? views[i].bucket : -1;
        if (views[i].data && ports[i].mode != HD_READ)
            HD_TRY(
                copy(views[i].spec, bucket, views[i].data, call->views[i].data, context->stream));
    }
    return checked(cudaLaunchHostFunc(context->stream, free_call, call));
}

/* -- Reductions -------------------------------------------------------------------------------- */

/* Partials are vectors of floats and their count; this code adds them in its own way. */
struct sum {
    const struct hd_spec *spec, *out_spec;
    int bucket;
    enum hd_combine how;
    int64_t n; /* floats of a vector */
    int n_in;
    void **in;      /* reduce: instances */
    float **vector; /* [n_in] of n + 1 */
    float *out;     /* reduce: an instance */
};

static float node(const struct sum *sum, int64_t at, int first, int n)
{
    if (n == 1)
        return sum->vector[first][at];
    const float left = node(sum, at, first, n / 2);
    return left + node(sum, at, first + n / 2, n - n / 2);
}

/* Leaves the sum in vector 0. */
static void add_vectors(const struct sum *sum)
{
    for (int64_t at = 0; at <= sum->n; at++)
        sum->vector[0][at] = node(sum, at, 0, sum->n_in);
}

static void run_reduce(void *arg)
{
    const struct sum *sum = arg;
    const struct hd_reduction *reduction = sum->spec->type->reduction;
    for (int i = 0; i < sum->n_in; i++)
        reduction->pack(sum->spec, sum->bucket, sum->in[i], sum->vector[i]);
    add_vectors(sum);
    reduction->unpack(sum->out_spec, sum->bucket, sum->how, sum->vector[0], sum->out);
}

static void run_add(void *arg)
{
    const struct sum *sum = arg;
    add_vectors(sum);
    const float count = sum->vector[0][sum->n];
    for (int64_t at = 0; at < sum->n && sum->how == HD_MEAN && count > 0; at++)
        sum->vector[0][at] /= count;
}

static void free_sum(void *arg)
{
    struct sum *sum = arg;
    for (int i = 0; i < sum->n_in; i++) {
        give_memory(sum->in[i]);
        give_memory(sum->vector[i]);
    }
    hd_free(sum->in);
    hd_free(sum->vector);
    give_memory(sum->out);
    hd_free(sum);
}

static struct sum *make_sum(enum hd_combine how, int n_in, int64_t n)
{
    struct sum *sum = hd_alloc(1, sizeof *sum);
    *sum = (struct sum){.how = how, .n = n, .n_in = n_in};
    sum->in = hd_alloc(n_in, sizeof *sum->in);
    sum->vector = hd_alloc(n_in, sizeof *sum->vector);
    for (int i = 0; i < n_in; i++)
        sum->vector[i] = take_memory((n + 1) * (int64_t)sizeof(float));
    return sum;
}

int hd_toy_reduce(const struct hd_spec *spec, int bucket, enum hd_combine how, int n_in,
                  const void *const *in, const struct hd_spec *out_spec, void *out, void *stream)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    struct sum *sum = make_sum(how, n_in, hi - lo);
    sum->spec = spec;
    sum->out_spec = out_spec;
    sum->bucket = bucket;
    sum->out = take_memory(out_spec->bytes);
    for (int i = 0; i < n_in; i++) {
        sum->in[i] = take_memory(spec->bytes);
        HD_TRY(copy(spec, -1, sum->in[i], in[i], stream));
    }
    HD_TRY(checked(cudaLaunchHostFunc(stream, run_reduce, sum)));
    HD_TRY(copy(out_spec, bucket, out, sum->out, stream));
    return checked(cudaLaunchHostFunc(stream, free_sum, sum));
}

int hd_toy_add(enum hd_combine how, const struct hd_operand *operands, int n_operands, int64_t n,
               float *to, float *total, void *stream)
{
    struct sum *sum = make_sum(how, n_operands, n);
    for (int i = 0; i < n_operands; i++) {
        HD_TRY(
            hd_device_copy(sum->vector[i], operands[i].floats, n * (int64_t)sizeof(float), stream));
        HD_TRY(hd_device_copy(sum->vector[i] + n, operands[i].count, sizeof(float), stream));
    }
    HD_TRY(checked(cudaLaunchHostFunc(stream, run_add, sum)));
    HD_TRY(hd_device_copy(to, sum->vector[0], n * (int64_t)sizeof(float), stream));
    HD_TRY(hd_device_copy(total, sum->vector[0] + n, sizeof(float), stream));
    return checked(cudaLaunchHostFunc(stream, free_sum, sum));
}
#endif
