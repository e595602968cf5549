/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/priorities.h"

#include "runtime/base/status.h"

#include <math.h>

/* DI-engine's, so that no transition becomes impossible to draw. */
static const double EPSILON = 1e-5;

/* The sum of a node's leaves, and the least that is not 0, or 0. */
struct node {
    double sum, min;
};

static int64_t count_leaves(const struct hd_priorities_shape *shape)
{
    int64_t leaves = 1;
    while (leaves < shape->capacity)
        leaves *= 2;
    return leaves;
}

/* Returns the inner nodes: node 1 is the root, and the children of node i are 2 i and 2 i + 1,
 * which from `leaves` on are leaves. */
static struct node *get_nodes(const struct hd_priorities *priorities, int64_t leaves)
{
    return (struct node *)(priorities->weight + leaves);
}

int64_t hd_priorities_get_saved_bytes(const struct hd_priorities_shape *shape)
{
    return (int64_t)sizeof(struct hd_priorities) + shape->capacity * (int64_t)sizeof(double);
}

int64_t hd_priorities_get_bytes(const struct hd_priorities_shape *shape)
{
    const int64_t leaves = count_leaves(shape);
    return (int64_t)sizeof(struct hd_priorities) +
           leaves * (int64_t)(sizeof(double) + sizeof(struct node));
}

static struct node get_node(const struct hd_priorities *priorities, int64_t leaves, int64_t i)
{
    if (i < leaves)
        return get_nodes(priorities, leaves)[i];
    const double weight = priorities->weight[i - leaves];
    return (struct node){weight, weight};
}

static void compute_node(struct hd_priorities *priorities, int64_t leaves, int64_t i)
{
    const struct node left = get_node(priorities, leaves, 2 * i),
                      right = get_node(priorities, leaves, 2 * i + 1);
    const bool takes_left = left.min > 0 && (right.min == 0 || left.min < right.min);
    get_nodes(priorities, leaves)[i] =
        (struct node){left.sum + right.sum, takes_left ? left.min : right.min};
}

static struct node get_root(const struct hd_priorities *priorities, int64_t leaves)
{
    return get_node(priorities, leaves, 1);
}

void hd_priorities_build(const struct hd_priorities_shape *shape, struct hd_priorities *priorities)
{
    const int64_t leaves = count_leaves(shape);
    for (int64_t i = leaves - 1; i >= 1; i--)
        compute_node(priorities, leaves, i);
}

static void set_weight(const struct hd_priorities_shape *shape, struct hd_priorities *priorities,
                       int64_t number, double weight)
{
    const int64_t leaves = count_leaves(shape), leaf = number % shape->capacity;
    priorities->weight[leaf] = weight;
    for (int64_t i = (leaf + leaves) / 2; i >= 1; i /= 2)
        compute_node(priorities, leaves, i);
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
    set_weight(shape, priorities, number, pow(priority + EPSILON, shape->alpha));
    priorities->max_priority = fmax(priorities->max_priority, priority);
    return true;
}

/* A child without weights is never entered, also where sums have rounded. */
static int64_t find_leaf(const struct hd_priorities *priorities, int64_t leaves, double mass)
{
    int64_t i = 1;
    while (i < leaves) {
        const double left = get_node(priorities, leaves, 2 * i).sum,
                     right = get_node(priorities, leaves, 2 * i + 1).sum;
        const bool is_right = right > 0 && (mass >= left || left == 0);
        mass -= is_right ? left : 0;
        i = 2 * i + is_right;
    }
    return i - leaves;
}

int64_t hd_priorities_find(const struct hd_priorities_shape *shape,
                           const struct hd_priorities *priorities, double u)
{
    const int64_t leaves = count_leaves(shape);
    const int64_t leaf = find_leaf(priorities, leaves, u * get_root(priorities, leaves).sum);
    const int64_t newest = priorities->end - 1;
    return newest - (newest + shape->capacity - leaf) % shape->capacity;
}

/* N and the sum of all weights cancel. */
float hd_priorities_compute_importance(const struct hd_priorities_shape *shape,
                                       const struct hd_priorities *priorities, int64_t number,
                                       double beta)
{
    const double min = get_root(priorities, count_leaves(shape)).min;
    return (float)pow(priorities->weight[number % shape->capacity] / min, -beta);
}

/* A transition that is held has a weight of at least EPSILON, and nothing else has one. */
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
        held += p->weight[number % shape->capacity] > EPSILON / 2;
    for (int64_t leaf = 0; leaf < shape->capacity; leaf++)
        weights += p->weight[leaf] != 0;
    HD_TRY(hd_number_check(message, "transitions with weights", -1, held, size, size));
    return hd_number_check(message, "weights", -1, weights, size, size);
}
