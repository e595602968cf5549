/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/conv/team.h"

#include <omp.h>

int hd_team_set_size(int n)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(n);
    return before;
}
