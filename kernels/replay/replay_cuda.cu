/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/copy.cuh"

extern "C" {
#include "kernels/replay/priorities_internal.h"
#include "kernels/replay/replay_internal.h"
}

/* -- Storing ----------------------------------------------------------------------------------- */
/* One block numbers the frames, moves users from old frames to new ones and counts; then others
 * copy. scratch[0] is the number of the first transition, or -1 where nothing is to be stored,
 * scratch[1] the number of frames, scratch[2 + i] where frame i goes, or -1 where a later one takes
 * its place. */

enum { HEADER = 2, THREADS = 256 };

extern "C" int64_t hd_replay_get_scratch_bytes(int64_t max_frames)
{
    return (HEADER + max_frames) * (int64_t)sizeof(int64_t);
}

/* Returns to every thread the largest value that a thread passes. Between two calls there has to be
 * a barrier. */
static __device__ int64_t find_max(int64_t local)
{
    __shared__ int64_t max[THREADS];
    const int at = threadIdx.x;
    max[at] = local;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at < half)
            max[at] = max[at] > max[at + half] ? max[at] : max[at + half];
    }
    __syncthreads();
    return max[0];
}

/* Returns how many threads before this one have the same key, and whether none after it has. */
static __device__ int same_before(int64_t key, bool *is_last_p)
{
    __shared__ int64_t keys[THREADS];
    const int at = threadIdx.x;
    int before = 0, all = 0;
    __syncthreads();
    keys[at] = key;
    __syncthreads();
    for (int i = 0; i < THREADS; i++) {
        all += keys[i] == key;
        before += keys[i] == key && i < at;
    }
    *is_last_p = before + 1 == all;
    return before;
}

/* Returns 1 + the first env whose next frame has another number than expected, or 0. */
static __device__ int64_t find_broken(const struct hd_replay_shape *shape,
                                      const struct hd_replay_ring *ring,
                                      const struct hd_replay_input *input)
{
    int64_t left = 0; /* envs from the first broken one on */
    for (int64_t env = shape->envs - 1 - (int64_t)threadIdx.x; env >= 0; env -= THREADS)
        if (input->first[env] != ring->shown[env])
            left = shape->envs - env;
    left = find_max(left);
    return left > 0 ? shape->envs - left + 1 : 0;
}

/* Sets scratch[2 + i] to the number of frame i in its env and advances `shown`. */
static __device__ void number_frames(const struct hd_replay_ring *ring,
                                     const struct hd_replay_input *input, int64_t n,
                                     int64_t *scratch)
{
    for (int64_t base = 0; base < n; base += THREADS) {
        const int64_t i = base + threadIdx.x, env = i < n ? input->env[i] : -1;
        bool is_last;
        const int before = same_before(env, &is_last);
        const int64_t number = env < 0 ? 0 : ring->shown[env] + before;
        __syncthreads();
        if (env >= 0 && is_last)
            ring->shown[env] = number + 1;
        if (env >= 0)
            scratch[HEADER + i] = number;
    }
    __syncthreads();
}

/* Replaces frame numbers by slots. Returns how many transitions, counted from the first one ever
 * added, are lost with the frames that this thread overwrites. The users of these are cleared when
 * all threads have come to the next barrier. */
static __device__ int64_t assign_slots(const struct hd_replay_shape *shape,
                                       const struct hd_replay_ring *ring,
                                       const struct hd_replay_input *input, int64_t n,
                                       int64_t *scratch)
{
    int64_t lost = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const int64_t env = input->env[i], number = scratch[HEADER + i];
        const int64_t slot = hd_replay_find_slot(shape, env, number);
        const bool stays = number + shape->frames >= ring->shown[env];
        scratch[HEADER + i] = stays ? slot : -1;
        if (!stays)
            continue;
        lost = lost > ring->users[slot] ? lost : ring->users[slot];
        ring->users[slot] = 0;
    }
    return lost;
}

/* Makes the last transition whose oldest frame is in a slot this slot's user. Returns how many
 * transitions, counted likewise, are lost because their frames are gone already. */
static __device__ int64_t register_users(const struct hd_replay_shape *shape,
                                         const struct hd_replay_ring *ring,
                                         const struct hd_replay_input *input, int64_t added)
{
    int64_t lost = 0;
    for (int64_t base = 0; base < input->n_transitions; base += THREADS) {
        const int64_t i = base + threadIdx.x;
        int64_t slot = -1;
        if (i < input->n_transitions) {
            const struct hd_transition *t =
                hd_transition_get(input->transitions, shape->nstep, shape->dims, i);
            const int64_t oldest = hd_replay_find_oldest(shape, t->frame, t->age);
            if (oldest < ring->shown[t->env] - shape->frames)
                lost = added + i + 1;
            else
                slot = hd_replay_find_slot(shape, t->env, oldest);
        }
        bool is_last;
        same_before(slot, &is_last);
        if (slot >= 0 && is_last)
            ring->users[slot] = added + i + 1;
    }
    return lost;
}

static __global__ void update_ring(const struct hd_replay_shape shape,
                                   const struct hd_replay_ring ring,
                                   const struct hd_replay_input input, int64_t *scratch,
                                   struct hd_replay_result *report)
{
    HD_AWAIT_INPUTS();
    const int64_t n = *input.n_frames, before = ring.header->added;
    const int64_t broken = find_broken(&shape, &ring, &input);
    int64_t lost = 0;
    if (broken == 0) {
        number_frames(&ring, &input, n, scratch);
        lost = assign_slots(&shape, &ring, &input, n, scratch);
        const int64_t more = register_users(&shape, &ring, &input, before);
        lost = find_max(lost > more ? lost : more);
    }
    if (threadIdx.x != 0)
        return;
    const int64_t added = before + (broken == 0 ? input.n_transitions : 0);
    lost = lost > added - shape.capacity ? lost : added - shape.capacity;
    ring.header->added = added;
    ring.header->lost = ring.header->lost > lost ? ring.header->lost : lost;
    scratch[0] = broken == 0 ? before : -1;
    scratch[1] = n;
    report->size = added - ring.header->lost;
    report->broken = broken;
}

/* Each thread block copies a frame. */
template <typename word>
static __global__ void copy_frames(const struct hd_replay_ring ring, const char *frames,
                                   int64_t bytes, const int64_t *scratch)
{
    HD_AWAIT_INPUTS();
    const int64_t i = blockIdx.x;
    if (scratch[0] < 0 || i >= scratch[1] || scratch[HEADER + i] < 0)
        return;
    hd_copy_words<word>(frames + i * bytes, ring.frames + scratch[HEADER + i] * bytes, bytes);
}

/* Copies the transitions, except those that later ones would overwrite at once. */
static __global__ void copy_transitions(const struct hd_replay_shape shape,
                                        const struct hd_replay_ring ring, const uint64_t *from,
                                        int64_t n, int64_t words, const int64_t *scratch)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT, t = i / words;
    if (i >= n * words || scratch[0] < 0 || t + shape.capacity < n)
        return;
    const int64_t place = (scratch[0] + t) % shape.capacity;
    ((uint64_t *)ring.transitions)[place * words + i % words] = from[i];
}

extern "C" int hd_replay_push_cuda(const struct hd_replay_shape *shape, void *memory,
                                   const struct hd_replay_input *input, void *scratch,
                                   struct hd_replay_result *report, void *stream)
{
    const struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    const int64_t bytes = shape->frame_bytes, n = input->n_transitions;
    const int64_t words =
        hd_transition_get_bytes(shape->nstep, shape->dims) / (int64_t)sizeof(uint64_t);
    const uint64_t bits =
        hd_cuda_get_bits(ring.frames) | hd_cuda_get_bits(input->frames) | (uint64_t)bytes;
    HD_TRY(HD_LAUNCH(update_ring, 1, THREADS, stream, *shape, ring, *input, (int64_t *)scratch,
                     report));
    if (input->max_frames > 0)
        HD_TRY(HD_LAUNCH_COPY(copy_frames, bits, bytes, 1, (unsigned)input->max_frames, stream,
                              ring, input->frames, bytes, (const int64_t *)scratch));
    if (n == 0)
        return HD_OK;
    return HD_LAUNCH(copy_transitions, hd_cuda_count_blocks(n * words), HD_THREADS, stream, *shape,
                     ring, (const uint64_t *)input->transitions, n, words,
                     (const int64_t *)scratch);
}

extern "C" int hd_replay_push_priorities_cuda(const struct hd_replay_shape *shape,
                                              const void *memory,
                                              const struct hd_priorities_shape *priorities_shape,
                                              struct hd_priorities *priorities, void *stream)
{
    const struct hd_replay_header *header = hd_replay_ring_lay_out(shape, memory).header;
    return hd_priorities_push_cuda(priorities_shape, priorities, &header->lost, &header->added,
                                   stream);
}

/* -- Sampling ---------------------------------------------------------------------------------- */
/* A block fills a row, of which one thread finds the transition: the random stream may be in host
 * memory, where reads are slow. */

struct sampling {
    struct hd_replay_shape shape;
    struct hd_replay_ring ring;
    const struct hd_rng *rng;
    struct hd_transition_shape to_shape;
    struct hd_transitions to;
    float *weight;
    int64_t *used;
    struct hd_replay_draws by; /* priorities NULL: uniformly */
};

template <typename word> static __device__ void clear_words(char *to, int64_t bytes)
{
    const word zero = {};
    for (int i = (int)threadIdx.x; i < (int)(bytes / (int64_t)sizeof(word)); i += (int)blockDim.x)
        ((word *)to)[i] = zero;
}

/* Copies both observations of a row, or zeros if there is no transition. */
template <typename word>
static __device__ void copy_obs(const struct sampling *s, int64_t row,
                                const struct hd_transition *from)
{
    const int64_t stack = s->shape.stack, bytes = s->shape.frame_bytes;
    for (int64_t i = threadIdx.y; i < 2 * stack; i += blockDim.y) {
        const int64_t ahead = from && i >= stack ? from->ahead : 0, k = i < stack ? i : i - stack;
        char *to = (char *)(i < stack ? s->to.obs : s->to.next_obs);
        to += row * s->to_shape.obs_bytes + k * bytes;
        if (from)
            hd_copy_words<word>(hd_replay_find_frame(&s->shape, &s->ring, from->env,
                                                     from->frame + ahead, from->age + ahead, k),
                                to, bytes);
        else
            clear_words<word>(to, bytes);
    }
}

static __device__ void copy_numbers(const struct sampling *s, int64_t row,
                                    const struct hd_transition *from)
{
    const int64_t rows = s->to_shape.rows;
    for (int64_t j = 0; j < s->shape.nstep; j++)
        s->to.reward[j * rows + row] = from ? from->reward[j] : 0;
    s->to.done[row] = from ? from->done : 0;
    const union hd_action_number none = {0};
    for (int64_t d = 0; d < s->shape.dims; d++)
        s->to.action[row * s->shape.dims + d] =
            from ? hd_transition_get_action(from, s->shape.nstep)[d] : none;
    if (s->to_shape.has_value_gamma)
        s->to.value_gamma[row] = from ? from->value_gamma : 0;
    if (s->weight)
        s->weight[row] = from ? 1 : 0;
    if (row == 0 && s->used)
        *s->used = from ? rows : 0;
}

/* Returns the place of a transition that is drawn by priorities, and writes its number and
 * importance. */
static __device__ int64_t draw_by_priority(const struct sampling *s, int64_t row, double u)
{
    const struct hd_replay_draws *by = &s->by;
    const double beta = fmin(1.0, by->beta + (double)by->priorities->draws * by->anneal);
    const int64_t number = hd_priorities_find_share(&by->shape, by->priorities,
                                                    ((double)row + u) / (double)s->to_shape.rows);
    by->number[row] = number;
    by->importance[row] =
        by->weighs ? hd_priorities_weigh(&by->shape, by->priorities, number, beta) : 1.0f;
    return number % s->shape.capacity;
}

/* Returns the transition that the row's draw selects, or NULL if there is none. */
static __device__ const struct hd_transition *draw(const struct sampling *s, int64_t row)
{
    const struct hd_replay_header *header = s->ring.header;
    const int64_t size = header->added - header->lost;
    if (size <= 0) {
        if (s->by.priorities) {
            s->by.number[row] = -1;
            s->by.importance[row] = 0;
        }
        return NULL;
    }
    const double u = hd_rng_draw_uniform(s->rng, (uint32_t)row);
    const int64_t place =
        s->by.priorities
            ? draw_by_priority(s, row, u)
            : hd_replay_find_transition(&s->shape, header,
                                        hd_replay_get_stratum(row, u, s->to_shape.rows, size));
    return hd_transition_get(s->ring.transitions, s->shape.nstep, s->shape.dims, place);
}

static __global__ void count_draw(struct hd_priorities *priorities)
{
    HD_AWAIT_INPUTS();
    priorities->draws++;
}

template <typename word> static __global__ void sample_rows(const struct sampling s)
{
    HD_AWAIT_INPUTS();
    const int64_t row = blockIdx.x;
    __shared__ const struct hd_transition *from;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        from = draw(&s, row);
    __syncthreads();
    copy_obs<word>(&s, row, from);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        copy_numbers(&s, row, from);
}

extern "C" int hd_replay_sample_cuda(const struct hd_replay_shape *shape, const void *memory,
                                     const struct hd_rng *rng,
                                     const struct hd_transition_shape *to_shape,
                                     struct hd_transitions to, float *weight, int64_t *used,
                                     const struct hd_replay_draws *by, void *stream)
{
    struct sampling s = {*shape, hd_replay_ring_lay_out(shape, memory), rng, *to_shape, to, weight,
                         used};
    if (by)
        s.by = *by;
    const uint64_t bits = hd_cuda_get_bits(s.ring.frames) | hd_cuda_get_bits(to.obs) |
                          hd_cuda_get_bits(to.next_obs) |
                          (uint64_t)(shape->frame_bytes | to_shape->obs_bytes);
    if (to_shape->rows == 0)
        return HD_OK;
    HD_TRY(HD_LAUNCH_COPY(sample_rows, bits, shape->frame_bytes, 2 * shape->stack,
                          (unsigned)to_shape->rows, stream, s));
    return by ? HD_LAUNCH(count_draw, 1, 1, stream, by->priorities) : HD_OK;
}
