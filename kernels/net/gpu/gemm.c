/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/gpu/gemm.h"

#include "kernels/common/cuda_check.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* -- The library ------------------------------------------------------------------------------- */

#define LIBRARY "libcublasLt.so.13"

/* X(name) for each function, whose names have the prefix cublasLt. */
#define FUNCTIONS(X)                                                                               \
    X(Create)                                                                                      \
    X(GetStatusString)                                                                             \
    X(Matmul)                                                                                      \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(MatmulDescCreate)                                                                            \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatmulPreferenceCreate)                                                                      \
    X(MatmulPreferenceDestroy)                                                                     \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatrixLayoutCreate)

static struct {
#define MEMBER(name) __typeof__(cublasLt##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} lt;

/* The library's descriptors of a GEMM, ready to run. */
struct ready {
    struct hd_gemm gemm;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, result; /* first and second: see describe */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    struct ready *next;
};

/* State by the number of the GPU. It lives as long as the program, like the library. */
enum { DEVICES = 16 };
static struct {
    cublasLtHandle_t handle;
    struct ready *all;
} devices[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of the above */

static int checked(cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return HD_OK;
    int gpu = 0;
    cudaGetDevice(&gpu);
    return hd_gpu_fail(gpu, what, lt.GetStatusString(status),
                       cudaGetErrorName(cudaPeekAtLastError()));
}

#define LT(name, ...) checked(lt.name(__VA_ARGS__), "cublasLt" #name)

static int load(void)
{
    static bool loaded;
    if (loaded)
        return HD_OK;
    if (getenv("NVIDIA_TF32_OVERRIDE")) {
        hd_log(HD_LOG_WARN,
               "NVIDIA_TF32_OVERRIDE is left aside: runtime.precision says what nets compute in");
        unsetenv("NVIDIA_TF32_OVERRIDE");
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return hd_fail(HD_ERR_UNSUPPORTED, "GPUs need cuBLAS 13: %s", dlerror());
#define FIND(name)                                                                                 \
    *(void **)&lt.name = dlsym(library, "cublasLt" #name);                                         \
    if (!lt.name)                                                                                  \
        return hd_fail(HD_ERR_UNSUPPORTED, "%s lacks cublasLt%s", LIBRARY, #name);
    FUNCTIONS(FIND)
#undef FIND
    loaded = true;
    return HD_OK;
}

/* Finds the number of the current GPU and makes its handle. */
static int current(int *device_p)
{
    int device = 0;
    HD_TRY(hd_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    if (device >= DEVICES)
        return hd_fail(HD_ERR_UNSUPPORTED, "GPU %d: a program may use %d", device, DEVICES);
    HD_TRY(load());
    if (!devices[device].handle)
        HD_TRY(LT(Create, &devices[device].handle));
    *device_p = device;
    return HD_OK;
}

/* -- Preparing a GEMM -------------------------------------------------------------------------- */

static cudaDataType_t data_type(enum hd_gemm_type type)
{
    return type == HD_GEMM_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static int set_desc(struct ready *ready, cublasLtMatmulDescAttributes_t what, int32_t value)
{
    return LT(MatmulDescSetAttribute, ready->desc, what, &value, sizeof value);
}

static int set_bias(struct ready *ready, const void *bias)
{
    return LT(MatmulDescSetAttribute, ready->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
              sizeof bias);
}

/* Describes a matrix stored as [rows][columns], which the column-major library calls
 * [columns][rows]. */
static int lay_out(cublasLtMatrixLayout_t *layout, enum hd_gemm_type type, int64_t rows,
                   int64_t columns, int64_t ld)
{
    return LT(MatrixLayoutCreate, layout, data_type(type), (uint64_t)columns, (uint64_t)rows, ld);
}

/* C transposed = B transposed times A transposed, so the library's first factor is our second. */
static int describe(struct ready *ready)
{
    static const int32_t epilogues[] = {[HD_GEMM_NO_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT,
                                        [HD_GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
                                        [HD_GEMM_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS};
    const struct hd_gemm *g = &ready->gemm;
    const bool tb = g->transpose_b, ta = g->transpose_a;
    HD_TRY(LT(MatmulDescCreate, &ready->desc,
              g->tf32 && g->from == HD_GEMM_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
              CUDA_R_32F));
    HD_TRY(set_desc(ready, CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N));
    HD_TRY(set_desc(ready, CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N));
    HD_TRY(set_desc(ready, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogues[g->epilogue]));
    if (g->epilogue !=
        HD_GEMM_NO_EPILOGUE) /* the choice of an algorithm depends on its alignment */
        HD_TRY(set_bias(ready, (const void *)(uintptr_t)HD_GEMM_ALIGNMENT));
    HD_TRY(lay_out(&ready->first, g->from, tb ? g->n : g->k, tb ? g->k : g->n, g->ld_b));
    HD_TRY(lay_out(&ready->second, g->from, ta ? g->k : g->m, ta ? g->m : g->k, g->ld_a));
    return lay_out(&ready->result, g->to, g->m, g->n, g->ld_c);
}

static int set_preference(cublasLtMatmulPreference_t preference,
                          cublasLtMatmulPreferenceAttributes_t what, uint32_t value)
{
    return LT(MatmulPreferenceSetAttribute, preference, what, &value, sizeof value);
}

/* Partial sums are added from the workspace in the order of the parts; in place, that order is not
 * guaranteed. */
static int prefer(cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t bytes = HD_GEMM_WORKSPACE;
    HD_TRY(LT(MatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
              &bytes, sizeof bytes));
    HD_TRY(set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                          CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        HD_TRY(set_preference(preference, alignments[i], HD_GEMM_ALIGNMENT));
    return HD_OK;
}

static int choose(cublasLtHandle_t handle, struct ready *ready)
{
    const struct hd_gemm *g = &ready->gemm;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int n = 0;
    HD_TRY(LT(MatmulPreferenceCreate, &preference));
    int status = prefer(preference);
    if (status == HD_OK) {
        const cublasStatus_t answer =
            lt.MatmulAlgoGetHeuristic(handle, ready->desc, ready->first, ready->second,
                                      ready->result, ready->result, preference, 1, &found, &n);
        if (answer != CUBLAS_STATUS_SUCCESS || n < 1 || found.state != CUBLAS_STATUS_SUCCESS)
            status = hd_fail(HD_ERR_UNSUPPORTED,
                             "cuBLASLt has no algorithm for a %s product of %lld x %lld x %lld: %s",
                             g->from == HD_GEMM_BF16 ? "bf16" : "f32", (long long)g->m,
                             (long long)g->n, (long long)g->k, lt.GetStatusString(answer));
    }
    lt.MatmulPreferenceDestroy(preference);
    ready->algorithm = found.algo;
    ready->workspace = found.workspaceSize;
    return status;
}

static bool same(const struct hd_gemm *a, const struct hd_gemm *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ld_a == b->ld_a &&
           a->ld_b == b->ld_b && a->ld_c == b->ld_c && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->from == b->from && a->to == b->to &&
           a->tf32 == b->tf32 && a->epilogue == b->epilogue && a->add == b->add;
}

/* A GEMM that could not be prepared is not kept. The few bytes of its descriptors are not freed,
 * because the run ends. */
static int make_ready(int device, const struct hd_gemm *gemm, struct ready **ready_p)
{
    for (struct ready *r = devices[device].all; r; r = r->next)
        if (same(&r->gemm, gemm)) {
            *ready_p = r;
            return HD_OK;
        }
    if (gemm->add && gemm->to == HD_GEMM_BF16)
        return hd_fail(HD_ERR_UNSUPPORTED, "a product cannot be added to bf16");
    struct ready *ready = hd_alloc(1, sizeof *ready);
    if (!ready)
        return HD_ERR_NOMEM;
    ready->gemm = *gemm;
    int status = describe(ready);
    if (status == HD_OK)
        status = choose(devices[device].handle, ready);
    if (status != HD_OK) {
        hd_free(ready);
        return status;
    }
    ready->next = devices[device].all;
    *ready_p = devices[device].all = ready;
    return HD_OK;
}

int hd_gemm_prepare_cuda(const struct hd_gemm *gemm)
{
    struct ready *ready;
    int device;
    pthread_mutex_lock(&lock);
    int status = current(&device);
    if (status == HD_OK)
        status = make_ready(device, gemm, &ready);
    pthread_mutex_unlock(&lock);
    return status;
}

/* -- Computing --------------------------------------------------------------------------------- */

static int enqueue(const struct hd_gemm *gemm, const void *a, const void *b, const void *bias,
                   void *c, void *workspace, void *stream)
{
    const float one = 1, beta = gemm->add ? 1 : 0;
    struct ready *ready;
    int device;
    HD_TRY(current(&device));
    HD_TRY(make_ready(device, gemm, &ready));
    if (gemm->epilogue != HD_GEMM_NO_EPILOGUE)
        HD_TRY(set_bias(ready, bias));
    return LT(Matmul, devices[device].handle, ready->desc, &one, b, ready->first, a, ready->second,
              &beta, c, ready->result, c, ready->result, &ready->algorithm, workspace,
              ready->workspace, (cudaStream_t)stream);
}

/* Holds the lock, because the pointer to the bias is a part of the shared descriptors. */
int hd_gemm_multiply_cuda(const struct hd_gemm *gemm, const void *a, const void *b,
                          const void *bias, void *c, void *workspace, void *stream)
{
    pthread_mutex_lock(&lock);
    int status = enqueue(gemm, a, b, bias, c, workspace, stream);
    pthread_mutex_unlock(&lock);
    return status;
}
