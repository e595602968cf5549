/* SPDX-License-Identifier: Apache-2.0 */
/* runner keys, runner verbs: what run files and graph files may say. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/base/run_keys.h"

#include <stdio.h>
#include <string.h>

int hd_command_keys(struct hd_options *options)
{
    if (options->as_schema && options->config)
        return hd_status_get_exit_code(hd_fail(
            HD_ERR_INPUT, "--json-schema is of a whole run file: leave '%s' out", options->config));
    return hd_status_get_exit_code(options->as_schema ? hd_run_keys_print_json(stdout)
                                                      : hd_run_keys_print(options->config, stdout));
}

static void print_verb(const struct hd_verb *verb)
{
    static const char *const modes[] = {
        [HD_READ] = "reads", [HD_WRITE] = "writes", [HD_UPDATE] = "updates"};
    printf("%s\n    %s\n", verb->name, verb->help);
    for (const struct hd_port *port = verb->ports; port && port->name; port++)
        printf("    %-8s %s (%s%s)\n", modes[port->mode], port->name,
               port->type ? port->type : "any type", port->optional ? ", optional" : "");
    for (const struct hd_option *option = verb->options; option && option->name; option++)
        printf("    option   %s: %s%s\n", option->name,
               option->choices ? option->choices : "any text",
               option->required ? "" : " (optional)");
}

static int report_unknown_verb(const struct hd_registry *registry, const char *name)
{
    enum { VERBS_MAX = 128 };
    const char *names[VERBS_MAX];
    int n = 0;
    for (; registry->verbs[n] && n < VERBS_MAX; n++)
        names[n] = registry->verbs[n]->name;
    const char *nearest = hd_find_nearest_name(name, names, n);
    return hd_fail(HD_ERR_INPUT, "there is no verb '%s'%s%s%s; 'runner verbs' lists all", name,
                   nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

int hd_command_verbs(struct hd_options *options)
{
    const struct hd_registry *registry = hd_registry_get_builtin();
    int n = 0;
    for (const struct hd_verb *const *verb = registry->verbs; *verb; verb++)
        if (!options->config || strcmp((*verb)->name, options->config) == 0) {
            print_verb(*verb);
            n++;
        }
    return hd_status_get_exit_code(n > 0 ? HD_OK : report_unknown_verb(registry, options->config));
}
