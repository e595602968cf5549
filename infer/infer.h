/* SPDX-License-Identifier: Apache-2.0 */
/* libheddle-infer: policies that Heddle trained, and its environments, for other programs. It
 * trains nothing, and needs neither StarPU, MPI nor CUDA.
 *
 * Errors. Functions that return int return HEDDLE_OK or a negative enum heddle_status. They then
 * write what is wrong to message[HEDDLE_MESSAGE], ended by 0: one line for each mistake, and
 * mistakes in a configuration with file:line:column; outputs are untouched or, after
 * HEDDLE_ERR_TASK, undefined. `message` may be NULL. No input ends the process.
 *
 * Threads. Any thread may call any function. A policy is read-only: any number of threads may use
 * it at a time, each computing on itself alone. An object of environments is for one thread at a
 * time. Nothing may use what another thread destroys. Calls leave the thread's floating-point mode
 * and OpenMP's number of threads as they were.
 *
 * Arrays belong to the caller, are row-major, and do not overlap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

enum {
    HEDDLE_MESSAGE = 4096,  /* bytes of a message, the final 0 included */
    HEDDLE_OBS_DIMS = 4,    /* most dimensions of an observation or of a part */
    HEDDLE_OBS_PARTS = 16,  /* most parts of an observation */
    HEDDLE_PART_NAME = 64,  /* bytes of a part's name, the final 0 included */
    HEDDLE_ACTION_DIMS = 64 /* most numbers of an action */
};

enum heddle_status {
    HEDDLE_OK = 0,
    HEDDLE_ERR_INPUT = -1,       /* an argument or a configuration */
    HEDDLE_ERR_NOMEM = -2,       /* no memory */
    HEDDLE_ERR_SYSTEM = -3,      /* a call of the operating system */
    HEDDLE_ERR_FORMAT = -4,      /* a file is malformed or damaged, or of another net */
    HEDDLE_ERR_UNSUPPORTED = -5, /* this machine or library cannot do it */
    HEDDLE_ERR_TASK = -6         /* an environment or a pass of the net failed */
};

/* Returns the version, "0.2.0". Static memory. */
HEDDLE_API const char *heddle_get_version(void);

/* -- Spaces ------------------------------------------------------------------------------------ */

enum heddle_element { HEDDLE_F32, HEDDLE_U8 };

enum heddle_actions_kind {
    HEDDLE_DISCRETE,       /* one choice: dims is 1 */
    HEDDLE_MULTI_DISCRETE, /* a choice in each dimension */
    HEDDLE_BOX             /* a real number in each dimension */
};

/* Observations: pictures of bytes, or floats; those of several parts are rows of bytes. */
struct heddle_obs {
    enum heddle_element element;
    int dims;                       /* 1 … HEDDLE_OBS_DIMS */
    int64_t shape[HEDDLE_OBS_DIMS]; /* of one observation */
};

/* A part of an observation. */
struct heddle_obs_part {
    char name[HEDDLE_PART_NAME];
    enum heddle_element element;
    int dims;
    int64_t shape[HEDDLE_OBS_DIMS];
    int64_t offset; /* bytes in a frame, a multiple of 4 */
};

/* The parts of an observation, which is `frames` frames of frame_bytes, oldest first. Each frame
 * has its share of a part's first dimension, row-major, at the part's offset. Other bytes are 0,
 * and observations begin at multiples of 4 bytes. */
struct heddle_obs_parts {
    int n; /* 0: the observation is one array */
    int64_t frames, frame_bytes;
    struct heddle_obs_part part[HEDDLE_OBS_PARTS];
};

/* Actions. Arrays of actions [rows][dims] are of int64_t for choices and of float in a box. */
struct heddle_actions {
    enum heddle_actions_kind kind;
    int dims;
    int64_t n[HEDDLE_ACTION_DIMS]; /* choices: number i is 0 … n[i] - 1 */
    float low[HEDDLE_ACTION_DIMS]; /* bounds of a box, infinite where there are none */
    float high[HEDDLE_ACTION_DIMS];
};

/* -- Policies ---------------------------------------------------------------------------------- */

struct heddle_policy;

struct heddle_policy_spec {
    struct heddle_obs obs;
    /* The numbers of a box have no bounds, but those that tanh maps to bounds (sac) have the ones
     * of the environment that the policy was trained in. */
    struct heddle_actions actions;
    /* The numbers of a row of outputs. They begin with a value or logit for each choice of each
     * dimension, or with the means and then the logarithms of the deviations of a box. An actor
     * with a critic has one more: the value of the observation. */
    int64_t outputs;
    /* The numbers that a recurrent policy keeps of each row from step to step; 0: it is none. */
    int64_t state_size;
    bool can_draw; /* the outputs are of a distribution; else they are values of actions (dqn) */
};

/* Loads a policy. `config` is a run directory, a file policy.safetensors, which describes its
 * policy, or a run file that it was trained with. `weights` is a file policy.safetensors, or NULL
 * for `config` itself if it is one, else for the best that the run directory names or has, else for
 * the last iteration that was saved. heddle_policy_destroy, which accepts NULL, releases it.
 * Errors: INPUT, NOMEM, SYSTEM, FORMAT, UNSUPPORTED (bf16 on a processor without). */
HEDDLE_API int heddle_policy_load(const char *config, const char *weights,
                                  struct heddle_policy **policy_p, char *message);
HEDDLE_API void heddle_policy_destroy(struct heddle_policy *policy);

HEDDLE_API void heddle_policy_describe(const struct heddle_policy *policy,
                                       struct heddle_policy_spec *spec_p);

/* Describes the parts of the policy's observations (policy.model.inputs). */
HEDDLE_API void heddle_policy_describe_parts(const struct heddle_policy *policy,
                                             struct heddle_obs_parts *parts_p);

/* Describes the policy's net, for programs that compute it by other means: writes JSON to
 * text[size] if it fits, and its bytes, the final 0 included, to *bytes_p. The text is an object:
 *   policy    what the file of weights says of its policy (heddle_policy, YAML)
 *   precision of products on CPUs: "f32" or "bf16"; of "tf32" they are f32
 *   norm      null, or {clip, scale, shift}: element j of an observation enters the net as
 *             min(max(x scale[j] + shift[j], -clip), clip), bytes as 0 ... 255; without it they are
 *             divided by 255
 *   inputs    [{part, shape, bytes, layers}]: the part of the observation (null: it is one array),
 *             whether it is of bytes, and its layers; the results of several are joined, in order
 *   layers    those behind the inputs
 *   streams   [{value, layers}]: read what `layers` yield, and end in the numbers of actions, or in
 *             one value
 *   dueling   outputs are A - mean A + V of the two streams
 *   value     outputs are those of the actions, then the value
 *   actions   how many numbers of the outputs actions come from
 *   squashed  the means of a box pass through tanh, which is scaled to the bounds
 *   bounds    null, or {low, high} of a box: those of the environment that the policy was trained
 *             in, each a list of numbers, null where there is none
 * and a layer is {type, module, fields, in, out, tensors, state, layers}: the names of docs/
 * configuration.md, "Nets as lists of layers", shapes, [{name, shape}], the place of its state in
 * that of the policy, and the layers inside of it. The layer log_std puts its tensor behind its
 * input. Errors: NOMEM. */
HEDDLE_API int heddle_policy_describe_net(const struct heddle_policy *policy, char *text,
                                          int64_t size, int64_t *bytes_p, char *message);

/* Copies a tensor of that description, row-major, to values[count]; count is its size. Errors:
 * INPUT, NOMEM, UNSUPPORTED. */
HEDDLE_API int heddle_policy_copy_tensor(const struct heddle_policy *policy, const char *name,
                                         int64_t count, float *values, char *message);

/* Rows are steps of episodes of their own, and a recurrent policy keeps their states from one call
 * to the next. A policy without a state (state_size 0) takes NULL, and ignores what is given. */
struct heddle_recurrent_state {
    float *values;      /* [rows][state_size], read, and replaced by those after the step */
    const bool *begins; /* [rows]: this is the first step of an episode, for which the values count
                           as zeros; NULL: of none */
};

/* Computes out[rows][outputs] of obs[rows][shape], whose elements are those of the spec. A policy
 * of pictures also takes floats: bytes divided by 255, within [0, 1]. The results are those of
 * `runner eval --obs`, bit by bit; of a recurrent policy, whose state this advances, those of one
 * row after the other. They depend on the row and its state alone, but in nets with convolutions
 * also on the number of rows. Errors: INPUT (also no state for a recurrent policy, and an
 * observation that is not finite), NOMEM, UNSUPPORTED, TASK (oneDNN failed, or an output is not
 * finite). */
HEDDLE_API int heddle_policy_forward(const struct heddle_policy *policy,
                                     enum heddle_element element, const void *obs, int64_t rows,
                                     const struct heddle_recurrent_state *state, float *out,
                                     char *message);

/* Choose action[rows][dims]: the likeliest ones, or those of the largest value; of a box the means,
 * which may lie beyond an environment's bounds. heddle_policy_draw draws them from the policy's
 * distribution instead, and the action of row i is a function of its outputs, `seed` and i; it
 * refuses a policy of values. States and errors as above. */
HEDDLE_API int heddle_policy_act(const struct heddle_policy *policy, enum heddle_element element,
                                 const void *obs, int64_t rows,
                                 const struct heddle_recurrent_state *state, void *action,
                                 char *message);
HEDDLE_API int heddle_policy_draw(const struct heddle_policy *policy, enum heddle_element element,
                                  const void *obs, int64_t rows,
                                  const struct heddle_recurrent_state *state, uint64_t seed,
                                  void *action, char *message);

/* -- Environments ------------------------------------------------------------------------------ */

struct heddle_option {
    const char *name, *value; /* as in the map env.options of a run file */
};

/* Texts need to live during the call only. */
struct heddle_envs_settings {
    const char *type;                    /* env.type: "cartpole", "pixel_pong", ... */
    const char *env_id;                  /* env.env_id, or NULL */
    const struct heddle_option *options; /* [n_options] */
    int n_options;
    int64_t envs;        /* >= 1 */
    int64_t frame_stack; /* frames of an observation, oldest first; 0 is 1 */
    bool training;       /* true: as in training, which for Atari means clipped rewards, and
                            episodes that end with a life */
    bool allow_plugins;  /* true: types that are not built in are plug-ins, whose code is loaded:
                            heddle_env_<type>.so in the folders of HEDDLE_PLUGINS, or a path */
};

struct heddle_envs;

struct heddle_envs_spec {
    int64_t envs;
    struct heddle_obs obs;
    struct heddle_actions actions;
    int64_t render_height, render_width; /* of pictures; 0: there are none */
};

/* Makes environments that step side by side. heddle_envs_destroy, which accepts NULL, releases
 * them. Errors: INPUT, NOMEM. */
HEDDLE_API int heddle_envs_create(const struct heddle_envs_settings *settings,
                                  struct heddle_envs **envs_p, char *message);
HEDDLE_API void heddle_envs_destroy(struct heddle_envs *envs);

/* Makes such environments as the run file of a policy describes. */
HEDDLE_API int heddle_policy_create_envs(const struct heddle_policy *policy, int64_t envs,
                                         bool training, bool allow_plugins,
                                         struct heddle_envs **envs_p, char *message);

HEDDLE_API void heddle_envs_describe(const struct heddle_envs *envs,
                                     struct heddle_envs_spec *spec_p);

/* Describes the parts of observations, of environments of a policy whose own have parts; else an
 * environment shows them as one array. */
HEDDLE_API void heddle_envs_describe_parts(const struct heddle_envs *envs,
                                           struct heddle_obs_parts *parts_p);

/* Returns the type, if it is built in; else NULL. Static memory. */
HEDDLE_API const char *heddle_envs_get_builtin_type(const struct heddle_envs *envs);

/* Starts an episode in each environment with mask[envs], or in all if mask is NULL, and writes the
 * observations of all to obs[envs][shape]; before the first reset they are zero. Environment i
 * starts from seed[i], as it does in a run; without seeds (NULL), which the first reset needs, from
 * a seed that follows from its last one and from the number of episodes since. Errors: INPUT, TASK.
 */
HEDDLE_API int heddle_envs_reset(struct heddle_envs *envs, const bool *mask, const uint64_t *seed,
                                 void *obs, char *message);

/* Steps every environment by action[envs][dims]. Episodes follow one another as with Gymnasium's
 * AutoresetMode.NEXT_STEP: the step that ends an episode shows its last observation, and sets
 * `terminated`, or `truncated` if only a time limit ended it; the next step ignores the action,
 * starts an episode as heddle_envs_reset without seeds does, shows its first observation, and gives
 * the reward 0. All arrays [envs] are written. Errors: INPUT (also before the first reset), TASK.
 */
HEDDLE_API int heddle_envs_step(struct heddle_envs *envs, const void *action, void *obs,
                                float *reward, bool *terminated, bool *truncated, char *message);

/* Ends episodes after `steps` steps as Gymnasium's TimeLimit does: `truncated` is set in that step,
 * also if the step is terminal. 0: episodes end only where the environments end them, which they do
 * at limits of their own in any case. Errors: INPUT. */
HEDDLE_API int heddle_envs_limit_steps(struct heddle_envs *envs, int64_t steps, char *message);

/* Writes to state[heddle_envs_get_state_bytes(envs)] what the environments' future depends on,
 * seeds, numbers of episodes and stacks of frames included; the same state has the same bytes.
 * Errors: TASK (an environment cannot save its state). */
HEDDLE_API int64_t heddle_envs_get_state_bytes(const struct heddle_envs *envs);
HEDDLE_API int heddle_envs_save(const struct heddle_envs *envs, void *state, char *message);

/* Reads state[bytes], which environments of the same settings saved, in this process or another:
 * they go on with the same bits. The limit of heddle_envs_limit_steps is none of the state. Errors:
 * FORMAT (other bytes); all environments then need a reset, unless the bytes are of another number
 * or kind of environments, which changes nothing. */
HEDDLE_API int heddle_envs_load(struct heddle_envs *envs, const void *state, int64_t bytes,
                                char *message);

/* Draws environment `env`, which was reset, to rgb[render_height][render_width][3]. Errors: INPUT,
 * UNSUPPORTED (it has no pictures), TASK. */
HEDDLE_API int heddle_envs_render(const struct heddle_envs *envs, int64_t env, uint8_t *rgb,
                                  char *message);

#ifdef __cplusplus
}
#endif
