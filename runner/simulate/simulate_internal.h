/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `runner simulate` share these. One thread. */
#pragma once

#include "runner/base/options.h"
#include "runner/simulate/model/network.h"

#include <jansson.h>

#define HD_NETWORK_DEFAULT "10Gbit,20us"
#define HD_GPU_LINK_DEFAULT "200Gbit"

/* This says what is simulated: the options, read, and the strategy whose turn it is. */
struct hd_simulate_request {
    struct hd_options *options;
    json_t *calibrations; /* the file */
    struct hd_network_options network;
    double scale, gpu_speedup, gpu_bytes_per_s;
    const char *strategy;
    bool last; /* its trace is wanted, if any is */
};

/* Reads the options and the file of calibrations, which json_decref releases, also after errors:
 * HD_ERR_INPUT, HD_ERR_FORMAT (logged). */
int hd_simulate_read_request(struct hd_options *options, struct hd_simulate_request *request_p);

/* Simulates the strategy on so many nodes and stores what a line of the results says. It leaves
 * memory behind, so it is called in a process of its own. Errors are logged. */
int hd_simulate_once(const struct hd_simulate_request *request, int nodes, json_t **json_p);

/* Calls it in a process of its own, as SimGrid simulates once in a process. After Ctrl-C or SIGTERM
 * that process ends, and no other one begins. Returns the exit code of the program: that of the
 * error (logged), HD_ERR_INTERRUPTED after a signal. */
int hd_simulate_apart(const struct hd_simulate_request *request, int nodes, json_t **json_p);

/* Returns sentences, the last one NULL, on what of a cluster is simulated and what is not. */
const char *const *hd_simulate_get_notes(const struct hd_simulate_request *request);

/* Writes all results as a page with curves to the file of --page. Errors are logged. */
int hd_simulate_write_page(const struct hd_simulate_request *request, json_t *results);
