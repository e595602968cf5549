/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/dataset.h"

#include "kernels/envs/find/find.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/obs.h"

#include <inttypes.h>
#include <string.h>

static const char PATH[] = "policy.collect.data_path";

/* An instance: the identity of the data set. */
struct identity {
    uint64_t hash;
    int64_t transitions;
};

/* -- Does it fit the run file? ----------------------------------------------------------------- */

static struct hd_source_location location_of(const struct hd_spec *spec,
                                             const struct hd_setup *setup)
{
    return hd_config_locate(setup->config, PATH, spec->location);
}

static int check_env(const struct hd_setup *setup, struct hd_source_location location,
                     const struct hd_dataset_info *info)
{
    const char *type = hd_config_get_text(setup->config, "env.type");
    const char *id = hd_config_get_text(setup->config, "env.env_id");
    const struct hd_env *env;
    char message[HD_ENV_MESSAGE] = "";
    if (hd_env_find(type, &env, message) != HD_OK)
        return hd_diag_add_error(setup->diag, location, "env.type: %s", message);
    if (strcmp(info->env_type, env->name) == 0 && strcmp(info->env_id, id) == 0)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, location,
        "%s: %s was recorded in env.type %s, env_id '%s', but the run file has "
        "env.type %s, env_id '%s'",
        PATH, hd_config_get_text(setup->config, PATH), info->env_type, info->env_id, env->name, id);
}

/* Options of evaluating environments alone may be others. */
static int check_options(const struct hd_setup *setup, struct hd_source_location location,
                         const struct hd_dataset_info *info)
{
    struct hd_env_settings settings = {.evaluator = false};
    char options[HD_DATASET_OPTIONS];
    int status = hd_env_options_read(setup->config, &settings);
    if (status == HD_OK)
        hd_env_options_format(&settings, options, sizeof options);
    hd_env_options_release(&settings);
    if (status != HD_OK || !info->states_options || strcmp(options, info->env_options) == 0)
        return status;
    return hd_diag_add_error(setup->diag, location,
                             "%s: %s was recorded with env.options {%s}, but the run file has "
                             "{%s}; what is for evaluation alone stands in env.options.evaluator",
                             PATH, hd_config_get_text(setup->config, PATH), info->env_options,
                             options);
}

static struct hd_env_actions read_actions(const struct hd_dataset_info *info)
{
    struct hd_env_actions actions = {.kind = info->continuous        ? HD_ENV_BOX
                                             : info->action_dims > 1 ? HD_ENV_MULTI_DISCRETE
                                                                     : HD_ENV_DISCRETE,
                                     .dims = info->action_dims};
    memcpy(actions.n, info->actions, sizeof actions.n);
    return actions;
}

/* The observations are those that an environment with such frames shows. */
static int check_obs(const struct hd_setup *setup, struct hd_source_location location,
                     const struct hd_dataset_info *info)
{
    struct hd_env_spec frame = {.element = info->u8 ? HD_ENV_U8 : HD_ENV_F32, .dims = info->dims};
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config),
                              wanted = hd_obs_shape_unstack(&obs);
    char expected[HD_OBS_TEXT], found[HD_OBS_TEXT];
    memcpy(frame.shape, info->shape, sizeof frame.shape);
    const struct hd_obs_shape recorded = hd_obs_shape_make(&frame, info->stack);
    if (info->parts[0])
        snprintf(found, sizeof found, "%s", info->parts);
    else
        hd_obs_shape_write(&recorded, found);
    const bool parts = hd_obs_has_parts(&obs);
    hd_obs_shape_write(parts ? &wanted : &obs, expected);
    if (parts == (info->parts[0] != 0) && info->u8 == obs.u8 && strcmp(found, expected) == 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, location,
                             "%s: observations of %s are %s %s, but policy.model.obs_shape means "
                             "%s %s",
                             PATH, hd_config_get_text(setup->config, PATH), found,
                             info->u8 ? "pixels" : "floats", expected,
                             obs.u8 ? "pixels" : "floats");
}

static int check_shapes(const struct hd_setup *setup, struct hd_source_location location,
                        const struct hd_dataset_info *info)
{
    const char *path = hd_config_get_text(setup->config, PATH);
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    const struct hd_env_actions actions = hd_actions_read(setup->config),
                                recorded = read_actions(info);
    char expected[HD_ACTIONS_TEXT], found[HD_ACTIONS_TEXT];
    if (info->stack != obs.stack)
        return hd_diag_add_error(setup->diag, location,
                                 "%s: observations of %s are %" PRId64
                                 " frames, but env.frame_stack is %" PRId64,
                                 PATH, path, info->stack, obs.stack);
    HD_TRY(check_obs(setup, location, info));
    if (!hd_actions_are_equal(&recorded, &actions))
        return hd_diag_add_error(
            setup->diag, location,
            "%s: %s has %s, but policy.model.action_shape and policy.action_space mean %s", PATH,
            path, hd_actions_describe(&recorded, expected), hd_actions_describe(&actions, found));
    return hd_actions_check_policy(setup, location);
}

/* -- The value --------------------------------------------------------------------------------- */

static int dataset_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const char *path = hd_config_get_text(setup->config, PATH);
    const struct hd_source_location location = location_of(spec, setup);
    struct hd_dataset *dataset;
    if (*path == '\0')
        return hd_diag_add_error(setup->diag, location,
                                 "%s: no data set is given; `runner record` writes one", PATH);
    if (spec->placement != HD_GLOBAL)
        return hd_diag_add_error(
            setup->diag, spec->location,
            "'%s' is read by all shards: it is global, without per: or placement:", spec->name);
    int status = hd_dataset_open(path, &dataset);
    if (status == HD_ERR_NOMEM)
        return status;
    if (status != HD_OK)
        return hd_diag_add_error(setup->diag, location,
                                 "%s: %s cannot be used (runner record makes a data set)", PATH,
                                 path);
    spec->shape = dataset;
    spec->bytes = sizeof(struct identity);
    HD_TRY(check_env(setup, location, hd_dataset_get_info(dataset)));
    HD_TRY(check_options(setup, location, hd_dataset_get_info(dataset)));
    return check_shapes(setup, location, hd_dataset_get_info(dataset));
}

static void dataset_release(struct hd_spec *spec)
{
    hd_dataset_close(spec->shape);
}

const struct hd_dataset *hd_spec_get_dataset(const struct hd_spec *spec)
{
    return spec->shape;
}

static struct identity identity_of(const struct hd_spec *spec)
{
    const struct hd_dataset *dataset = hd_spec_get_dataset(spec);
    return (struct identity){hd_dataset_get_hash(dataset),
                             hd_dataset_get_info(dataset)->transitions};
}

static int dataset_identify(const struct hd_spec *spec, char text[HD_IDENTITY_TEXT])
{
    const struct identity identity = identity_of(spec);
    snprintf(text, HD_IDENTITY_TEXT, "%016" PRIx64 ", %" PRId64 " transitions", identity.hash,
             identity.transitions);
    return HD_OK;
}

static int dataset_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                        void *data)
{
    (void)setup, (void)shard;
    *(struct identity *)data = identity_of(spec);
    return HD_OK;
}

static int dataset_load(const struct hd_spec *spec, void *data, FILE *file)
{
    const struct identity here = identity_of(spec);
    struct identity there;
    HD_TRY(hd_value_read(spec, &there, sizeof there, file));
    if (there.transitions != here.transitions) /* whether it may be another one, the run asks */
        return hd_fail(HD_ERR_FORMAT,
                       "value '%s' cannot be loaded: it was a data set of %" PRId64
                       " transitions; this one has %" PRId64,
                       spec->name, there.transitions, here.transitions);
    *(struct identity *)data = here;
    return HD_OK;
}

const struct hd_type hd_type_dataset = {
    .name = "dataset",
    .given = true,
    .resolve = dataset_resolve,
    .release = dataset_release,
    .init = dataset_init,
    .load = dataset_load,
    .check = hd_value_accept,
    .identify = dataset_identify,
};
