/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on a GPU by cuBLASLt, which is loaded when it is first needed. Equal shapes
 * are always computed by the same algorithm, which sums in a fixed order. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HD_GEMM_WORKSPACE = 32 << 20, HD_GEMM_ALIGNMENT = 16, HD_GEMM_WORKSPACE_ALIGNMENT = 256 };

/* The types in which numbers are stored; sums are f32. */
enum hd_gemm_type { HD_GEMM_F32, HD_GEMM_BF16 };

enum hd_gemm_epilogue { HD_GEMM_NO_EPILOGUE, HD_GEMM_BIAS, HD_GEMM_BIAS_RELU };

/* C[m][n] = epilogue(sum over k of A[m][k] B[k][n], plus C if `add`). Matrices are row-major, with
 * rows `ld` elements apart. */
struct hd_gemm {
    int64_t m, n, k, ld_a, ld_b, ld_c;
    bool transpose_a;           /* A is stored as [k][m], rows ld_a apart */
    bool transpose_b;           /* B is stored as [n][k], rows ld_b apart */
    enum hd_gemm_type from, to; /* types of A and B, and of C and the bias */
    bool tf32;                  /* f32 factors may be rounded to tf32 */
    enum hd_gemm_epilogue epilogue;
    bool add; /* of f32 only: into bf16, kernels for Hopper round the product before they add */
};

/* Finds and keeps the algorithm for the current GPU, unless it is kept already. May allocate.
 * hd_gemm_multiply_cuda prepares a GEMM that is not prepared. Returns HD_OK, HD_ERR_UNSUPPORTED (no
 * library or no algorithm), HD_ERR_DEVICE or HD_ERR_NOMEM (logged). */
int hd_gemm_prepare_cuda(const struct hd_gemm *gemm);

/* Enqueues the product on `stream`. Pointers are to device memory, aligned to HD_GEMM_ALIGNMENT:
 * a, b, c, bias[n] (of type `to`; NULL without an epilogue), none of which
 * overlap, and the workspace of HD_GEMM_WORKSPACE bytes, aligned to HD_GEMM_WORKSPACE_ALIGNMENT.
 * Returns HD_OK or an error of hd_gemm_prepare_cuda (logged). */
int hd_gemm_multiply_cuda(const struct hd_gemm *gemm, const void *a, const void *b,
                          const void *bias, void *c, void *workspace, void *stream);
