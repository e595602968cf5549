/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of ranks that are all on one host and were given none. Rank 0 draws it and leaves it
 * in a file of $TMPDIR/heddle-<uid>/, which nobody but their user can read or replace, until all
 * have joined. The file counts as long as rank 0 holds it locked: what an earlier run has left does
 * not. One thread. */
#pragma once

#include "runtime/ranks/world.h"

struct hd_host_secret {
    int folder, fd; /* -1: not open */
    char name[48];  /* of the file in the folder: the same for all ranks of a run */
};

/* Gives the ranks of a world on this host a secret, in world->secret: rank 0 draws it and leaves it
 * in a file, the others wait for that, as long as for the rendezvous. Returns HD_OK, or
 * HD_ERR_INPUT or HD_ERR_SYSTEM (logged). */
int hd_host_secret_share(struct hd_world *world, struct hd_host_secret *shared_p);

/* Rank 0: removes the file; the others have nothing to remove. After failures as well. */
void hd_host_secret_remove(struct hd_host_secret *shared);
