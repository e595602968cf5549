/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of an update, for verbs with an optional port `rate`. */
#ifndef HD_TASKS_LEARN_LEARNING_RATE_H
#define HD_TASKS_LEARN_LEARNING_RATE_H

#include "tasks/registry.h"

struct hd_learning_rate {
    double first; /* policy.learn.learning_rate */
    int field;    /* of the port's value */
};

/* From a verb's `prepare`; a value without a learning rate at the port is a mistake. */
int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int port,
                             struct hd_learning_rate *rate_p);

/* What `adapt_lr` wrote last; before that, and where the port is not connected, the first one. */
double hd_learning_rate_get(const struct hd_learning_rate *rate, const struct hd_view *view);

#endif
