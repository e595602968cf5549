/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Environments: the interface that built-in ones and plug-ins share. This file needs nothing else
 * of the project, so that a plug-in can be built with a copy of it; kernels/envs/example/corridor.c
 * shows how.
 *
 * Envs come in groups that step together. All arrays run over the group's envs first and belong to
 * the caller. What one env shows at a time is a frame: 84 x 84 bytes of gray, or a few numbers.
 * Some envs show several such arrays, the parts of a frame. Frames are stacked and stored by the
 * caller. An action is one number or several, as the env's
 * action space says.
 *
 * Rules that training depends on:
 * - Nothing resets by itself. A step that ends an episode shows its final frame; the caller resets
 *   that env, with a new seed, before it steps the group again.
 * - What follows is a function of the state and the actions: the same seed gives the same start, no
 *   clock is read and no draw is taken from anything but the env's own state. One env of a group
 *   never touches another, unless they are agents of one parallel env (hd_env_spec.agents).
 * - `save` writes everything that the env's future depends on, so that a group of the same settings
 *   goes on equally after `load`, in this process or in another. It writes every byte, also those
 *   of padding, and always the same bytes for the same state: runs are compared by their hashes.
 *
 * Functions return 0, or -1 with one sentence in `message` (ended by 0, no newline) that says what
 * went wrong; the env's name is put before it. They may be called from any thread, but not at the
 * same time for one group; groups share nothing that changes. No C++ exception, signal handler or
 * exit may leave them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HD_ENV_ABI = 5,          /* version of this file's structures */
    HD_ENV_DIMS = 4,         /* most dimensions of a frame or of a part */
    HD_ENV_PARTS = 16,       /* most parts of a frame */
    HD_ENV_PART_NAME = 64,   /* bytes of a part's name, the final 0 included */
    HD_ENV_ACTION_DIMS = 64, /* most numbers of an action */
    HD_ENV_MESSAGE = 512     /* bytes of a message, the final 0 included */
};

enum hd_env_element { HD_ENV_F32, HD_ENV_U8 };

enum hd_env_actions_kind {
    HD_ENV_DISCRETE,       /* one choice: dims is 1 */
    HD_ENV_MULTI_DISCRETE, /* a choice in each dimension */
    HD_ENV_BOX             /* a real number in each dimension */
};

/* The actions that an env takes. Each number of an action has four bytes: an int32_t if actions are
 * choices, a float in a box. */
struct hd_env_actions {
    enum hd_env_actions_kind kind;
    int dims;                      /* numbers of an action, 1 … HD_ENV_ACTION_DIMS */
    int64_t n[HD_ENV_ACTION_DIMS]; /* choices: number i is 0 … n[i] - 1 */
    float low[HD_ENV_ACTION_DIMS]; /* bounds of a box, may be infinite */
    float high[HD_ENV_ACTION_DIMS];
};

/* A value of the run file's map env.options: a scalar as it is written there, a list or a map as
 * JSON. */
struct hd_env_option {
    const char *name, *value;
};

/* The arguments of `create`; valid during the call only. */
struct hd_env_settings {
    int64_t envs;       /* >= 1 */
    bool evaluator;     /* true: these envs evaluate a policy: rewards unclipped, whole episodes */
    const char *env_id; /* env.env_id of the run file, "" when there is none */
    const struct hd_env_option *options; /* [n_options]; refuse options that you do not know */
    int n_options;
    int64_t groups; /* of these settings, which the caller makes and steps independently: they may
                       share what they stand on; 0 or 1: this one */
    bool parts;     /* what consists of several arrays is shown as parts; else as one array */
};

/* A part of a frame. */
struct hd_env_part {
    char name[HD_ENV_PART_NAME];
    enum hd_env_element element;
    int dims;
    int64_t shape[HD_ENV_DIMS];
};

/* The result of `create`. */
struct hd_env_spec {
    enum hd_env_element element;
    int dims;                   /* 1 … HD_ENV_DIMS */
    int64_t shape[HD_ENV_DIMS]; /* of one frame, plain row-major layout */
    struct hd_env_actions actions;
    int64_t render_height, render_width; /* of what `render` draws; 0: nothing */

    /* 0: a frame is one array, as above. Else what stands above is an array of all its bytes, in
     * which these parts follow one another: each begins at a multiple of 4 bytes, and so does what
     * follows the last one. Bytes between them are 0. */
    int n_parts;
    struct hd_env_part part[HD_ENV_PARTS];

    /* 0 or 1: each env is on its own. Else env i of a group is agent i mod `agents` of parallel env
     * i / agents, and a group has whole parallel envs, unless it is made for its description alone.
     * All agents of a parallel env end in the same step. The caller then resets each of them, and
     * whoever loads one loads all. The first reset after a step starts the parallel env from its
     * seed; those of the other agents take their observations from that start. */
    int64_t agents;
};

/* The results of a step for each env. */
struct hd_env_outcome {
    void *obs;       /* [envs][frame], after the step */
    float *reward;   /* [envs] */
    bool *done;      /* [envs]: the episode ended, whatever the reason */
    bool *truncated; /* [envs]: done by a time limit alone, not by a terminal state */
};

struct hd_env_gpu;

struct hd_env {
    uint32_t abi; /* HD_ENV_ABI, and first in every version */
    const char *name;

    /* Makes a group and describes its envs. A group of one env is also made, and destroyed again,
     * just for the description. Each env must be reset before the first step. */
    int (*create)(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE]);
    void (*destroy)(void *group);

    /* Starts an episode of env `env` and writes its first observation to obs[frame], a function of
     * `seed`, and of the env's state if an episode may end before the game does (at the loss of a
     * life). */
    int (*reset)(void *group, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE]);

    /* Steps every env by action[envs][dims], of int32_t or float as the action space says. An env
     * of a box clips what lies outside or takes it as it is; no number is NaN. All arrays of the
     * outcome are written. */
    int (*step)(void *group, const void *action, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE]);

    /* Returns the bytes of one env's saved state: the same number for all envs and the whole life
     * of the group. Saving and loading also work on an env that was never reset; bytes that cannot
     * be a saved state are refused. */
    int64_t (*state_bytes)(const void *group);
    int (*save)(const void *group, int64_t env, void *state, char message[HD_ENV_MESSAGE]);
    int (*load)(void *group, int64_t env, const void *state, char message[HD_ENV_MESSAGE]);

    /* NULL, or draws what an env that was reset shows now, for people to look at: writes
     * rgb[render_height][render_width][3], where these are not 0, and changes nothing else. Envs
     * whose frames are pictures need none. */
    int (*render)(const void *group, int64_t env, uint8_t *rgb, char message[HD_ENV_MESSAGE]);

    /* NULL, or is told after a reset from which seed the env will be reset next, so that a group
     * may prepare for it. A reset from another seed, or a state that is loaded, takes that back. */
    void (*announce)(void *group, int64_t env, uint64_t seed);

    /* NULL, or what steps such envs on a GPU (kernels/envs/env_gpu.h). */
    const struct hd_env_gpu *gpu;

    /* NULL, or writes to `message`, in a few words, of which code and data (a ROM) the env consists
     * that are not in the plug-in's file: ranks of a run must have the same, and a run that goes
     * on. Returns -1 with a sentence on error. */
    int (*identify)(const struct hd_env_settings *settings, char message[HD_ENV_MESSAGE]);

    /* NULL, or together what `step` does, for envs that step elsewhere, in other processes: the
     * first starts it and returns at once. Then await_step waits up to `seconds`, 0: not at all,
     * and returns whether end_step need not wait: the step is over, or has failed, which end_step
     * tells. Before end_step nothing else but `destroy` is called. */
    int (*begin_step)(void *group, const void *action, char message[HD_ENV_MESSAGE]);
    bool (*await_step)(void *group, double seconds);
    int (*end_step)(void *group, const struct hd_env_outcome *outcome,
                    char message[HD_ENV_MESSAGE]);
};

/* A plug-in is a shared object heddle_env_<type>.so that exports this function. The structure that
 * it returns lives as long as the process. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct hd_env *
hd_env_plugin(void);

#ifdef __cplusplus
}
#endif
