/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of a device while it is made, as the rules of that device see it. Threads as in
 * kernels/net/net.h. */
#pragma once

#include "kernels/net/list/list_internal.h"

struct rewrite;

struct rewrite_rules {
    /* Returns whether `next`, an activation, may be computed in place of the op's output. */
    bool (*activates)(const struct rewrite *rewrite, const struct op *op, const struct op *next);
    /* Adds the value of an array of the observation. */
    void (*add_obs)(struct rewrite *rewrite, int value);
    /* Adds what computes an op, and at the end what the walk ends in. Return HD_OK, HD_ERR_NOMEM or
     * HD_ERR_UNSUPPORTED (logged). */
    int (*add_op)(struct rewrite *rewrite, const struct op *op);
    int (*end)(struct rewrite *rewrite);
};

struct rewrite {
    struct list_net *net;
    const struct rewrite_rules *rules;
    const struct walk *from;
    struct walk *to;
    int *readers; /* [values of `from`]: ops and streams that read them */
    int *made;    /* [values of `from`]: their numbers in `to` */
    bool *done;   /* [ops of `from`]: they are a part of an op that is made */
};

/* Makes the ops and values of `to` of net->plain. Returns a status of the rules. */
int hd_rewrite_make(struct list_net *net, const struct rewrite_rules *rules, struct walk *to);

/* Returns whether a stream ends in a value; and the only op that reads it, NULL: there are more, or
 * a stream ends in it. */
bool hd_rewrite_is_output(const struct rewrite *rewrite, int value);
const struct op *hd_rewrite_find_reader(const struct rewrite *rewrite, int value);

/* Returns whether a layer is the last one of a stream, but for standard deviations. */
bool hd_rewrite_ends_stream(const struct rewrite *rewrite, const struct op *op);

/* Returns the activation that is computed in place of the op's output, or NULL. */
const struct op *hd_rewrite_find_activation(const struct rewrite *rewrite, const struct op *op);

/* Returns the first layer of the other stream if both are computed as one, or NULL; and whether
 * such a stream is that of the actions. */
const struct op *hd_rewrite_find_joined(const struct rewrite *rewrite, const struct op *op);
bool hd_rewrite_is_of_actions(const struct rewrite *rewrite, const struct op *op);

/* Returns the number of a value of `to` in the wanted form; `level` is that of the op that wants
 * it. There are no errors. */
int hd_rewrite_convert(struct rewrite *rewrite, int value, struct hd_form form, int level);

/* Notes that an op is made, and the activation behind it, in the value that they write. Returns the
 * activation's type; NULL: there is none. */
const struct hd_layer_type *hd_rewrite_note_made(struct rewrite *rewrite, const struct op *op,
                                                 int value);

/* Finds the part of a joined value that an op reads. */
void hd_rewrite_find_part(const struct rewrite *rewrite, const struct op *op, struct op *made);
