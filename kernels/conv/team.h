/* SPDX-License-Identifier: Apache-2.0 */
/* The number of threads with which oneDNN computes, which OpenMP keeps for each thread. Passes set
 * it to one and leave it so; a library brings back what its caller had. Thread safe. */
#pragma once

/* Gives the calling thread OpenMP teams of n threads, and returns how many they had before; cannot
 * fail. */
int hd_team_set_size(int n);
