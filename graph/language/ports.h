/* SPDX-License-Identifier: Apache-2.0 */
/* The values that a step uses, and the ports of its verb that they go to. One thread at a time. */
#pragma once

#include "graph/language/parser.h"

/* Reads the uses under `reads`, `writes` and `updates` of a step and gives each a port of its verb:
 * fills step->refs. Every mistake goes to diag. Errors: HD_ERR_INPUT (reported to diag),
 * HD_ERR_NOMEM. */
int hd_ports_read(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map);
