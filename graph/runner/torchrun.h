/* SPDX-License-Identifier: Apache-2.0 */
/* Options of torchrun that `runner launch` has not, for those who know torchrun's. Thread
 * safe. */
#ifndef HD_GRAPH_RUNNER_TORCHRUN_H
#define HD_GRAPH_RUNNER_TORCHRUN_H

/* Returns HD_ERR_INPUT (logged: which options of torchrun are known, and what to use instead) when
 * `typed` is an option of torchrun, else HD_OK. */
int hd_torchrun_option_refuse(const char *typed);

#endif
