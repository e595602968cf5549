/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of docs/howto, which quotes the files beside this one. */
#ifndef HD_TESTS_HOWTO_HOWTO_H
#define HD_TESTS_HOWTO_HOWTO_H

#include "runtime/comm/comm_links.h"
#include "tasks/registry.h"

enum { HD_SOCKET_RANKS = 8 };

/* verb.c: reads params `from`, updates params `to` by a fraction `tau` of the difference. */
extern const struct hd_verb hd_verb_soft_update;

/* layer.c: layer norm (Ba et al. 2016) over `features` of each of `columns` samples; X[i][b] and
 * Y[i][b] have rows ld floats apart. It keeps the mean and 1 / deviation of each column. X and Y
 * may be the same memory in `forward` only if nobody calls `backward`. Thread safe. */
void hd_layer_norm_forward(int64_t features, int64_t columns, int64_t ld, const float *weight,
                           const float *bias, const float *x, float *y, float *mean,
                           float *inverse);

/* dx[i][b]; dweight[features] and dbias[features] are sums over the columns, in their order. */
void hd_layer_norm_backward(int64_t features, int64_t columns, int64_t ld, const float *weight,
                            const float *x, const float *mean, const float *inverse,
                            const float *dy, float *dx, float *dweight, float *dbias);

/* transport.c: links over connected stream sockets, fds[r] leading to rank r. Takes the sockets
 * over. Returns HD_OK or HD_ERR_NOMEM. */
int hd_socket_links_open(int rank, int ranks, const int *fds, struct hd_links **links_p);

#endif
