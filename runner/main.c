/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/commands.h"
#include "runner/base/environment.h"
#include "runner/base/options.h"
#include "runner/base/options/table.h"
#include "runner/base/process.h"
#include "runner/report/report.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/subnormal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* hd_commands_get has what is told of them. */
static const struct {
    const char *name;
    int (*run)(struct hd_options *options);
} commands[] = {
    {"run", hd_command_run},
    {"launch", hd_command_launch},
    {"graph", hd_command_graph},
    {"eval", hd_command_eval},
    {"watch", hd_command_watch},
    {"record", hd_command_record},
    {"bench", hd_command_bench},
    {"calibrate", hd_command_calibrate},
    {"simulate", hd_command_simulate},
    {"report", hd_command_report},
    {"trace", hd_command_trace},
    {"compare", hd_command_compare},
    {"doctor", hd_command_doctor},
    {"check-env", hd_command_check_env},
    {"keys", hd_command_keys},
    {"verbs", hd_command_verbs},
    {"completion", hd_command_completion},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file)
{
    fprintf(file, "usage: runner COMMAND [ARGUMENT ...] [OPTION ...]\n\n"
                  "Trains reinforcement-learning agents data-parallel, as a dataflow graph of "
                  "tasks.\n\ncommands:\n");
    int n;
    const struct hd_command *told = hd_commands_get(&n);
    for (int i = 0; i < n; i++)
        fprintf(file, "  %-10s %s\n", told[i].name, told[i].help);
    fprintf(file, "\n'runner COMMAND --help' tells the options of a command.\n"
                  "Exit codes: 0 done, 1 failure, 2 bad input, 3 watchdog, 4 ranks diverged,\n"
                  "75 stopped but resumable, 130 interrupted.\n");
}

static const char *find_similar_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *aliases = hd_command_find(commands[i].name)->aliases;
        names[i] = commands[i].name;
        if (aliases && hd_names_contain(aliases, name))
            return commands[i].name;
    }
    return hd_find_nearest_name(name, names, N_COMMANDS);
}

static int unknown_command(const char *name)
{
    const char *similar = find_similar_command(name);
    hd_log(HD_LOG_ERROR, "unknown command '%s'%s%s%s; see 'runner --help'", name,
           similar ? " (did you mean '" : "", similar ? similar : "", similar ? "'?)" : "");
    return hd_status_get_exit_code(HD_ERR_INPUT);
}

static void write_report(const char *dir)
{
    hd_report_write(dir, NULL, NULL);
}

static int run_command(int (*run)(struct hd_options *options), int argc, char **argv)
{
    struct hd_options options;
    int status = hd_options_read(argc, argv, &options);
    if (status != HD_OK)
        return status > 0 ? 0 : hd_status_get_exit_code(status);
    options.write_report = write_report;
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
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(commands[i].run, argc - 1, argv + 1);
    return unknown_command(name);
}

int main(int argc, char **argv)
{
    hd_process_open_standard_descriptors();
    hd_process_buffer_output();
    signal(SIGPIPE, SIG_IGN);
    hd_subnormals_flush();
    hd_environment_report();
    const int status = hd_process_check_limits();
    return status == HD_OK ? hd_process_end(run_program(argc, argv))
                           : hd_status_get_exit_code(status);
}
