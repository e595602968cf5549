/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/priorities_internal.h"
#include "runtime/base/status.h"

int64_t hd_priorities_get_saved_bytes(const struct hd_priorities_shape *shape)
{
    return (int64_t)sizeof(struct hd_priorities) + shape->capacity * (int64_t)sizeof(double);
}

int64_t hd_priorities_get_bytes(const struct hd_priorities_shape *shape)
{
    const int64_t leaves = hd_priorities_count_leaves(shape);
    return (int64_t)sizeof(struct hd_priorities) +
           leaves * (int64_t)(sizeof(double) + sizeof(struct hd_priorities_node));
}

void hd_priorities_build(const struct hd_priorities_shape *shape, struct hd_priorities *priorities)
{
    const int64_t leaves = hd_priorities_count_leaves(shape);
    for (int64_t i = leaves - 1; i >= 1; i--)
        hd_priorities_compute_node(priorities, leaves, i);
}

static void set_weight(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                       int64_t number, double weight)
{
    const int64_t leaves = hd_priorities_count_leaves(shape), leaf = number % shape->capacity;
    priorities->weight[leaf] = weight;
    for (int64_t i = (leaf + leaves) / 2; i >= 1; i /= 2)
        hd_priorities_compute_node(priorities, leaves, i);
}

void hd_priorities_push(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                        int64_t first, int64_t end)
{
    if (priorities->max_priority == 0)
        priorities->max_priority = 1;
    for (; priorities->first < first; priorities->first++)
        if (priorities->first < priorities->end)
            set_weight(shape, priorities, priorities->first, 0);
    if (priorities->end < first)
        priorities->end = first;
    const double weight = pow(priorities->max_priority, shape->alpha);
    for (; priorities->end < end; priorities->end++)
        set_weight(shape, priorities, priorities->end, weight);
}

bool hd_priorities_set(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                       int64_t number, double priority)
{
    if (number < priorities->first || number >= priorities->end)
        return false;
    set_weight(shape, priorities, number, hd_priorities_make_weight(shape, priority));
    priorities->max_priority = fmax(priorities->max_priority, priority);
    return true;
}

int64_t hd_priorities_find(const struct hd_priorities_shape *shape,
                           const struct hd_priorities *priorities, double u)
{
    return hd_priorities_find_share(shape, priorities, u);
}

float hd_priorities_compute_importance(const struct hd_priorities_shape *shape,
                                       const struct hd_priorities *priorities, int64_t number,
                                       double beta)
{
    return hd_priorities_weigh(shape, priorities, number, beta);
}

/* A transition that is held has a weight of at least HD_PRIORITIES_EPSILON, and nothing else has
 * one. */
int hd_priorities_check(const struct hd_priorities_shape *shape,
                        const struct hd_priorities *priorities, char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_priorities *p = priorities;
    const int64_t gone = p->end - shape->capacity;
    HD_TRY(hd_number_check(message, "end", -1, p->end, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "first", -1, p->first, gone > 0 ? gone : 0, p->end));
    HD_TRY(hd_number_check(message, "draws", -1, p->draws, 0, HD_COUNT_MAX));
    HD_TRY(hd_numbers_check_f64(message, "max_priority", &p->max_priority, 1, p->end > 0 ? 1 : 0));
    HD_TRY(hd_numbers_check_f64(message, "weight", p->weight, shape->capacity, 0));
    const int64_t size = p->end - p->first;
    int64_t held = 0, weights = 0;
    for (int64_t number = p->first; number < p->end; number++)
        held += p->weight[number % shape->capacity] > HD_PRIORITIES_EPSILON / 2;
    for (int64_t leaf = 0; leaf < shape->capacity; leaf++)
        weights += p->weight[leaf] != 0;
    HD_TRY(hd_number_check(message, "transitions with weights", -1, held, size, size));
    return hd_number_check(message, "weights", -1, weights, size, size);
}
