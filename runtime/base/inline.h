/* SPDX-License-Identifier: Apache-2.0 */
/* HD_INLINE marks functions of a header that CPUs and GPUs compute with: formulas of one element.
 */
#pragma once

#ifdef __CUDACC__
#define HD_INLINE static inline __host__ __device__
#else
#define HD_INLINE static inline
#endif
