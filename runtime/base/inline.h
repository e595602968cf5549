/* SPDX-License-Identifier: Apache-2.0 */
/* HD_INLINE marks functions of a header that CPUs and GPUs compute with: formulas of one element.
 */
#ifndef HD_RUNTIME_BASE_INLINE_H
#define HD_RUNTIME_BASE_INLINE_H

#ifdef __CUDACC__
#define HD_INLINE static inline __host__ __device__
#else
#define HD_INLINE static inline
#endif

#endif
