/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of an update, for verbs with an optional port `learning_rate`, and perhaps an
 * option of this name: a number, or a key of the config after `$`. Thread safe. */
#ifndef HD_TASKS_LEARN_LEARNING_RATE_H
#define HD_TASKS_LEARN_LEARNING_RATE_H

#include "tasks/base/registry.h"

struct hd_learning_rate {
    double first; /* of the option or a key of the config */
    int field;    /* index of the field `learning_rate` of the port's value */
};

/* Reads the option, or without it the number of `key`, and finds the field, from a verb's
 * `prepare`. Returns HD_OK, or HD_ERR_INPUT (in setup->diag) when the option is no such thing or
 * the port's value has no learning rate. */
int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int port,
                             const char *key, struct hd_learning_rate *rate_p);

/* Returns the learning rate that `adapt_lr` wrote last, or the first one if it has not written any
 * or the port is not connected. */
double hd_learning_rate_get(const struct hd_learning_rate *rate, const struct hd_view *view);

#endif
