/* SPDX-License-Identifier: Apache-2.0 */
/* Orders in which the emulation does what a GPU does in no order that a program may rely on. */
#include "tests/emulation/kernel.hpp"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

static const char *get_wanted()
{
    const char *wanted = getenv("HD_EMULATED_ORDER");
    return wanted ? wanted : "";
}

bool hd_emulated_order_is_random()
{
    static const bool random = *get_wanted() && strcmp(get_wanted(), "reverse");
    return random;
}

/* The next of the numbers that begin with *state (splitmix64). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

void hd_emulated_put_in_order(std::vector<uint32_t> &order, size_t n, uint64_t key)
{
    static const bool backwards = !strcmp(get_wanted(), "reverse");
    static const uint64_t seed = strtoull(get_wanted(), nullptr, 10);
    if (!hd_emulated_order_is_random() && order.size() == n)
        return; /* it stands there already */
    uint64_t state = key;
    state = draw(&state) ^ seed;
    order.resize(n);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)(backwards ? n - 1 - i : i);
    for (size_t i = n; i > 1 && hd_emulated_order_is_random(); i--)
        std::swap(order[i - 1], order[(draw(&state) >> 32) * i >> 32]);
}
