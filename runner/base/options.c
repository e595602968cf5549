/* SPDX-License-Identifier: Apache-2.0 */
/* Both spellings of torchrun are
 * accepted: --nproc-per-node and --nproc_per_node. */
#include "runner/base/options.h"

#include "runner/base/options/table.h"
#include "runner/base/options/torchrun.h"
#include "runtime/base/alloc.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "tasks/base/run_keys.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_option(const struct hd_command_option *option)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    printf("  %-22s %s\n", left, option->help);
}

static void print_help(const struct hd_command *command)
{
    printf("usage: runner %s%s%s [OPTION ...]\n", command->name, command->arguments[0] ? " " : "",
           command->arguments);
    if (command->about)
        printf("\n%s", command->about);
    printf("\noptions:\n");
    int n;
    const struct hd_command_option *options = hd_command_options_get(&n);
    for (int i = 0; i < n; i++)
        if (hd_command_has_option(command, &options[i]) && options[i].help)
            print_option(&options[i]);
    printf("  %-22s %s\n  %-22s %s\n", "--version", "print the version", "--help",
           "print this help");
}

static const struct hd_command_option *find(const struct hd_command *command, const char *given,
                                            size_t length)
{
    int n;
    const struct hd_command_option *options = hd_command_options_get(&n);
    for (int i = 0; i < n; i++)
        if (hd_command_has_option(command, &options[i]) &&
            hd_torchrun_option_has_name(options[i].name, given, length))
            return &options[i];
    return NULL;
}

bool hd_option_is_for_launcher(const char *argument, bool *takes_value_p)
{
    const size_t length = strcspn(argument, "=");
    const struct hd_command_option *option = find(hd_command_find("launch"), argument, length);
    *takes_value_p = option && option->kind != HD_OPTION_FLAG && argument[length] != '=';
    return option && !hd_command_has_option(hd_command_find("run"), option);
}

/* Lists the keys of a config that an option may mean, as `--lr` or `--batch-size`. */
static void list_keys_called(const char *name, size_t length, char list[HD_DESCRIPTION_BYTES])
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    char *key = hd_format("%.*s", (int)length, name);
    list[0] = '\0';
    for (char *c = key; c && *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (key)
        hd_schema_list_called(tables, n, key, list);
    hd_free(key);
}

static int unknown_option(const struct hd_command *command, const char *typed)
{
    enum { NAMES_MAX = 64 };
    const char *name = typed + strspn(typed, "-"), *names[NAMES_MAX];
    char keys[HD_DESCRIPTION_BYTES];
    int n_options, n = 0;
    const struct hd_command_option *options = hd_command_options_get(&n_options);
    for (int i = 0; i < n_options && n < NAMES_MAX; i++)
        if (hd_command_has_option(command, &options[i]) && options[i].help)
            names[n++] = options[i].name + 2;
    const char *nearest = hd_find_nearest_name(name, names, n);
    if (strcmp(command->name, "launch") == 0)
        HD_TRY(hd_torchrun_option_refuse(typed));
    list_keys_called(name, strcspn(name, "="), keys);
    if (keys[0] && !nearest && find(command, "--set", strlen("--set")))
        return hd_fail(HD_ERR_INPUT,
                       "unknown option '%s': a key of the config is set by --set KEY=VALUE (did "
                       "you mean %s?)",
                       typed, keys);
    return hd_fail(HD_ERR_INPUT, "unknown option '%s'%s%s%s; see 'runner %s --help'", typed,
                   nearest ? " (did you mean '--" : "", nearest ? nearest : "",
                   nearest ? "'?)" : "", command->name);
}

static int add_set(struct hd_options *options, const char *text, const char *next)
{
    const int max = HD_SETS_MAX - HD_OWNED_SETS_MAX;
    if (!strchr(text, '='))
        return hd_fail(HD_ERR_INPUT, "--set needs KEY=VALUE, found '%s'; write --set %s=%s", text,
                       text, next && next[0] != '-' ? next : "VALUE");
    if (options->n_sets >= max)
        return hd_fail(HD_ERR_INPUT, "more than %d --set options", max);
    options->sets[options->n_sets++] = (struct hd_set){.text = text};
    return HD_OK;
}

int hd_options_add_set(struct hd_options *options, char *text, const char *option)
{
    if (!text)
        return HD_ERR_NOMEM;
    if (options->n_owned == HD_OWNED_SETS_MAX || options->n_sets == HD_SETS_MAX) {
        hd_free(text);
        return hd_fail(HD_ERR_INPUT, "too many options");
    }
    options->owned[options->n_owned++] = text;
    options->sets[options->n_sets++] = (struct hd_set){text, option};
    return HD_OK;
}

static int add_as_set(struct hd_options *options, const struct hd_command_option *option,
                      const char *value)
{
    bool path = strcmp(option->name, "--strategy") == 0 && strlen(value) > 5 &&
                strcmp(value + strlen(value) - 5, ".yaml") == 0;
    return hd_options_add_set(options, hd_format(path ? "strategy=%s" : option->set, value),
                              option->name);
}

static int store_integer(struct hd_options *options, const struct hd_command_option *option,
                         const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < option->min || number > option->max)
        return hd_fail(HD_ERR_INPUT, "%s: expected an integer in [%lld, %lld], found '%s'",
                       option->name, option->min, option->max, value);
    if (option->kind == HD_OPTION_COUNT)
        *(int64_t *)((char *)options + option->offset) = number;
    else
        *(int *)((char *)options + option->offset) = (int)number;
    return HD_OK;
}

static int store_share(struct hd_options *options, const struct hd_command_option *option,
                       const char *value)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number <= 1))
        return hd_fail(HD_ERR_INPUT, "%s: expected a number in [0, 1], found '%s'", option->name,
                       value);
    *(double *)((char *)options + option->offset) = number;
    return HD_OK;
}

static int add_name(struct hd_names *names, const struct hd_command_option *option,
                    const char *value)
{
    if (names->n == HD_NAMES_MAX)
        return hd_fail(HD_ERR_INPUT, "more than %d %s options", HD_NAMES_MAX, option->name);
    names->texts[names->n++] = value;
    return HD_OK;
}

/* `next` is the argument behind the value, or NULL. */
static int store(struct hd_options *options, const struct hd_command_option *option,
                 const char *value, const char *next)
{
    switch (option->kind) {
    case HD_OPTION_FLAG:
        *(bool *)((char *)options + option->offset) = true;
        return HD_OK;
    case HD_OPTION_INTEGER:
    case HD_OPTION_COUNT:
        return store_integer(options, option, value);
    case HD_OPTION_SHARE:
        return store_share(options, option, value);
    case HD_OPTION_TEXT:
    case HD_OPTION_OPTIONAL:
        *(const char **)((char *)options + option->offset) = value;
        return HD_OK;
    case HD_OPTION_NAMES:
        return add_name((struct hd_names *)((char *)options + option->offset), option, value);
    case HD_OPTION_SET:
        return add_set(options, value, next);
    case HD_OPTION_AS_SET:
        return add_as_set(options, option, value);
    }
    return HD_OK;
}

/* Reads one option at argv[*i]; its value may follow '=' or be the next argument. */
static int read_option(const struct hd_command *command, int argc, char **argv, int *i,
                       struct hd_options *options)
{
    const char *given = argv[*i];
    size_t length = strcspn(given, "=");
    const char *value = given[length] == '=' ? given + length + 1 : NULL;
    const struct hd_command_option *option = find(command, given, length);
    if (!option)
        return unknown_option(command, argv[*i]);
    if (option->kind == HD_OPTION_FLAG && value)
        return hd_fail(HD_ERR_INPUT, "%s takes no value, found '%s'", option->name, value);
    if (option->kind == HD_OPTION_OPTIONAL && !value)
        value = *i + 1 < argc && hd_folder_exists(argv[*i + 1]) ? argv[++*i] : "";
    if (option->kind != HD_OPTION_FLAG && !value) {
        if (*i + 1 == argc)
            return hd_fail(HD_ERR_INPUT, "%s needs a value: %s %s", option->name, option->name,
                           option->argument);
        value = argv[++*i];
    }
    return store(options, option, value, argv[*i + 1]);
}

static int add_argument(const struct hd_command *command, char *argument,
                        struct hd_options *options)
{
    if (command->max == 0)
        return hd_fail(HD_ERR_INPUT, "%s takes no argument, found '%s'", command->name, argument);
    if (options->n_dirs == command->max && command->max > 1)
        return hd_fail(HD_ERR_INPUT, "%s compares at most %d runs, found one more: '%s'",
                       command->name, command->max, argument);
    if (options->n_dirs == command->max)
        return hd_fail(HD_ERR_INPUT, "one %s at a time: found '%s' and '%s'", command->noun,
                       options->config, argument);
    options->dirs[options->n_dirs++] = argument;
    options->config = options->dirs[0];
    return HD_OK;
}

/* A run that goes on in a directory has the config that lies there, if none is named. */
static int take_config_of_run(struct hd_options *options)
{
    char *path;
    HD_TRY(hd_run_dir_find_policy(options->resume, &path, NULL));
    if (options->n_owned == HD_OWNED_SETS_MAX) {
        hd_free(path);
        return HD_ERR_NOMEM;
    }
    options->owned[options->n_owned++] = path;
    options->config = path;
    return HD_OK;
}

static int check_arguments(const struct hd_command *command, struct hd_options *options)
{
    if (options->n_dirs >= command->min)
        return HD_OK;
    if (options->resume && options->resume[0])
        return take_config_of_run(options);
    return hd_fail(HD_ERR_INPUT, "missing %s; usage: runner %s %s [OPTION ...]", command->noun,
                   command->name, command->arguments);
}

static int read_argument(const struct hd_command *command, int argc, char **argv, int *i,
                         struct hd_options *options)
{
    if (strncmp(argv[*i], "--", 2) == 0)
        return read_option(command, argc, argv, i, options);
    if (strcmp(argv[*i], "-") == 0)
        return hd_fail(HD_ERR_INPUT,
                       "'-': a %s is not read from standard input; name a file or folder",
                       command->noun);
    if (argv[*i][0] == '-')
        return unknown_option(command, argv[*i]);
    return add_argument(command, argv[*i], options);
}

static int read_arguments(const struct hd_command *command, int argc, char **argv,
                          struct hd_options *options)
{
    bool ended = false; /* by `--`, behind which nothing is an option */
    for (int i = 1; i < argc; i++) {
        if (ended) {
            HD_TRY(add_argument(command, argv[i], options));
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command);
            return 1;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("heddle %s\n", HD_VERSION);
            return 1;
        } else if (strcmp(argv[i], "--") == 0) {
            ended = true;
        } else {
            HD_TRY(read_argument(command, argc, argv, &i, options));
        }
    }
    return check_arguments(command, options);
}

int hd_options_read(int argc, char **argv, struct hd_options *options_p)
{
    const struct hd_command *command = hd_command_find(argv[0]);
    *options_p = (struct hd_options){.argc = argc,
                                     .argv = argv,
                                     .node_rank = -1,
                                     .ranks = strcmp(command->name, "doctor") == 0 ? 2 : 1,
                                     .updates = 200,
                                     .warmup = 50,
                                     .nodes = 1,
                                     .ranks_per_node = 1,
                                     .iterations = 50,
                                     .measure_after = -1,
                                     .fps = 30,
                                     .zoom = 1,
                                     .display = "auto",
                                     .http = -1};
    int status = read_arguments(command, argc, argv, options_p);
    if (status != HD_OK)
        hd_options_release(options_p);
    if (options_p->quiet)
        hd_log_set_level(HD_LOG_WARN);
    return status;
}

void hd_options_release(struct hd_options *options)
{
    for (int i = 0; i < options->n_owned; i++)
        hd_free(options->owned[i]);
    options->n_owned = 0;
}

void hd_options_refuse_plugins(struct hd_options *options)
{
    const char *allowed = getenv("HEDDLE_ALLOW_PLUGIN");
    options->refuses_plugins = !options->allow_plugin && !(allowed && strcmp(allowed, "1") == 0);
}

int hd_options_use_strategy(struct hd_options *options, const char *name)
{
    return add_as_set(options, find(hd_command_find("run"), "--strategy", strlen("--strategy")),
                      name);
}
