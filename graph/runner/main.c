/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/commands.h"
#include "graph/runner/options.h"
#include "graph/runner/process.h"
#include "graph/runner/run_keys.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/subnormal.h"
#include "tasks/builtin.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(struct hd_options *options);
    const char *help;
} commands[] = {
    {"run", hd_command_run, "train: one rank, or this rank when RANK and WORLD_SIZE are set"},
    {"launch", hd_command_launch, "train: start and supervise the ranks of this node"},
    {"graph", hd_command_graph, "print the plan of any rank without starting anything"},
    {"eval", hd_command_eval, "evaluate weights, or print their outputs for observations"},
    {"record", hd_command_record, "play with weights and write a data set of transitions"},
    {"bench", hd_command_bench, "train with several strategies in turns and compare their speed"},
    {"report", hd_command_report, "write a run as one HTML page"},
    {"trace", hd_command_trace, "print where the time of a run went"},
    {"compare", hd_command_compare, "compare several runs"},
    {"doctor", hd_command_doctor, "look at the machine, the program and the path between ranks"},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file)
{
    fprintf(file, "usage: runner COMMAND [ARGUMENT ...] [OPTION ...]\n\n"
                  "Trains reinforcement-learning agents data-parallel, as a dataflow graph of "
                  "tasks.\n\ncommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(file, "  %-8s %s\n", "keys", "print every key of a config with its range and default");
    fprintf(file, "  %-8s %s\n", "verbs", "print every verb of a graph with its ports and options");
    fprintf(file, "\n'runner COMMAND --help' tells the options of a command.\n"
                  "Exit codes: 0 done, 1 failure, 2 bad input, 3 watchdog, 4 ranks diverged,\n"
                  "75 stopped but resumable, 130 interrupted.\n");
}

static void print_verbs(const struct hd_registry *registry)
{
    static const char *const modes[] = {
        [HD_READ] = "reads", [HD_WRITE] = "writes", [HD_UPDATE] = "updates"};
    for (const struct hd_verb *const *verb = registry->verbs; *verb; verb++) {
        printf("%s\n    %s\n", (*verb)->name, (*verb)->help);
        for (const struct hd_port *port = (*verb)->ports; port && port->name; port++)
            printf("    %-8s %s (%s%s)\n", modes[port->mode], port->name,
                   port->type ? port->type : "any type", port->optional ? ", optional" : "");
        for (const struct hd_option *option = (*verb)->options; option && option->name; option++)
            printf("    option   %s: %s%s\n", option->name,
                   option->choices ? option->choices : "any text",
                   option->required ? "" : " (optional)");
    }
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    const char *nearest = hd_find_nearest_name(name, names, N_COMMANDS);
    hd_log(HD_LOG_ERROR, "unknown command '%s'%s%s%s; see 'runner --help'", name,
           nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    return hd_status_get_exit_code(HD_ERR_INPUT);
}

static int run_command(int (*run)(struct hd_options *options), int argc, char **argv)
{
    struct hd_options options;
    int status = hd_options_read(argc, argv, &options);
    if (status != HD_OK)
        return status > 0 ? 0 : hd_status_get_exit_code(status);
    int code = run(&options);
    hd_options_release(&options);
    return code;
}

static int run_program(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        print_help(stderr);
        return hd_status_get_exit_code(HD_ERR_INPUT);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("heddle %s\n", HD_VERSION);
        return 0;
    }
    if (strcmp(name, "keys") == 0) {
        hd_run_keys_print(stdout);
        return 0;
    }
    if (strcmp(name, "verbs") == 0) {
        print_verbs(hd_registry_get_builtin());
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(commands[i].run, argc - 1, argv + 1);
    return unknown_command(name);
}

int main(int argc, char **argv)
{
    hd_process_open_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    hd_subnormals_flush();
    const int status = hd_process_check_limits();
    return status == HD_OK ? hd_process_end(run_program(argc, argv))
                           : hd_status_get_exit_code(status);
}
