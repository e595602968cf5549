/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that groups of the Gymnasium bridge share with their worker processes;
 * heddle_gymnasium.py has the same structures. Each worker has a block of its own, so that a stray
 * write of an env's native code reaches no other worker's envs. A block is a header, the worker's
 * calls, controls, and arrays. A group alone has a control for each of its workers; groups that
 * share a worker have a control each.
 *
 * The plug-in keeps what the header says, and reads only controls and results from a block, of
 * which it believes no count or place. A worker keeps results to itself until a command is done,
 * so that what is written over the block in the meantime changes none.
 *
 * A control belongs to one side at a time. The plug-in writes a command, gives the turn to the
 * worker and counts a call; the worker takes the calls of its controls in turn, and gives each
 * control back when it is done. Both sleep on futexes: the worker on its calls, the plug-in on the
 * turn.
 *
 * Where the plug-in has said from which seed an env starts its next episode, the worker resets the
 * env in the very step that ends one: the other workers are not yet done then. */
#pragma once

#include "kernels/envs/env.h"

#include <stdatomic.h>

enum {
    HD_BRIDGE_TEXT = 464,
    HD_BRIDGE_CODE = 64,
    HD_BRIDGE_ALIGNMENT = 64,
    HD_BRIDGE_OURS = 0,          /* turn: the plug-in's */
    HD_BRIDGE_THEIRS = 1,        /* turn: the worker's */
    HD_BRIDGE_AWAITED = 1 << 30, /* a bit of a turn and of calls: somebody sleeps on it */
    HD_BRIDGE_DONE = 0x6865646c  /* of a control, when a worker has given it back */
};

/* Commands: a worker executes one in its turn. In its first turn it makes its envs. What is done to
 * an env is done to all agents of its parallel env. */
enum hd_bridge_command {
    HD_BRIDGE_CLOSE,
    HD_BRIDGE_RESET,  /* env, seed */
    HD_BRIDGE_STEP,   /* all envs of the worker, or `count` from env on */
    HD_BRIDGE_REPLAY, /* env, seed, and the first `count` actions of each agent's body */
    HD_BRIDGE_SAVE,   /* env, as a pickle to the body; sets `count` to the bytes */
    HD_BRIDGE_LOAD,   /* env, from the first `count` bytes of the body */
    HD_BRIDGE_RENDER  /* env, to its picture */
};

struct hd_bridge_part {
    int64_t element, dims, shape[HD_ENV_DIMS];
    char name[HD_ENV_PART_NAME];
};

/* Describes envs: a worker has asked them, or the run file declares it. */
struct hd_bridge_description {
    int64_t element, dims, shape[HD_ENV_DIMS];
    int64_t kind, action_dims, n[HD_ENV_ACTION_DIMS];
    float low[HD_ENV_ACTION_DIMS], high[HD_ENV_ACTION_DIMS];
    int64_t limit; /* most steps of an episode; 0: no limit */
    int64_t height, width;
    int64_t agents; /* of PettingZoo's parallel env, each an env of the group; 0: Gymnasium's env */
    int64_t n_parts; /* as in struct hd_env_spec */
    struct hd_bridge_part part[HD_ENV_PARTS];
    char code[HD_BRIDGE_CODE]; /* what Python runs, in words; "" where it was not asked */
};

/* Returns how many envs of a group are stepped as one. */
static inline int64_t hd_bridge_count_agents(const struct hd_bridge_description *description)
{
    return description->agents > 1 ? description->agents : 1;
}

struct hd_bridge_header {
    struct hd_bridge_description description;
    int64_t first, envs; /* of the worker */
    int64_t controls;    /* of the worker */
    int64_t frame_bytes, pickle_bytes;
    int64_t input_bytes, result_bytes; /* of a record */
    int64_t body_bytes;                /* of the actions of an episode, or of a pickle */
    /* Offsets in the block. */
    int64_t calls;   /* struct hd_bridge_calls */
    int64_t control; /* [controls] of struct hd_bridge_control */
    int64_t input;   /* [envs] of struct hd_bridge_input, written by the plug-in */
    int64_t result;  /* [envs] of struct hd_bridge_result, written by the worker */
    int64_t body;    /* [controls][agents][body_bytes] */
    int64_t picture; /* [controls][height][width][3] */
};

struct hd_bridge_input {
    int64_t announced; /* a number of the next episode, if its seed is known; 0: it is not */
    uint64_t next_seed;
    char action[]; /* [action_dims] of four bytes */
};

struct hd_bridge_result {
    int64_t started; /* the announced episode whose first observation is there */
    float reward;
    uint8_t done, truncated;
    /* The observation, and the first one of the next episode: [2][frame_bytes]; then, where groups
     * share the worker, the action that it took. */
    _Alignas(int64_t) char frames[];
};

/* Counts what a worker has to do and what it has done. */
struct hd_bridge_calls {
    _Alignas(HD_BRIDGE_ALIGNMENT) _Atomic uint32_t waiting; /* turns given, not taken */
    _Atomic uint32_t done;                                  /* turns given back, modulo 2^32 */
};

struct hd_bridge_control {
    _Alignas(HD_BRIDGE_ALIGNMENT) _Atomic uint32_t turn;
    int32_t command;
    int64_t env;
    uint64_t seed;
    int64_t count;
    int32_t failed; /* the worker's Python raised: `error` says what */
    int32_t at;     /* the env that the worker is at, or -1 */
    int64_t answer; /* HD_BRIDGE_DONE: the worker is done, and nothing was written over it */
    char error[HD_BRIDGE_TEXT];
};
