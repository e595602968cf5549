/* SPDX-License-Identifier: Apache-2.0 */
/* Called when a group is made. */
#include "kernels/envs/gymnasium/describe.h"

#include "kernels/envs/gymnasium/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Keeps what was found out about envs, for all groups of the same settings. */
struct known {
    struct known *next;
    struct hd_bridge_description description;
    char settings[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all_known;

static void name(const void *options, int64_t env, char *message)
{
    char why[HD_ENV_MESSAGE];
    (void)env;
    strcpy(why, message);
    hd_bridge_refuse(message, "%s: %.440s", ((const struct hd_bridge_options *)options)->env_id,
                     why);
}

enum { MOST = 1 << 30 };

static bool is_within(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

/* Multiplies *numbers_p by the sizes of an array. */
static bool is_shape(const int64_t *shape, int64_t dims, int64_t *numbers_p)
{
    bool right = is_within(dims, 1, HD_ENV_DIMS);
    for (int64_t i = 0; right && i < dims; i++) {
        right = is_within(shape[i], 1, MOST / *numbers_p);
        *numbers_p *= shape[i];
    }
    return right;
}

/* Whoever made the group compares the bytes of all parts with the frame's. */
static bool are_parts(const struct hd_bridge_description *d)
{
    bool right = is_within(d->n_parts, 0, HD_ENV_PARTS);
    for (int64_t i = 0; right && i < d->n_parts; i++) {
        const struct hd_bridge_part *part = &d->part[i];
        int64_t numbers = 1;
        right = is_within(part->element, HD_ENV_F32, HD_ENV_U8) && part->name[0] &&
                memchr(part->name, '\0', sizeof part->name) &&
                is_shape(part->shape, part->dims, &numbers);
    }
    return right;
}

/* A worker's description lies in memory that the native code of its env may have written over. */
static bool is_description(const struct hd_bridge_description *d)
{
    int64_t numbers = 1;
    bool right = is_within(d->element, HD_ENV_F32, HD_ENV_U8) &&
                 is_within(d->kind, HD_ENV_DISCRETE, HD_ENV_BOX) &&
                 is_shape(d->shape, d->dims, &numbers) && are_parts(d) &&
                 is_within(d->action_dims, 1, HD_ENV_ACTION_DIMS) && is_within(d->limit, 0, MOST) &&
                 is_within(d->height, 0, MOST) && is_within(d->width, 0, MOST) &&
                 is_within(d->agents, 0, MOST) && memchr(d->code, '\0', sizeof d->code);
    for (int64_t i = 0; right && d->kind != HD_ENV_BOX && i < d->action_dims; i++)
        right = is_within(d->n[i], 1, INT32_MAX);
    return right;
}

static int ask(const struct hd_bridge_options *options, struct hd_bridge_description *description_p,
               char *message)
{
    struct hd_bridge_options one = *options;
    struct hd_bridge_workers workers;
    const struct hd_bridge_user user = {name, options};
    one.workers = 1;
    one.pickle_bytes = 0;
    memset(&one.declaration, 0, sizeof one.declaration);
    int status = hd_bridge_workers_init(&one, &one.declaration, 1, 1, &workers, message);
    if (status == 0)
        status = hd_bridge_workers_start(&workers, &user, message);
    if (status == 0)
        memcpy(description_p, workers.worker[0].block, sizeof *description_p);
    hd_bridge_workers_release(&workers);
    if (status == 0 && !is_description(description_p))
        return hd_bridge_refuse(message, "%s: what its worker process says of it makes no sense",
                                options->env_id);
    return status;
}

static int learn(const struct hd_bridge_options *options, const char *settings,
                 struct hd_bridge_description *description_p, char *message)
{
    for (const struct known *k = all_known; k; k = k->next)
        if (strcmp(k->settings, settings) == 0) {
            *description_p = k->description;
            return 0;
        }
    if (ask(options, description_p, message) != 0)
        return -1;
    struct known *known = malloc(sizeof *known + strlen(settings) + 1);
    if (!known)
        return hd_bridge_refuse(message, "out of memory");
    known->description = *description_p;
    strcpy(known->settings, settings);
    known->next = all_known;
    all_known = known;
    return 0;
}

static int look_up(const struct hd_bridge_options *options,
                   struct hd_bridge_description *description_p, char *message)
{
    char *settings = hd_bridge_options_join(options);
    if (!settings)
        return hd_bridge_refuse(message, "out of memory");
    pthread_mutex_lock(&lock);
    const int status = learn(options, settings, description_p, message);
    pthread_mutex_unlock(&lock);
    free(settings);
    return status;
}

int hd_bridge_identify(const struct hd_bridge_options *options, char message[HD_ENV_MESSAGE])
{
    struct hd_bridge_description description;
    if (look_up(options, &description, message) != 0)
        return -1;
    strcpy(message, description.code);
    return 0;
}

int hd_bridge_describe(const struct hd_bridge_options *options,
                       struct hd_bridge_description *description_p, char message[HD_ENV_MESSAGE])
{
    *description_p = options->declaration;
    if (options->declared)
        return 0;
    const int status = look_up(options, description_p, message);
    if (status == 0 && description_p->limit == 0 && options->pickle_bytes == 0)
        return hd_bridge_refuse(message,
                                "%s: episodes have no limit, so their actions cannot be kept: set "
                                "env.options.max_episode_steps, or save: pickle",
                                options->env_id);
    return status;
}

struct hd_env_spec hd_bridge_make_spec(const struct hd_bridge_description *d)
{
    struct hd_env_spec spec = {
        .element = (enum hd_env_element)d->element,
        .dims = (int)d->dims,
        .actions = {.kind = (enum hd_env_actions_kind)d->kind, .dims = (int)d->action_dims},
        .render_height = d->height,
        .render_width = d->width,
        .agents = d->agents,
        .n_parts = (int)d->n_parts};
    for (int i = 0; i < spec.n_parts; i++) {
        const struct hd_bridge_part *from = &d->part[i];
        struct hd_env_part *to = &spec.part[i];
        to->element = (enum hd_env_element)from->element;
        to->dims = (int)from->dims;
        memcpy(to->shape, from->shape, sizeof to->shape);
        memcpy(to->name, from->name, sizeof to->name);
    }
    memcpy(spec.shape, d->shape, sizeof spec.shape);
    memcpy(spec.actions.n, d->n, sizeof spec.actions.n);
    memcpy(spec.actions.low, d->low, sizeof spec.actions.low);
    memcpy(spec.actions.high, d->high, sizeof spec.actions.high);
    return spec;
}
