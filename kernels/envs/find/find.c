/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/find/find.h"

#include "kernels/envs/classic/classic.h"
#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/hash.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct hd_env *const builtin[] = {
    &hd_env_cartpole, &hd_env_acrobot,    &hd_env_mountain_car, &hd_env_mountain_car_continuous,
    &hd_env_pendulum, &hd_env_pixel_pong,
};
enum { N_BUILTIN = sizeof builtin / sizeof builtin[0] };

__attribute__((format(printf, 2, 3))) static int refuse(char message[HD_ENV_MESSAGE],
                                                        const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message, HD_ENV_MESSAGE, format, list);
    va_end(list);
    return HD_ERR_INPUT;
}

static bool is_complete(const struct hd_env *env)
{
    return env->name && env->create && env->destroy && env->reset && env->step &&
           env->state_bytes && env->save && env->load;
}

static int open_plugin(const char *path, const struct hd_env **env_p, char message[HD_ENV_MESSAGE])
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return refuse(message, "environment plug-in %s cannot be loaded: %s", path, dlerror());
    const struct hd_env *(*get)(void);
    *(void **)&get = dlsym(library, "hd_env_plugin");
    if (!get) {
        dlclose(library);
        return refuse(message, "%s is not an environment plug-in: it exports no hd_env_plugin",
                      path);
    }
    const struct hd_env *env = get();
    if (!env)
        return refuse(message, "environment plug-in %s: hd_env_plugin returned nothing", path);
    if (env->abi != HD_ENV_ABI)
        return refuse(
            message,
            "environment plug-in %s has version %u of the interface, but this program "
            "needs %d: build it with this program's kernels/envs/env.h (docs/howto/env.md "
            "shows how, and what is new in version %d)",
            path, env->abi, HD_ENV_ABI, HD_ENV_ABI);
    if (!is_complete(env))
        return refuse(message, "environment plug-in %s lacks a name or a function of struct hd_env",
                      path);
    *env_p = env;
    return HD_OK;
}

void hd_env_list_builtin(char *list, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < N_BUILTIN && used < bytes; i++)
        used +=
            (size_t)snprintf(list + used, bytes - used, "%s%s", i ? ", " : "", builtin[i]->name);
}

/* Returns whether a name ends in a version, as those of Gymnasium do: CartPole-v1. */
static bool is_gymnasium_id(const char *type)
{
    const char *dash = strrchr(type, '-');
    if (!dash || dash[1] != 'v' || !dash[2])
        return false;
    return strspn(dash + 2, "0123456789") == strlen(dash + 2);
}

static int refuse_unknown(const char *type, const char *file, char message[HD_ENV_MESSAGE])
{
    const char *names[N_BUILTIN];
    char known[128], folders[3 * PATH_MAX];
    hd_plugin_list_folders(folders, sizeof folders);
    hd_env_list_builtin(known, sizeof known);
    for (int i = 0; i < N_BUILTIN; i++)
        names[i] = builtin[i]->name;
    const char *nearest = hd_find_nearest_name(type, names, N_BUILTIN);
    if (strcmp(type, "atari") == 0)
        return refuse(
            message,
            "environment 'atari' is a plug-in that scripts/atari builds; there is no %s in "
            "%s ($HEDDLE_PLUGINS adds folders)",
            file, folders);
    if (is_gymnasium_id(type))
        return refuse(message,
                      "no environment '%.60s': one of Gymnasium is env.type: gymnasium with "
                      "env.env_id: %.60s (scripts/gymnasium makes its Python)",
                      type, type);
    if (nearest)
        return refuse(message, "no environment '%.60s' (did you mean '%s'?): no %.80s in %s", type,
                      nearest, file, folders);
    return refuse(message,
                  "no environment '%.60s': it is not built in (%s), and there is no %.80s in %s "
                  "($HEDDLE_PLUGINS adds folders)",
                  type, known, file, folders);
}

const struct hd_env *hd_env_find_builtin(const char *type)
{
    for (int i = 0; i < N_BUILTIN; i++)
        if (strcmp(builtin[i]->name, type) == 0)
            return builtin[i];
    return NULL;
}

int hd_env_find(const char *type, const struct hd_env **env_p, char message[HD_ENV_MESSAGE])
{
    const struct hd_env *found = hd_env_find_builtin(type);
    if (found) {
        *env_p = found;
        return HD_OK;
    }
    if (strchr(type, '/'))
        return open_plugin(type, env_p, message);
    char file[NAME_MAX], path[PATH_MAX];
    snprintf(file, sizeof file, "heddle_env_%s.so", type);
    if (!type[0] || !hd_plugin_find(file, path, sizeof path))
        return refuse_unknown(type, file, message);
    return open_plugin(path, env_p, message);
}

/* Returns the file of a plug-in, NULL for a built-in environment. */
static const char *find_file(const struct hd_env *env)
{
    Dl_info ours, its;
    if (dladdr(builtin[0], &ours) == 0 || dladdr(env, &its) == 0 || ours.dli_fbase == its.dli_fbase)
        return NULL;
    return its.dli_fname;
}

void hd_env_describe(const struct hd_env *env, char text_p[HD_ENV_MESSAGE])
{
    const char *file = find_file(env);
    const int used = snprintf(text_p, HD_ENV_MESSAGE, "environment %.64s", env->name);
    if (file)
        snprintf(text_p + used, (size_t)(HD_ENV_MESSAGE - used), " (plug-in %s)", file);
}

bool hd_env_hash_code(const struct hd_env *env, uint64_t *hash_p)
{
    const char *path = find_file(env);
    return path && hd_hash_file(path, hash_p);
}

int64_t hd_env_count_agents(const struct hd_env_spec *spec)
{
    return spec->agents > 1 ? spec->agents : 1;
}

int hd_env_count_parts(const struct hd_env_spec *spec)
{
    return spec->n_parts > 0 ? spec->n_parts : 1;
}

struct hd_env_part hd_env_get_part(const struct hd_env_spec *spec, int i)
{
    struct hd_env_part part = {.element = spec->element, .dims = spec->dims};
    memcpy(part.shape, spec->shape, sizeof part.shape);
    return spec->n_parts > 0 ? spec->part[i] : part;
}

int64_t hd_env_get_part_bytes(const struct hd_env_part *part)
{
    int64_t bytes = part->element == HD_ENV_F32 ? (int64_t)sizeof(float) : 1;
    for (int i = 0; i < part->dims; i++)
        bytes *= part->shape[i];
    return bytes;
}

int64_t hd_env_get_frame_bytes(const struct hd_env_spec *spec)
{
    struct hd_env_part frame = {.element = spec->element, .dims = spec->dims};
    memcpy(frame.shape, spec->shape, sizeof frame.shape);
    return hd_env_get_part_bytes(&frame);
}

int hd_env_get_obs_shape(const struct hd_env_part *part, int64_t stack, int64_t obs[HD_ENV_DIMS])
{
    const int more = part->dims == 2;
    obs[0] = stack;
    memcpy(obs + more, part->shape, (size_t)part->dims * sizeof *obs);
    if (!more)
        obs[0] *= stack;
    return more + part->dims;
}
