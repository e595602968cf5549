/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char known[] =
    "worker, python, path, kwargs, wrappers, max_episode_steps, timeout_s, render, save, "
    "pickle_bytes, seed_bits, obs_shape, actions, box, low, high, agents and black_death";

int hd_bridge_refuse(char message[HD_ENV_MESSAGE], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message, HD_ENV_MESSAGE, format, list);
    va_end(list);
    return -1;
}

static int read_number(const struct hd_env_option *option, double low, double high, double *value_p,
                       char *message)
{
    char *end;
    const double value = strtod(option->value, &end);
    if (end == option->value || *end || !(value >= low && value <= high))
        return hd_bridge_refuse(message,
                                "env.options.%s must be a number from %g to %g, not '%.40s'",
                                option->name, low, high, option->value);
    *value_p = value;
    return 0;
}

static int read_count(const struct hd_env_option *option, int64_t high, int64_t *value_p,
                      char *message)
{
    double value = 0;
    if (read_number(option, 1, (double)high, &value, message) != 0)
        return -1;
    if (value != floor(value))
        return hd_bridge_refuse(message, "env.options.%s must be a whole number, not %.40s",
                                option->name, option->value);
    *value_p = (int64_t)value;
    return 0;
}

/* Reads "8" or "[3, 84, 84]". */
static int read_counts(const struct hd_env_option *option, int most, int64_t *counts, int64_t *n_p,
                       char *message)
{
    const char *at = option->value + (option->value[0] == '[');
    int n = 0;
    for (char *end; n < most && *at && *at != ']'; n++, at = end + strspn(end, ", ")) {
        counts[n] = strtoll(at, &end, 10);
        if (end == at || counts[n] < 1)
            break;
    }
    if (n == 0 || strcmp(at, option->value[0] == '[' ? "]" : "") != 0)
        return hd_bridge_refuse(
            message,
            "env.options.%s must be a number or a list of up to %d positive numbers, not '%.60s'",
            option->name, most, option->value);
    *n_p = n;
    return 0;
}

/* -- Declared spaces --------------------------------------------------------------------------- */

static int declare_obs(const struct hd_env_option *option, struct hd_bridge_options *options,
                       char *message)
{
    struct hd_bridge_description *spaces = &options->declaration;
    options->declared = true;
    if (read_counts(option, HD_ENV_DIMS, spaces->shape, &spaces->dims, message) != 0)
        return -1;
    spaces->element = spaces->dims == 1 ? HD_ENV_F32 : HD_ENV_U8;
    return 0;
}

static int declare_actions(const struct hd_env_option *option, struct hd_bridge_options *options,
                           char *message)
{
    struct hd_bridge_description *spaces = &options->declaration;
    spaces->kind = option->value[0] == '[' ? HD_ENV_MULTI_DISCRETE : HD_ENV_DISCRETE;
    return read_counts(option, HD_ENV_ACTION_DIMS, spaces->n, &spaces->action_dims, message);
}

static int declare_box(const struct hd_env_option *option, struct hd_bridge_options *options,
                       char *message)
{
    struct hd_bridge_description *spaces = &options->declaration;
    spaces->kind = HD_ENV_BOX;
    return read_count(option, HD_ENV_ACTION_DIMS, &spaces->action_dims, message);
}

/* Reads "2" or "[-1, .inf]", the bounds of a declared box on one side. A number is for all. */
static int declare_bounds(const struct hd_env_option *option, float *bounds, int *n_p,
                          char *message)
{
    const bool list = option->value[0] == '[';
    const char *at = option->value + list;
    int n = 0;
    for (char *end; n < HD_ENV_ACTION_DIMS && *at && *at != ']'; n++) {
        at += strspn(at, " \"");
        const bool negative = *at == '-';
        if (strncmp(at + negative, ".inf", 4) == 0) {
            bounds[n] = negative ? -INFINITY : INFINITY;
            end = (char *)at + negative + 4;
        } else {
            bounds[n] = strtof(at, &end);
        }
        if (end == at)
            break;
        at = end + strspn(end, "\", ");
    }
    if (n == 0 || strcmp(at, list ? "]" : "") != 0)
        return hd_bridge_refuse(message,
                                "env.options.%s must be a number or a list of numbers, not '%.60s'",
                                option->name, option->value);
    *n_p = list ? n : 0;
    for (int i = list ? n : 1; i < HD_ENV_ACTION_DIMS; i++)
        bounds[i] = bounds[0];
    return 0;
}

static int check_bounds(const struct hd_bridge_options *options, char *message)
{
    const int64_t dims = options->declaration.action_dims;
    const bool both = options->declares_low && options->declares_high;
    if (options->declaration.kind != HD_ENV_BOX || dims == 0)
        return options->declares_low || options->declares_high
                   ? hd_bridge_refuse(message, "env.options.low and high need `box`")
                   : 0;
    if (!both)
        return hd_bridge_refuse(message, "env.options.box needs the bounds of the actions, low and "
                                         "high: a number or a list, .inf where there is none");
    if ((options->n_low && options->n_low != dims) || (options->n_high && options->n_high != dims))
        return hd_bridge_refuse(message, "env.options.low and high need a number or a list of %lld",
                                (long long)dims);
    return 0;
}

static int check_declaration(const struct hd_bridge_options *options, char *message)
{
    const struct hd_bridge_description *spaces = &options->declaration;
    if (options->declared != (spaces->action_dims > 0))
        return hd_bridge_refuse(message,
                                "env.options.obs_shape needs `actions` or `box`, and these "
                                "need obs_shape");
    if (options->declared && spaces->limit == 0 && options->pickle_bytes == 0)
        return hd_bridge_refuse(message, "env.options.obs_shape needs max_episode_steps as well, "
                                         "or save: pickle");
    return check_bounds(options, message);
}

/* -- All options ------------------------------------------------------------------------------- */

static int read_python(const struct hd_env_option *option, struct hd_bridge_options *options,
                       char *message)
{
    if (!option->value[0] || strlen(option->value) + sizeof "/bin/python" > PATH_MAX)
        return hd_bridge_refuse(message, "env.options.python must be a path");
    strcpy(options->python, option->value);
    return 0;
}

static int read_save(const struct hd_env_option *option, struct hd_bridge_options *options,
                     char *message)
{
    const bool pickles = strcmp(option->value, "pickle") == 0;
    if (!pickles && strcmp(option->value, "actions") != 0)
        return hd_bridge_refuse(message, "env.options.save must be actions or pickle, not '%.40s'",
                                option->value);
    if (!pickles)
        options->pickle_bytes = 0;
    else if (options->pickle_bytes == 0)
        options->pickle_bytes = INT64_C(1) << 16;
    return 0;
}

static int read_option(const struct hd_env_option *option, struct hd_bridge_options *options,
                       char *message)
{
    const char *name = option->name;
    int64_t unused; /* Python's */
    if (strcmp(name, "worker") == 0)
        return read_count(option, 1024, &options->workers, message);
    if (strcmp(name, "timeout_s") == 0)
        return read_number(option, 0.1, 1e6, &options->timeout_s, message);
    if (strcmp(name, "python") == 0)
        return read_python(option, options, message);
    if (strcmp(name, "save") == 0)
        return read_save(option, options, message);
    if (strcmp(name, "pickle_bytes") == 0)
        return read_count(option, INT64_C(1) << 30, &options->pickle_bytes, message);
    if (strcmp(name, "seed_bits") == 0)
        return read_count(option, 64, &unused, message);
    if (strcmp(name, "max_episode_steps") == 0)
        return read_count(option, INT64_C(1) << 24, &options->declaration.limit, message);
    if (strcmp(name, "obs_shape") == 0)
        return declare_obs(option, options, message);
    if (strcmp(name, "actions") == 0)
        return declare_actions(option, options, message);
    if (strcmp(name, "box") == 0)
        return declare_box(option, options, message);
    if (strcmp(name, "low") == 0) {
        options->declares_low = true;
        return declare_bounds(option, options->declaration.low, &options->n_low, message);
    }
    if (strcmp(name, "high") == 0) {
        options->declares_high = true;
        return declare_bounds(option, options->declaration.high, &options->n_high, message);
    }
    if (strcmp(name, "agents") == 0)
        return read_count(option, 4096, &options->declaration.agents, message);
    if (strcmp(name, "black_death") == 0 || strcmp(name, "path") == 0 ||
        strcmp(name, "wrappers") == 0 || strcmp(name, "render") == 0 ||
        strcmp(name, "kwargs") == 0 || strncmp(name, "kwargs.", strlen("kwargs.")) == 0)
        return 0;
    return hd_bridge_refuse(message, "env.options.%.60s is unknown to gymnasium, which has %s",
                            name, known);
}

static int keep_argument(const struct hd_env_option *option, struct hd_bridge_options *options,
                         char *message)
{
    if (asprintf(&options->argument[options->n_arguments], "%s=%s", option->name, option->value) <
        0) {
        options->argument[options->n_arguments] = NULL;
        return hd_bridge_refuse(message, "out of memory");
    }
    options->n_arguments++;
    return 0;
}

/* The drawing of a declared env has a size that only Python knows. */
static bool draws(const struct hd_env_option *option)
{
    return strcmp(option->name, "render") == 0 && strcmp(option->value, "false") != 0;
}

int hd_bridge_options_read(const struct hd_env_settings *settings,
                           struct hd_bridge_options *options_p, char message[HD_ENV_MESSAGE])
{
    bool drawn = false;
    *options_p = (struct hd_bridge_options){.workers = 1, .timeout_s = 60};
    if (!settings->env_id[0] || strlen(settings->env_id) >= sizeof options_p->env_id)
        return hd_bridge_refuse(message, "env.env_id must name an environment of Gymnasium, such "
                                         "as CartPole-v1 or my_module:MyEnv-v0");
    strcpy(options_p->env_id, settings->env_id);
    options_p->argument = calloc((size_t)settings->n_options + 2, sizeof *options_p->argument);
    if (!options_p->argument)
        return hd_bridge_refuse(message, "out of memory");
    for (int i = 0; i < settings->n_options; i++) {
        if (read_option(&settings->options[i], options_p, message) != 0 ||
            keep_argument(&settings->options[i], options_p, message) != 0)
            return -1;
        drawn |= draws(&settings->options[i]);
    }
    if (settings->parts &&
        keep_argument(&(struct hd_env_option){"parts", "true"}, options_p, message) != 0)
        return -1;
    if (check_declaration(options_p, message) != 0)
        return -1;
    if (settings->parts && options_p->declared)
        return hd_bridge_refuse(message, "env.options.obs_shape declares one array, but "
                                         "policy.model.inputs reads parts: leave it out, with "
                                         "actions and box");
    options_p->declared &= !drawn;
    return 0;
}

char *hd_bridge_options_join(const struct hd_bridge_options *options)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return NULL;
    fputs(options->env_id, file);
    for (int i = 0; i < options->n_arguments; i++)
        fprintf(file, "\n%s", options->argument[i]);
    return fclose(file) == 0 ? text : NULL;
}

void hd_bridge_options_release(struct hd_bridge_options *options)
{
    for (int i = 0; i < options->n_arguments; i++)
        free(options->argument[i]);
    free(options->argument);
}
