/* SPDX-License-Identifier: Apache-2.0 */
/* The clock and the network of a simulation: SimGrid's, by a plug-in. Simulated time is in seconds
 * and starts at 0. One thread, and one network for each process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_SIMGRID_ABI = 1 };

struct hd_network_options {
    int nodes;
    const char *platform; /* a file of SimGrid, the first hosts of which are the nodes; or NULL: */
    double bytes_per_s;   /* each node has a link of this rate in both directions to one switch, */
    double latency_s;     /* from node to node */
    const char *model;    /* SimGrid's network/model */
};

struct hd_network {
    /* Calls call(arg, what) at `time`, not before now. */
    void (*at)(double time, void (*call)(void *arg, int64_t what), void *arg, int64_t what);
    /* Sends bytes from one node to another, and calls likewise when they have arrived. */
    void (*send)(int from, int to, double bytes, void (*call)(void *arg, int64_t what), void *arg,
                 int64_t what);
    double (*now)(void);
    void (*run)(void); /* until nothing is to be called any more */
};

/* The plug-in exports this as hd_simgrid_plugin. `open` returns NULL on errors, with a sentence in
 * why[bytes]. */
struct hd_simgrid_plugin {
    int abi;
    const struct hd_network *(*open)(const struct hd_network_options *options, char *why,
                                     size_t bytes);
};

#ifdef __cplusplus
}
#endif
