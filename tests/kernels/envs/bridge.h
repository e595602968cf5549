/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the bridge to Gymnasium share: groups of its envs, through the plug-in. */
#pragma once

#include "kernels/envs/find/find.h"
#include "tests/kernels/common/check_close.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 6, OPTIONS = 8, FRAME_BYTES = 512 };

#define PYTHON "build/plugins/gymnasium"

static const struct hd_env *env;
static char message[HD_ENV_MESSAGE];

struct fixture {
    void *group;
    struct hd_env_spec spec;
    struct hd_env_outcome outcome;
    int64_t frame_bytes;
    float obs[SLOTS * FRAME_BYTES / 4], reward[SLOTS];
    bool done[SLOTS], truncated[SLOTS];
};

static int64_t siblings; /* groups of the same settings that are to come; 0: none are */

/* Options are "name=value", separated by ; and changed here. */
static inline int create(struct fixture *f, int64_t envs, const char *env_id, const char *options)
{
    char text[512];
    struct hd_env_option option[OPTIONS] = {{"python", PYTHON}, {"path", "tests/kernels/envs"}};
    int n = 2;
    char *rest = text;
    snprintf(text, sizeof text, "%s", options);
    for (char *word; (word = strsep(&rest, ";")) && *word; n++) {
        ck_assert_int_lt(n, OPTIONS);
        char *value = strchr(word, '=');
        *value = '\0';
        option[n] = (struct hd_env_option){word, value + 1};
    }
    const struct hd_env_settings settings = {
        .envs = envs, .env_id = env_id, .options = option, .n_options = n, .groups = siblings};
    *f = (struct fixture){.group = NULL};
    f->outcome = (struct hd_env_outcome){f->obs, f->reward, f->done, f->truncated};
    message[0] = '\0';
    const int status = env->create(&settings, &f->spec, &f->group, message);
    f->frame_bytes = status == 0 ? hd_env_get_frame_bytes(&f->spec) : 0;
    ck_assert_int_le(f->frame_bytes, FRAME_BYTES);
    return status;
}

static inline struct fixture *make(int64_t envs, const char *env_id, const char *options)
{
    struct fixture *f = test_alloc(1, sizeof *f);
    ck_assert_msg(create(f, envs, env_id, options) == 0, "%s", message);
    return f;
}

static inline void *get_obs(struct fixture *f, int64_t i)
{
    return (char *)f->obs + i * f->frame_bytes;
}

static inline void reset(struct fixture *f, int64_t i, uint64_t seed)
{
    ck_assert_msg(env->reset(f->group, i, seed, get_obs(f, i), message) == 0, "%s", message);
}

static inline void step(struct fixture *f, const void *action)
{
    ck_assert_msg(env->step(f->group, action, &f->outcome, message) == 0, "%s", message);
}

static inline uint8_t *save(struct fixture *f, int64_t i)
{
    uint8_t *state = test_alloc(env->state_bytes(f->group), 1);
    memset(state, 0xA5, (size_t)env->state_bytes(f->group));
    ck_assert_msg(env->save(f->group, i, state, message) == 0, "%s", message);
    return state;
}

/* Nothing may be left: the process that a test runs in has no children afterwards. */
static inline void check_no_children(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

/* Destroys a group while there are others. */
static inline void drop(struct fixture *f)
{
    env->destroy(f->group);
}

/* Releases the last group. */
static inline void release(struct fixture *f)
{
    drop(f);
    check_no_children();
}

static inline void check_refused(const char *env_id, const char *options, const char *names)
{
    struct fixture f;
    ck_assert_int_eq(create(&f, 1, env_id, options), -1);
    check_names(message, names);
    check_no_children();
}

static inline int32_t draw(uint64_t *state, int32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((*state >> 33) % (uint64_t)n);
}

static inline const char *find_missing_python(void)
{
    return access(PYTHON "/bin/python", X_OK) == 0
               ? NULL
               : "there is no Python with Gymnasium (scripts/gymnasium makes one)";
}

static inline void find_bridge(void)
{
    ck_assert_msg(hd_env_find("gymnasium", &env, message) == 0, "%s", message);
}

PREREQUISITE(find_missing_python)
FIXTURE(find_bridge, NULL)
