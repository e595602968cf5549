/* SPDX-License-Identifier: Apache-2.0 */
/* libcublasLt for the emulation of GPUs: D = epilogue(alpha op(A) op(B) + beta C) for matrices of
 * f32 and bf16, summed in f32 in the order of k, or in the one that HD_EMULATED_ORDER asks for.
 * What the library would reject or read wrongly (shapes, alignments, memory of the host, too small
 * a workspace) fails or ends the program. */
#include "tests/emulation/kernel.hpp"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

namespace
{

struct Layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t order = CUBLASLT_ORDER_COL, batch_count = 1;
    int64_t batch_stride = 0;
};

struct Product {
    int32_t compute, scale, transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
    int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    int32_t bias_type = -1; /* that of D */
    int64_t bias_stride = 0;
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t alignment[4] = {256, 256, 256, 256}; /* of A, B, C and D */
};

/* What an algorithm relies on. */
struct Algorithm {
    uint64_t magic, workspace;
    uint32_t alignment[4];
};

const uint64_t MAGIC = 0x746C736165746C68;
const uint64_t WORKSPACE = 1 << 16, WORKSPACE_ALIGNMENT = 256;

[[noreturn]] void die(const char *what)
{
    fprintf(stderr, "emulation: cublasLtMatmul: %s\n", what);
    abort();
}

/* -- Elements ---------------------------------------------------------------------------------- */

size_t size_of(int type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

float load(int type, const char *at)
{
    uint32_t bits = 0;
    if (type == CUDA_R_16BF)
        memcpy((char *)&bits + 2, at, 2);
    else
        memcpy(&bits, at, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To the nearest number whose lower `bits` bits are zero, ties to even. */
uint32_t rounded(float value, int bits)
{
    uint32_t all;
    memcpy(&all, &value, sizeof all);
    if (isnan(value) || isinf(value))
        return isnan(value) ? all | 0x400000 : all;
    return (all + (1u << (bits - 1)) - 1 + (all >> bits & 1)) & -(1u << bits);
}

void store(int type, char *at, float value)
{
    const uint32_t bits = type == CUDA_R_16BF ? rounded(value, 16) : 0;
    if (type == CUDA_R_16BF)
        memcpy(at, (const char *)&bits + 2, 2);
    else
        memcpy(at, &value, 4);
}

/* Element (row, column) of a matrix. */
size_t offset(const Layout &layout, int64_t row, int64_t column)
{
    return (size_t)(layout.order == CUBLASLT_ORDER_ROW ? row * layout.ld + column
                                                       : column * layout.ld + row) *
           size_of(layout.type);
}

/* -- Products ---------------------------------------------------------------------------------- */

struct Matmul {
    Product product;
    Layout a, b, c, d;
    const char *a_at, *b_at, *c_at;
    char *d_at;
    float alpha, beta;
    int64_t m, n, k;
};

/* to[outer][inner], of element (inner, outer) of the matrix, or of its transpose. */
void pack(const Layout &layout, const char *at, bool transpose, int64_t inner, int64_t outer,
          bool tf32, std::vector<float> &to)
{
    to.resize((size_t)(inner * outer));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            float value =
                load(layout.type, at + (transpose ? offset(layout, o, i) : offset(layout, i, o)));
            if (tf32) {
                const uint32_t bits = rounded(value, 13);
                memcpy(&value, &bits, sizeof value);
            }
            to[(size_t)(o * inner + i)] = value;
        }
}

void store_column(const Matmul &matmul, int64_t batch, int64_t j, const float *sum)
{
    const int bias_type = matmul.product.bias_type < 0 ? matmul.d.type : matmul.product.bias_type;
    const char *bias = (const char *)matmul.product.bias +
                       (size_t)(batch * matmul.product.bias_stride) * size_of(bias_type);
    const size_t c = (size_t)(batch * matmul.c.batch_stride) * size_of(matmul.c.type);
    const size_t d = (size_t)(batch * matmul.d.batch_stride) * size_of(matmul.d.type);
    for (int64_t i = 0; i < matmul.m; i++) {
        float value = matmul.alpha * sum[i];
        if (matmul.beta != 0)
            value += matmul.beta * load(matmul.c.type, matmul.c_at + c + offset(matmul.c, i, j));
        if (matmul.product.epilogue & CUBLASLT_EPILOGUE_BIAS)
            value += load(bias_type, bias + (size_t)i * size_of(bias_type));
        if (matmul.product.epilogue & CUBLASLT_EPILOGUE_RELU)
            value = value > 0 || isnan(value) ? value : 0;
        store(matmul.d.type, matmul.d_at + d + offset(matmul.d, i, j), value);
    }
}

/* Products of one kind and size are summed in one order, as the library promises; those of others
 * need not be. */
void choose_order(const Matmul &matmul, std::vector<uint32_t> &order)
{
    const Product &p = matmul.product;
    uint64_t key = 0;
    for (int64_t part :
         {matmul.m, matmul.n, matmul.k, (int64_t)p.transpose_a, (int64_t)p.transpose_b,
          (int64_t)p.compute, (int64_t)p.epilogue, (int64_t)matmul.a.type, (int64_t)matmul.d.type})
        key = key * 1000003 + (uint64_t)part;
    hd_emulated_put_in_order(order, (size_t)matmul.k, key);
}

/* Four columns of D at a time; every element is the sum over k in one order. */
void multiply(const Matmul &matmul, int64_t batch)
{
    static std::vector<float> a, b, sums; /* of the thread that serves the streams */
    static std::vector<uint32_t> order;
    const bool tf32 = matmul.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const size_t a_batch = (size_t)(batch * matmul.a.batch_stride) * size_of(matmul.a.type);
    const size_t b_batch = (size_t)(batch * matmul.b.batch_stride) * size_of(matmul.b.type);
    pack(matmul.a, matmul.a_at + a_batch, matmul.product.transpose_a != CUBLAS_OP_N, matmul.m,
         matmul.k, tf32, a);
    pack(matmul.b, matmul.b_at + b_batch, matmul.product.transpose_b != CUBLAS_OP_N, matmul.k,
         matmul.n, tf32, b);
    choose_order(matmul, order);
    const int64_t COLUMNS = 4;
    const size_t m = (size_t)matmul.m, k_end = (size_t)matmul.k;
    for (int64_t j0 = 0; j0 < matmul.n; j0 += COLUMNS) {
        const int64_t columns = matmul.n - j0 < COLUMNS ? matmul.n - j0 : COLUMNS;
        sums.assign(COLUMNS * m, 0);
        for (size_t k : order)
            for (int64_t j = 0; j < columns; j++) {
                const float factor = b[(size_t)(j0 + j) * k_end + k];
                const float *from = &a[k * m];
                float *to = &sums[(size_t)j * m];
                for (size_t i = 0; i < m; i++)
                    to[i] += from[i] * factor;
            }
        for (int64_t j = 0; j < columns; j++)
            store_column(matmul, batch, j0 + j, &sums[(size_t)j * m]);
    }
}

/* -- Arguments --------------------------------------------------------------------------------- */

bool usable(const Layout &layout)
{
    const bool by_row = layout.order == CUBLASLT_ORDER_ROW;
    return (layout.type == CUDA_R_32F || layout.type == CUDA_R_16BF) &&
           (by_row || layout.order == CUBLASLT_ORDER_COL) &&
           layout.ld >= (int64_t)(by_row ? layout.cols : layout.rows) && layout.rows > 0 &&
           layout.cols > 0;
}

/* The sizes, or what about the arguments the library does not take. */
cublasStatus_t describe(const Product &p, const Layout &a, const Layout &b, const Layout &c,
                        const Layout &d, Matmul *matmul)
{
    const bool ta = p.transpose_a != CUBLAS_OP_N, tb = p.transpose_b != CUBLAS_OP_N;
    *matmul = {p, a, b, c, d, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
    matmul->m = (int64_t)(ta ? a.cols : a.rows);
    matmul->k = (int64_t)(ta ? a.rows : a.cols);
    matmul->n = (int64_t)(tb ? b.rows : b.cols);
    if (!usable(a) || !usable(b) || !usable(c) || !usable(d) ||
        (int64_t)(tb ? b.cols : b.rows) != matmul->k || (int64_t)d.rows != matmul->m ||
        (int64_t)d.cols != matmul->n || c.rows != d.rows || c.cols != d.cols ||
        a.batch_count != d.batch_count || b.batch_count != d.batch_count)
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool compute_f32 = p.compute == CUBLAS_COMPUTE_32F ||
                             (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F);
    const bool from_f32 = a.type == CUDA_R_32F && d.type == CUDA_R_32F;
    if (!compute_f32 || p.scale != CUDA_R_32F || p.pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
        a.type != b.type || c.type != d.type || (a.type != CUDA_R_16BF && !from_f32) ||
        (p.epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_RELU_BIAS & ~1u))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

void check_pointer(const void *pointer, size_t alignment, const char *what)
{
    cudaPointerAttributes attributes;
    if ((uintptr_t)pointer % alignment)
        die(what);
    if (cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess &&
        attributes.type == cudaMemoryTypeUnregistered)
        die("a pointer to memory that devices do not see");
}

void check_pointers(const Matmul &matmul, const Algorithm &algorithm, void *workspace, size_t bytes)
{
    const void *all[] = {matmul.a_at, matmul.b_at, matmul.c_at, matmul.d_at};
    for (int i = 0; i < 4; i++)
        check_pointer(all[i], algorithm.alignment[i], "less aligned than the preference says");
    if (matmul.product.epilogue & CUBLASLT_EPILOGUE_BIAS)
        check_pointer(matmul.product.bias, 4, "a bias that is not aligned");
    if (algorithm.workspace == 0)
        return;
    if (bytes < algorithm.workspace)
        die("a smaller workspace than the algorithm needs");
    check_pointer(workspace, WORKSPACE_ALIGNMENT, "a workspace that is not aligned");
}

template <typename T> cublasStatus_t set(T *to, const void *from, size_t bytes)
{
    if (bytes != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((void *)to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle, typename T, typename... A>
cublasStatus_t create(Handle *handle_p, A... values)
{
    *handle_p = (Handle) new T{values...};
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Handle> cublasStatus_t destroy(Handle handle)
{
    delete (T *)handle;
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

/* -- The library's functions ------------------------------------------------------------------- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle_p)
{
    if (getenv(
            "NVIDIA_TF32_OVERRIDE")) // the library would compute in something else than it is told
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return create<cublasLtHandle_t, int>(handle_p, 0);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy<int>(handle);
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc_p, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    return create<cublasLtMatmulDesc_t, Product>(desc_p, (int32_t)compute, (int32_t)scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy<Product>(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    Product *product = (Product *)desc;
    switch (what) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return set(&product->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(&product->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
        return set(&product->bias_stride, value, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout_p, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    return create<cublasLtMatrixLayout_t, Layout>(layout_p, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy<Layout>(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matrix,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t bytes)
{
    Layout *layout = (Layout *)matrix;
    switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return set(&layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return set(&layout->batch_count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return set(&layout->batch_stride, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return set(&layout->ld, value, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference_p)
{
    return create<cublasLtMatmulPreference_t, Preference>(preference_p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy<Preference>(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes)
{
    Preference *preference = (Preference *)handle;
    switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set(&preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set(&preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set(&preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&preference->alignment[3], value, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t handle, int wanted,
                                              cublasLtMatmulHeuristicResult_t found[],
                                              int *n_found_p)
{
    static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");
    Matmul matmul;
    *n_found_p = 0;
    if (wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status =
        describe(*(Product *)desc, *(Layout *)a, *(Layout *)b, *(Layout *)c, *(Layout *)d, &matmul);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const Preference *preference = (Preference *)handle;
    Algorithm algorithm = {
        MAGIC, preference->workspace < WORKSPACE ? preference->workspace : WORKSPACE, {}};
    memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
    found[0] = {};
    memcpy(&found[0].algo, &algorithm, sizeof algorithm);
    found[0].workspaceSize = algorithm.workspace;
    found[0].state = CUBLAS_STATUS_SUCCESS;
    *n_found_p = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Matmul matmul;
    const cublasStatus_t status =
        describe(*(Product *)desc, *(Layout *)a_layout, *(Layout *)b_layout, *(Layout *)c_layout,
                 *(Layout *)d_layout, &matmul);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    matmul.a_at = (const char *)a;
    matmul.b_at = (const char *)b;
    matmul.c_at = (const char *)c;
    matmul.d_at = (char *)d;
    matmul.alpha = *(const float *)alpha;
    matmul.beta = *(const float *)beta;
    Algorithm algorithm = {};
    if (algo)
        memcpy(&algorithm, algo, sizeof algorithm);
    if (algorithm.magic != MAGIC)
        die("an algorithm that is not from the heuristic");
    check_pointers(matmul, algorithm, workspace, workspace_bytes);
    const cudaError_t error = hd_emulated_enqueue(stream, [=] {
        if (algorithm.workspace)
            memset(workspace, 0xFF, algorithm.workspace);
        for (int64_t batch = 0; batch < matmul.d.batch_count; batch++)
            multiply(matmul, batch);
    });
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
