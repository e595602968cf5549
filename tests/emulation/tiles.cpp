/* SPDX-License-Identifier: Apache-2.0 */
/* What tensor cores compute. Their order of additions is not specified, so it is one that
 * HD_EMULATED_ORDER chooses. */
#include "tests/emulation/kernel.hpp"

#include <string.h>

namespace
{

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };

float low_half(uint32_t pair)
{
    const uint32_t bits = pair << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Takes the pair at [.][k] of a matrix that is stored with the summed index first. */
void put_pair(uint32_t pair, float *at, size_t next_k)
{
    at[0] = low_half(pair);
    at[next_k] = low_half(pair >> 16);
}

const std::vector<uint32_t> &order()
{
    static std::vector<uint32_t> order;
    if (order.empty())
        hd_emulated_put_in_order(order, DEPTH, DEPTH);
    return order;
}

void multiply_tile(const hd_emulated_tiles *const lanes[32], int tile)
{
    float a[DEPTH][ROWS], b[DEPTH][COLUMNS], c[ROWS][COLUMNS];
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        const hd_emulated_tiles &of_lane = *lanes[lane];
        for (int i = 0; i < 4; i++)
            put_pair(of_lane.a[i], &a[2 * t + i / 2 * 8][g + i % 2 * 8], ROWS);
        for (int i = 0; i < 2; i++)
            put_pair(i ? of_lane.b[tile].y : of_lane.b[tile].x, &b[2 * t + i * 8][g], COLUMNS);
        for (int i = 0; i < 4; i++)
            c[g + i / 2 * 8][2 * t + i % 2] = of_lane.c[4 * tile + i];
    }
    for (uint32_t k : order())
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++)
                c[row][column] += a[k][row] * b[k][column];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            lanes[lane]->c[4 * tile + i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

} // namespace

void hd_emulated_compute_tiles(const hd_emulated_tiles *const lanes[32])
{
    for (int tile = 0; tile < lanes[0]->n; tile++)
        multiply_tile(lanes, tile);
}
