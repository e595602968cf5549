/* SPDX-License-Identifier: Apache-2.0 */
/* runner completion: what a shell completes, from the tables of commands, options, keys and verbs.
 * The functions that search them are the shell's own (completion/). */
#include "runner/base/commands.h"
#include "runner/base/embed.h"
#include "runner/base/options.h"
#include "runner/base/options/table.h"
#include "runtime/base/config/config_key.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/base/run_keys.h"

#include <stdio.h>
#include <string.h>

HD_EMBED(hd_completion_words, HD_COMPLETION_DIR "/"
                                                "words.bash");
HD_EMBED(hd_completion_bash, HD_COMPLETION_DIR "/"
                                               "end.bash");
HD_EMBED(hd_completion_zsh, HD_COMPLETION_DIR "/"
                                              "end.zsh");

/* Returns the list that values are of, by what usages and help texts call them (NULL: none). */
static const char *find_list(const char *argument)
{
    static const char *const beginnings[][2] = {
        {"CONFIG", "file"},    {"DIR|TRACE", "file"}, {"FILE", "file"},  {"DIR", "directory"},
        {"[DIR]", "optional"}, {"[KEY]", "key"},      {"KEY[", "key"},   {"KEY=", "set"},
        {"[VERB]", "verb"},    {"NAME", "strategy"},  {"SHELL", "shell"}};
    for (size_t i = 0; argument && i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(argument, beginnings[i][0], strlen(beginnings[i][0])) == 0)
            return beginnings[i][1];
    return argument && argument[0] ? "value" : "-";
}

static void print_commands(void)
{
    int n, n_options;
    const struct hd_command *commands = hd_commands_get(&n);
    const struct hd_command_option *options = hd_command_options_get(&n_options);
    for (int i = 0; i < n; i++) {
        printf("command\t%s\t%s\t%s\n", commands[i].name, commands[i].help,
               find_list(commands[i].arguments));
        for (int k = 0; k < n_options; k++)
            if (hd_command_has_option(&commands[i], &options[k]) && options[k].help)
                printf("option %s\t%s\t%s\t%s\n", commands[i].name, options[k].name,
                       options[k].help, find_list(options[k].argument));
        printf("option %s\t--help\tprint its help\t-\n", commands[i].name);
    }
    printf("command\t--help\tlist the commands\t-\ncommand\t--version\tprint the version\t-\n");
}

/* `words` is "a|b"; NULL: the key takes none. */
static void print_words(const char *path, const char *words)
{
    for (size_t length; words && *words; words += length + (words[length] == '|')) {
        length = strcspn(words, "|");
        printf("set %s\t%s=%.*s\n", path, path, (int)length, words);
    }
}

static void print_keys(void)
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    for (int i = 0; i < n; i++)
        for (const struct hd_key *key = tables[i]; key->path; key++) {
            printf("key\t%s\t%s\nset\t%s=\t%s\n", key->path, key->help, key->path, key->help);
            print_words(key->path, key->kind == HD_KEY_BOOL ? "true|false" : key->choices);
        }
}

static void print_table(void)
{
    puts("_runner_table() {\n    cat <<'END_OF_TABLE'");
    print_commands();
    print_keys();
    for (const struct hd_verb *const *verb = hd_registry_get_builtin()->verbs; *verb; verb++)
        printf("verb\t%s\t%s\n", (*verb)->name, (*verb)->help);
    puts("shell\tbash\nshell\tzsh\nEND_OF_TABLE\n}\n");
}

int hd_command_completion(struct hd_options *options)
{
    const bool zsh = strcmp(options->config, "zsh") == 0;
    if (!zsh && strcmp(options->config, "bash") != 0)
        return hd_status_get_exit_code(
            hd_fail(HD_ERR_INPUT, "there is no completion for '%s', but for bash and zsh",
                    options->config));
    printf("%s# Completion of runner, made by `runner completion %s`.\n",
           zsh ? "#compdef runner\n" : "", options->config);
    print_table();
    printf("%s\n%s", hd_completion_words, zsh ? hd_completion_zsh : hd_completion_bash);
    return 0;
}
