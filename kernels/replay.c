/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay.h"

#include "runtime/base/alloc.h"
#include "runtime/base/least.h"

#include <string.h>

struct head {
    int64_t added, lost; /* transitions ever added; of these, the first `lost` are gone */
};

/* The arrays of a ring, in this order. */
struct ring {
    struct head *head;
    int64_t *shown; /* [envs]: frames ever added */
    int64_t *users; /* [envs][frames]: 1 + the last transition whose oldest frame this is, or 0 */
    char *transitions; /* [capacity] */
    char *frames;      /* [envs][frames][frame_bytes] */
};

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_replay_shape *shape, const void *memory, struct ring *ring)
{
    const int64_t sizes[] = {
        sizeof(struct head),
        shape->envs * (int64_t)sizeof(int64_t),
        shape->envs * shape->frames * (int64_t)sizeof(int64_t),
        shape->capacity * hd_transition_bytes(shape->nstep),
        shape->envs * shape->frames * shape->frame_bytes,
    };
    int64_t at[6] = {0};
    for (int i = 0; i < 5; i++)
        at[i + 1] = at[i] + hd_padded(sizes[i]);
    char *bytes = (char *)memory;
    *ring = (struct ring){0};
    if (memory)
        *ring = (struct ring){
            .head = (struct head *)bytes,
            .shown = (int64_t *)(bytes + at[1]),
            .users = (int64_t *)(bytes + at[2]),
            .transitions = bytes + at[3],
            .frames = bytes + at[4],
        };
    return at[5];
}

static struct ring ring_at(const struct hd_replay_shape *shape, const void *memory)
{
    struct ring ring;
    lay_out(shape, memory, &ring);
    return ring;
}

int64_t hd_replay_bytes(const struct hd_replay_shape *shape)
{
    struct ring unused;
    return lay_out(shape, NULL, &unused);
}

int64_t hd_replay_size(const struct hd_replay_shape *shape, const void *memory)
{
    const struct head *head = ring_at(shape, memory).head;
    return head->added - head->lost;
}

int64_t hd_replay_shown(const struct hd_replay_shape *shape, const void *memory, int64_t env)
{
    return ring_at(shape, memory).shown[env];
}

/* Where a frame is among those of all envs. */
static int64_t slot_of(const struct hd_replay_shape *shape, int64_t env, int64_t frame)
{
    return env * shape->frames + frame % shape->frames;
}

static void lose(struct head *head, int64_t lost)
{
    if (head->lost < lost)
        head->lost = lost;
}

void hd_replay_add_frame(const struct hd_replay_shape *shape, void *memory, int64_t env,
                         const void *frame)
{
    struct ring ring = ring_at(shape, memory);
    int64_t slot = slot_of(shape, env, ring.shown[env]++);
    lose(ring.head, ring.users[slot]);
    ring.users[slot] = 0;
    memcpy(ring.frames + slot * shape->frame_bytes, frame, (size_t)shape->frame_bytes);
}

void hd_replay_add(const struct hd_replay_shape *shape, void *memory,
                   const struct hd_transition *transition)
{
    struct ring ring = ring_at(shape, memory);
    int64_t oldest = transition->frame - hd_least(transition->age, shape->stack - 1);
    int64_t number = ring.head->added++;
    lose(ring.head, ring.head->added - shape->capacity);
    /* An env's transitions come in order, so the last one that starts at a frame is the last one
     * that is spoilt when this frame is overwritten. */
    if (oldest < ring.shown[transition->env] - shape->frames)
        lose(ring.head, number + 1);
    else
        ring.users[slot_of(shape, transition->env, oldest)] = number + 1;
    memcpy(hd_transition_at(ring.transitions, shape->nstep, number % shape->capacity), transition,
           (size_t)hd_transition_bytes(shape->nstep));
}

int64_t hd_replay_stratum(int64_t i, double u, int64_t batch, int64_t size)
{
    int64_t position = (int64_t)(((double)i + u) * (double)size / (double)batch);
    return position < size ? position : size - 1; /* i + u may have rounded up to batch */
}

/* The place in memory of the transition at a position: those held are [begin, capacity) and [0,
 * end), or [begin, end). */
static int64_t place_of(const struct hd_replay_shape *shape, const struct head *head,
                        int64_t position)
{
    int64_t begin = head->lost % shape->capacity, end = head->added % shape->capacity;
    if (begin < end)
        return begin + position;
    return position < end ? position : begin + position - end;
}

/* Puts the observation together that ends with `frame`. */
static void stack_frames(const struct hd_replay_shape *shape, const struct ring *ring, int64_t env,
                         int64_t frame, int64_t age, char *obs)
{
    const size_t bytes = (size_t)shape->frame_bytes;
    for (int64_t back = shape->stack - 1; back >= 0; back--, obs += bytes)
        memcpy(obs,
               ring->frames + slot_of(shape, env, frame - hd_least(back, age)) * shape->frame_bytes,
               bytes);
}

void hd_replay_get(const struct hd_replay_shape *shape, const void *memory, int64_t position,
                   const struct hd_transition_shape *to_shape, struct hd_transitions to,
                   int64_t row)
{
    const struct ring ring = ring_at(shape, memory);
    const struct hd_transition *from =
        hd_transition_at(ring.transitions, shape->nstep, place_of(shape, ring.head, position));
    stack_frames(shape, &ring, from->env, from->frame, from->age,
                 (char *)to.obs + row * to_shape->obs_bytes);
    stack_frames(shape, &ring, from->env, from->frame + from->ahead, from->age + from->ahead,
                 (char *)to.next_obs + row * to_shape->obs_bytes);
    for (int64_t j = 0; j < shape->nstep; j++)
        to.reward[j * to_shape->rows + row] = from->reward[j];
    to.done[row] = from->done;
    to.action[row] = from->action;
    if (to_shape->has_value_gamma)
        to.value_gamma[row] = from->value_gamma;
}
