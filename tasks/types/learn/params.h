/* SPDX-License-Identifier: Apache-2.0 */
/* Type `params`: the parameters of a net (`net:`, of the run file; by default the policy's), a flat
 * array of floats cut in buckets, with the shadow weights that the net derives from them behind it.
 * Types `grad`, `adam_state` and `batch_norm_stats` are made `of` a value of this type. Thread
 * safe. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_params;

/* Returns the net of a value of type params, or of one made `of` it. Borrowed. */
const struct hd_net *hd_params_get_net(const struct hd_spec *spec);

/* Checks, from a type's `resolve`, that a value is made `of` one of type params. Returns HD_OK or,
 * after adding the mistake to setup->diag, HD_ERR_INPUT. */
int hd_params_check_of(const struct hd_spec *spec, const struct hd_setup *setup);

/* Is `resolve`, or its beginning, of a type that is made `of` a value of type params and has its
 * buckets: an instance is a float for each element, until `bytes` says otherwise. Returns HD_OK or
 * HD_ERR_INPUT, likewise. */
int hd_params_resolve_floats(struct hd_spec *spec, const struct hd_setup *setup);

/* Checks, from a verb's `prepare`, that two values of type params have nets of one shape, and that
 * `spec` is made `of` the value `params`. Return HD_OK, or HD_ERR_INPUT (in setup->diag). */
int hd_params_check_same_net(const struct hd_setup *setup, const struct hd_spec *a,
                             const struct hd_spec *b);
int hd_params_check_made_of(const struct hd_setup *setup, const struct hd_spec *spec,
                            const struct hd_spec *params);
