/* SPDX-License-Identifier: Apache-2.0 */
/* Goes on from a checkpoint that was changed and whose hashes are right, and trains 50 iterations.
 * The first byte of an input chooses DQN or PPO; the rest are edits of the checkpoint's files and
 * of its metadata. The run ends as others do: trained, or refused with a message. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EDITS_MAX = 8, ITERATIONS = 20, MORE = 50 };

/* As it lies in an input. */
struct edit {
    uint8_t how, file;
    uint16_t unused;
    uint32_t at;
    uint64_t number;
};

static const struct {
    const char *name, *config;
    const char *sets[8];
} runs[] = {
    {"dqn",
     "configs/cartpole_dqn_ddp.yaml",
     {"policy.other.replay_buffer.replay_buffer_size=600", "policy.learn.batch_size=32",
      "strategy.eval_lag=1"}},
    {"ppo",
     "configs/cartpole_ppo_ddp.yaml",
     {"policy.collect.n_sample=64", "policy.learn.batch_size=32", "strategy.policy_lag=1",
      "strategy.batch_buffers=2", "policy.model.actor_head_hidden_size=0",
      "policy.model.critic_head_hidden_size=0"}},
};
enum { RUNS = sizeof runs / sizeof *runs };

void __wrap_hd_signals_catch(void);
void __wrap_hd_crash_catch(void);
int __lsan_is_turned_off(void);

/* libFuzzer and the sanitizers have handlers of their own. */
void __wrap_hd_signals_catch(void)
{
}
void __wrap_hd_crash_catch(void)
{
}

/* Libraries that a run loads and closes keep memory. */
int __lsan_is_turned_off(void)
{
    return 1;
}

static int run(int which, const char *folder, const char *option, int iterations)
{
    enum { ARGUMENTS_MAX = 40 };
    char limit[64], *argv[ARGUMENTS_MAX] = {"run", (char *)runs[which].config, (char *)option,
                                            (char *)folder, "--quiet"};
    const char *const common[] = {limit,
                                  "env.stop_value=1e9",
                                  "world.shards=1",
                                  "env.n_evaluator_episode=1",
                                  "policy.model.encoder_hidden_size_list=[16, 16]",
                                  "runtime.allow_fingerprint_mismatch=true",
                                  "runtime.checkpoint_interval_s=0.01",
                                  NULL};
    int argc = 5;
    snprintf(limit, sizeof limit, "max_train_iter=%d", iterations);
    for (int i = 0; common[i]; i++)
        argv[argc++] = "--set", argv[argc++] = (char *)common[i];
    for (int i = 0; runs[which].sets[i]; i++)
        argv[argc++] = "--set", argv[argc++] = (char *)runs[which].sets[i];
    struct hd_options options;
    fuzz_check(hd_options_read(argc, argv, &options) == HD_OK, "the options are good");
    const int code = hd_command_run(&options);
    hd_options_release(&options);
    return code;
}

/* Makes the run that inputs begin with. A copy leaves it as it is. */
static void make_run(int which)
{
    char folder[600], path[700];
    snprintf(folder, sizeof folder, "%s", fuzz_path(runs[which].name));
    const int code = run(which, folder, "--dir", ITERATIONS);
    fuzz_check(code == 0, "a run ends");
    snprintf(path, sizeof path, "%s/result.json", folder);
    fuzz_check(unlink(path) == 0, "it leaves a result");
}

static void copy_run(int which, const char *to)
{
    char command[1400];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to,
             fuzz_path(runs[which].name), to);
    fuzz_check(system(command) == 0, "a run can be copied");
}

static void *read_file(const char *path, size_t *bytes_p)
{
    FILE *file = fopen(path, "rb");
    fuzz_check(file != NULL && fseek(file, 0, SEEK_END) == 0, "a file is there");
    const long bytes = ftell(file);
    rewind(file);
    char *data = calloc((size_t)bytes + 1, 1);
    fuzz_check(data && fread(data, 1, (size_t)bytes, file) == (size_t)bytes, "it can be read");
    fclose(file);
    *bytes_p = (size_t)bytes;
    return data;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    fuzz_check(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0,
               "a file can be written");
}

/* Finds the n-th leaf of a JSON value, counted from *n down, and sets it. */
static void set_leaf(json_t *json, unsigned *n, uint64_t number)
{
    static const double reals[] = {0.5, -1, 1e300};
    const char *key;
    json_t *child;
    void *next;
    if (json_is_array(json)) {
        for (size_t i = 0; i < json_array_size(json); i++)
            set_leaf(json_array_get(json, i), n, number);
        return;
    }
    json_object_foreach_safe(json, next, key, child)
    {
        if (json_is_object(child) || json_is_array(child))
            set_leaf(child, n, number);
        else if ((*n)-- == 0)
            json_object_set_new(json, key,
                                number % 5 == 0   ? json_real(reals[number / 5 % 3])
                                : number % 5 == 1 ? json_string("../../x")
                                                  : json_integer((json_int_t)number));
    }
}

static void edit_file(const char *path, const struct edit *edit)
{
    size_t bytes;
    char *data = read_file(path, &bytes);
    const size_t width = (size_t)1 << edit->how % 4;
    const size_t at = bytes ? edit->at % bytes / width * width : 0;
    if (edit->how % 16 == 15)
        bytes = at;
    else if (at + width <= bytes)
        memcpy(data + at, &edit->number, width);
    write_file(path, data, bytes);
    free(data);
}

/* Edits the n-th file of those in a folder. */
static void edit_nth(json_t *files, const char *folder, size_t n, const struct edit *edit)
{
    char path[1200];
    const char *name;
    json_t *about;
    json_object_foreach(files, name, about) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (n-- == 0)
            edit_file(path, edit);
    }
}

static void edit_checkpoint(json_t *manifest, const char *folder, const char *journal_folder,
                            const struct edit *edit)
{
    json_t *const files = json_object_get(manifest, "files");
    json_t *const journal = json_object_get(manifest, "journal_files");
    const size_t n_files = json_object_size(files), n = n_files + json_object_size(journal);
    unsigned leaf = edit->at;
    if (edit->how >= 192)
        set_leaf(json_object_get(manifest, "metadata"), &leaf, edit->number);
    else if (n > 0 && edit->file % n < n_files)
        edit_nth(files, folder, edit->file % n, edit);
    else if (n > 0)
        edit_nth(journal, journal_folder, edit->file % n - n_files, edit);
}

static void mend_hashes(json_t *files, const char *folder)
{
    const char *name;
    json_t *about;
    json_object_foreach(files, name, about) {
        char path[1200];
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        void *data = read_file(path, &bytes);
        json_object_set_new(about, "bytes", json_integer((json_int_t)bytes));
        json_object_set_new(about, "hash", hd_checkpoint_format_hash(hd_hash_bytes(data, bytes)));
        free(data);
    }
}

static void edit_run(const char *run, const uint8_t *data, size_t bytes)
{
    char folder[700], journal_folder[700], path[800];
    snprintf(folder, sizeof folder, "%s/ckpt/state/latest", run);
    snprintf(journal_folder, sizeof journal_folder, "%s/ckpt/state/journal", run);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    json_t *manifest = json_load_file(path, 0, NULL);
    fuzz_check(manifest != NULL, "there is a checkpoint");
    struct edit edit;
    for (int i = 0; i < EDITS_MAX && bytes >= sizeof edit; i++) {
        memcpy(&edit, data, sizeof edit);
        edit_checkpoint(manifest, folder, journal_folder, &edit);
        data += sizeof edit, bytes -= sizeof edit;
    }
    mend_hashes(json_object_get(manifest, "files"), folder);
    mend_hashes(json_object_get(manifest, "journal_files"), journal_folder);
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest)));
    fuzz_check(json_dump_file(manifest, path, JSON_COMPACT) == 0, "a manifest can be written");
    json_decref(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool made[RUNS];
    if (bytes < 1)
        return 0;
    const int which = data[0] % RUNS;
    char work[600];
    if (!made[which])
        make_run(which);
    made[which] = true;
    snprintf(work, sizeof work, "%s", fuzz_path("work"));
    copy_run(which, work);
    edit_run(work, data + 1, bytes - 1);
    const int code = run(which, work, "--resume", ITERATIONS + MORE);
    fuzz_check(code == 0 || ((code == 1 || code == 2) && bytes > 1), "a run ends as runs end");
    return 0;
}
