/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/common/moments.h"
#include "runtime/base/tree.h"
}

/* -- Of floats --------------------------------------------------------------------------------- */
/* A block has up to 32 columns; of each, some threads add up rows at equal distances, and a tree
 * adds what they have. */

enum { THREADS = 1024, MOST_COLUMNS = 32 };

/* Returns to every thread the sum over its column. The function ends with a barrier, so that its
 * shared memory can be reused. */
static __device__ double sum_of_column(double local, int columns)
{
    __shared__ double sum[THREADS];
    const int at = threadIdx.x;
    __syncthreads();
    sum[at] = local;
    for (int half = THREADS / 2; half >= columns; half /= 2) {
        __syncthreads();
        if (at < half)
            sum[at] += sum[at + half];
    }
    __syncthreads();
    return sum[at % columns];
}

static __global__ void of_columns(const float *x, int64_t rows, int64_t n, int columns,
                                  struct hd_moments of)
{
    HD_AWAIT_INPUTS();
    const int64_t column = (int64_t)blockIdx.x * columns + threadIdx.x % columns;
    const int64_t first = column < n ? threadIdx.x / columns : rows, each = THREADS / columns;
    double sum = 0, squares = 0;
    for (int64_t i = first; i < rows; i += each)
        sum += x[i * n + column];
    sum = sum_of_column(sum, columns);
    const double mean = rows > 0 ? sum / (double)rows : 0;
    for (int64_t i = first; i < rows; i += each) {
        const double off = x[i * n + column] - mean;
        squares += off * off;
    }
    squares = sum_of_column(squares, columns);
    if ((int)threadIdx.x < columns && column < n) {
        of.mean[column] = mean;
        of.squares[column] = squares;
    }
    if (column == 0 && threadIdx.x == 0)
        *of.count = (double)rows;
}

extern "C" int hd_moments_compute_cuda(const float *x, int64_t rows, int64_t n,
                                       struct hd_moments of, void *stream)
{
    int columns = 1;
    while (columns < n && columns < MOST_COLUMNS)
        columns *= 2;
    return HD_LAUNCH(of_columns, (unsigned)((n + columns - 1) / columns), THREADS, stream, x, rows,
                     n, columns, of);
}

/* -- Of bytes ---------------------------------------------------------------------------------- */
/* A thread adds up a word of columns over a share of the rows: scratch holds sum[SHARES][n] and
 * square[SHARES][n]. */

enum { SHARES = 16 };

extern "C" int64_t hd_moments_get_scratch_bytes(int64_t n)
{
    return 2 * SHARES * n * (int64_t)sizeof(uint32_t);
}

template <typename word>
static __global__ void add_bytes(const uint8_t *x, int64_t rows, int64_t n, uint32_t *scratch)
{
    HD_AWAIT_INPUTS();
    enum { BYTES = sizeof(word) };
    const int64_t share = blockIdx.y, first = HD_ELEMENT * BYTES;
    const int64_t lo = share * rows / SHARES, hi = (share + 1) * rows / SHARES;
    uint32_t sum[BYTES] = {0}, square[BYTES] = {0};
    if (first >= n)
        return;
#pragma unroll 8
    for (int64_t row = lo; row < hi; row++) {
        const word bytes = *(const word *)(x + row * n + first);
#pragma unroll
        for (int i = 0; i < BYTES; i++) {
            const uint32_t byte = (uint32_t)bytes >> 8 * i & 255;
            sum[i] += byte;
            square[i] += byte * byte;
        }
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++) {
        scratch[share * n + first + i] = sum[i];
        scratch[(SHARES + share) * n + first + i] = square[i];
    }
}

static __global__ void finish_bytes(const uint32_t *scratch, int64_t rows, int64_t n,
                                    struct hd_moments of)
{
    HD_AWAIT_INPUTS();
    const int64_t j = HD_ELEMENT;
    uint32_t sum = 0, square = 0;
    if (j == 0)
        *of.count = (double)rows;
    if (j >= n)
        return;
    for (int64_t share = 0; share < SHARES; share++) {
        sum += scratch[share * n + j];
        square += scratch[(SHARES + share) * n + j];
    }
    hd_moments_finish_byte(sum, square, rows, of.mean + j, of.squares + j);
}

extern "C" int hd_moments_compute_bytes_cuda(const uint8_t *x, int64_t rows, int64_t n,
                                             uint32_t *scratch, struct hd_moments of, void *stream)
{
    if (n % 4 == 0 && (uintptr_t)x % 4 == 0)
        HD_TRY(HD_LAUNCH(add_bytes<uint32_t>, dim3(hd_cuda_count_blocks(n / 4), SHARES), HD_THREADS,
                         stream, x, rows, n, scratch));
    else
        HD_TRY(HD_LAUNCH(add_bytes<uint8_t>, dim3(hd_cuda_count_blocks(n), SHARES), HD_THREADS,
                         stream, x, rows, n, scratch));
    return HD_LAUNCH(finish_bytes, hd_cuda_count_blocks(n), HD_THREADS, stream, scratch, rows, n,
                     of);
}

/* -- Of several shards ------------------------------------------------------------------------- */
/* A thread has an element of all operands, and what waits to be merged. */

struct node {
    double count, mean, squares;
};

static __device__ void merge_node(struct node *into, const struct node *other)
{
    if (other->count == 0)
        return;
    const double count = into->count + other->count, share = other->count / count;
    hd_moments_merge_one(&into->mean, &into->squares, other->mean, other->squares, share,
                         into->count * share);
    into->count = count;
}

static __global__ void reduce_operands(const __grid_constant__ struct hd_moments_operands operands,
                                       int64_t n, const struct hd_moments to)
{
    HD_AWAIT_INPUTS();
    enum { WAITING = 7 }; /* 1 + log2(HD_MOMENTS_OPERANDS) */
    struct node node[WAITING];
    const int64_t j = HD_ELEMENT;
    int waiting = 0;
    if (j >= n)
        return;
    for (int i = 0; i < operands.n; i++) {
        const struct hd_moments *operand = &operands.operand[i];
        node[waiting].count = *operand->count;
        node[waiting].mean = operand->mean[j];
        node[waiting].squares = operand->squares[j];
        for (int sums = hd_tree_count_sums(i, operands.n); sums > 0; sums--, waiting--)
            merge_node(&node[waiting - 1], &node[waiting]);
        waiting++;
    }
    to.mean[j] = node->mean;
    to.squares[j] = node->squares;
    if (j == 0)
        *to.count = node->count;
}

extern "C" int hd_moments_reduce_cuda(const struct hd_moments_operands *operands, int64_t n,
                                      struct hd_moments to, void *stream)
{
    return HD_LAUNCH(reduce_operands, hd_cuda_count_blocks(n), HD_THREADS, stream, *operands, n,
                     to);
}

/* -- Running ones ------------------------------------------------------------------------------ */
/* The count, which all elements need, changes last. */

/* Returns the count of `into` before the merge, or the prior if it has none. */
static __device__ double count_before(double count, double prior)
{
    return count == 0 ? prior : count;
}

static __global__ void join_elements(struct hd_moments into, const struct hd_moments other,
                                     int64_t n, double prior, double epsilon, float *scale,
                                     float *shift)
{
    HD_AWAIT_INPUTS();
    const int64_t j = HD_ELEMENT;
    if (j >= n || *other.count == 0)
        return;
    const double before = count_before(*into.count, prior), count = before + *other.count;
    const double share = *other.count / count;
    double mean = into.mean[j], squares = *into.count == 0 ? prior : into.squares[j];
    hd_moments_merge_one(&mean, &squares, other.mean[j], other.squares[j], share, before * share);
    into.mean[j] = mean;
    into.squares[j] = squares;
    hd_moments_compute_scale(count, mean, squares, epsilon, scale + j, shift + j);
}

static __global__ void join_counts(struct hd_moments into, const struct hd_moments other,
                                   double prior)
{
    HD_AWAIT_INPUTS();
    if (*other.count != 0)
        *into.count = count_before(*into.count, prior) + *other.count;
}

extern "C" int hd_moments_merge_running_cuda(struct hd_moments into, struct hd_moments other,
                                             int64_t n, double prior, double epsilon, float *scale,
                                             float *shift, void *stream)
{
    HD_TRY(HD_LAUNCH(join_elements, hd_cuda_count_blocks(n), HD_THREADS, stream, into, other, n,
                     prior, epsilon, scale, shift));
    return HD_LAUNCH(join_counts, 1, 1, stream, into, other, prior);
}
