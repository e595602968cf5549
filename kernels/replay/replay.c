/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/replay_internal.h"
#include "runtime/base/alloc.h"

#include <string.h>

/* Fills in the addresses and returns the bytes; only counts if `memory` is NULL. */
static int64_t lay_out(const struct hd_replay_shape *shape, const void *memory,
                       struct hd_replay_ring *ring)
{
    const int64_t sizes[] = {
        sizeof(struct hd_replay_header),
        shape->envs * (int64_t)sizeof(int64_t),
        shape->envs * shape->frames * (int64_t)sizeof(int64_t),
        shape->capacity * hd_transition_get_bytes(shape->nstep, shape->dims),
        shape->envs * shape->frames * shape->frame_bytes,
    };
    int64_t at[6] = {0};
    for (int i = 0; i < 5; i++)
        at[i + 1] = at[i] + hd_align_up(sizes[i]);
    char *bytes = (char *)memory;
    *ring = (struct hd_replay_ring){0};
    if (memory)
        *ring = (struct hd_replay_ring){
            .header = (struct hd_replay_header *)bytes,
            .shown = (int64_t *)(bytes + at[1]),
            .users = (int64_t *)(bytes + at[2]),
            .transitions = bytes + at[3],
            .frames = bytes + at[4],
        };
    return at[5];
}

struct hd_replay_ring hd_replay_ring_lay_out(const struct hd_replay_shape *shape,
                                             const void *memory)
{
    struct hd_replay_ring ring;
    lay_out(shape, memory, &ring);
    return ring;
}

int64_t hd_replay_get_bytes(const struct hd_replay_shape *shape)
{
    struct hd_replay_ring unused;
    return lay_out(shape, NULL, &unused);
}

int64_t hd_replay_get_size(const struct hd_replay_shape *shape, const void *memory)
{
    const struct hd_replay_header *header = hd_replay_ring_lay_out(shape, memory).header;
    return header->added - header->lost;
}

void hd_replay_get_held(const struct hd_replay_shape *shape, const void *memory, int64_t *first_p,
                        int64_t *end_p)
{
    const struct hd_replay_header *header = hd_replay_ring_lay_out(shape, memory).header;
    *first_p = header->lost;
    *end_p = header->added;
}

int64_t hd_replay_count_shown(const struct hd_replay_shape *shape, const void *memory, int64_t env)
{
    return hd_replay_ring_lay_out(shape, memory).shown[env];
}

static void lose(struct hd_replay_header *header, int64_t lost)
{
    if (header->lost < lost)
        header->lost = lost;
}

void hd_replay_add_frame(const struct hd_replay_shape *shape, void *memory, int64_t env,
                         const void *frame)
{
    struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    int64_t slot = hd_replay_find_slot(shape, env, ring.shown[env]++);
    lose(ring.header, ring.users[slot]);
    ring.users[slot] = 0;
    memcpy(ring.frames + slot * shape->frame_bytes, frame, (size_t)shape->frame_bytes);
}

void hd_replay_add(const struct hd_replay_shape *shape, void *memory,
                   const struct hd_transition *transition)
{
    struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    int64_t oldest = hd_replay_find_oldest(shape, transition->frame, transition->age);
    int64_t number = ring.header->added++;
    lose(ring.header, ring.header->added - shape->capacity);
    /* An env's transitions come in order, so the last one that starts at a frame is the last one
     * that is lost when this frame is overwritten. */
    if (oldest < ring.shown[transition->env] - shape->frames)
        lose(ring.header, number + 1);
    else
        ring.users[hd_replay_find_slot(shape, transition->env, oldest)] = number + 1;
    memcpy(hd_transition_get(ring.transitions, shape->nstep, shape->dims, number % shape->capacity),
           transition, (size_t)hd_transition_get_bytes(shape->nstep, shape->dims));
}

/* Assembles the observation that ends with `frame`. */
static void stack_frames(const struct hd_replay_shape *shape, const struct hd_replay_ring *ring,
                         int64_t env, int64_t frame, int64_t age, char *obs)
{
    const size_t bytes = (size_t)shape->frame_bytes;
    for (int64_t k = 0; k < shape->stack; k++, obs += bytes)
        memcpy(obs, hd_replay_find_frame(shape, ring, env, frame, age, k), bytes);
}

/* Writes the transition at an index of memory. */
static void get_at(const struct hd_replay_shape *shape, const struct hd_replay_ring *ring,
                   int64_t index, const struct hd_transition_shape *to_shape,
                   struct hd_transitions to, int64_t row)
{
    const struct hd_transition *from =
        hd_transition_get(ring->transitions, shape->nstep, shape->dims, index);
    stack_frames(shape, ring, from->env, from->frame, from->age,
                 (char *)to.obs + row * to_shape->obs_bytes);
    stack_frames(shape, ring, from->env, from->frame + from->ahead, from->age + from->ahead,
                 (char *)to.next_obs + row * to_shape->obs_bytes);
    for (int64_t j = 0; j < shape->nstep; j++)
        to.reward[j * to_shape->rows + row] = from->reward[j];
    to.done[row] = from->done;
    for (int64_t d = 0; d < shape->dims; d++)
        to.action[row * shape->dims + d] = hd_transition_get_action(from, shape->nstep)[d];
    if (to_shape->has_value_gamma)
        to.value_gamma[row] = from->value_gamma;
}

void hd_replay_get(const struct hd_replay_shape *shape, const void *memory, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row)
{
    const struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    get_at(shape, &ring, hd_replay_find_transition(shape, ring.header, position), to_shape, to,
           row);
}

void hd_replay_get_number(const struct hd_replay_shape *shape, const void *memory, int64_t number,
                          const struct hd_transition_shape *to_shape, struct hd_transitions to,
                          int64_t row)
{
    const struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    get_at(shape, &ring, number % shape->capacity, to_shape, to, row);
}
