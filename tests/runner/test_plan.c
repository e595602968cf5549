/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the run files: every rank's follows from rank 0's, and those of CartPole on any number
 * of ranks from one rank's, so that a few golden plans speak for all (tests/golden/plans). */
#include "runner/train/base/gpus.h"
#include "runtime/base/status.h"
#include "runtime/io/dataset.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRANSITIONS = 64, SHARDS = 4, GPUS = 2, STRATEGIES = 4 };

static const char *const strategies[STRATEGIES] = {"serial", "pipelined", "bucketed", "int8"};

/* Graphs that no run file names, after the run file and with what they need beside it. */
static const char *const others[][3] = {
    {"cartpole_bc_ddp.yaml", "bc_norm", "policy.model.norm=sync_batch_norm"},
    {"cartpole_dqn_ddp.yaml", "dqn_sharded_evaluation", "seed=0"},
    {"cartpole_ppo_ddp.yaml", "ppo_nosync", "seed=0"},
};

/* A run file for a number of ranks. */
struct job {
    int shards, ranks, gpus;
    char run[64], graph[64], set[64], strategy[16];
    char data_text[256], shards_text[32], gpus_text[32];
    struct hd_options options;
    struct hd_run_spec run_spec;
};

/* -- Run files --------------------------------------------------------------------------------- */

static int is_yaml(const struct dirent *entry)
{
    return strstr(entry->d_name, ".yaml") != NULL;
}

/* Returns the number of run files and of other graphs; writes the names of number i. */
static int list_runs(int i, struct job *job_p)
{
    struct dirent **files;
    const int n = scandir("configs", &files, is_yaml, alphasort);
    ck_assert_int_gt(n, 0);
    if (i < n) {
        snprintf(job_p->run, sizeof job_p->run, "configs/%.50s", files[i]->d_name);
        strcpy(job_p->graph, "seed=0");
        strcpy(job_p->set, "seed=0");
    } else {
        snprintf(job_p->run, sizeof job_p->run, "configs/%s", others[i - n][0]);
        snprintf(job_p->graph, sizeof job_p->graph, "graph=graphs/%s.yaml", others[i - n][1]);
        strcpy(job_p->set, others[i - n][2]);
    }
    for (int k = 0; k < n; k++)
        free(files[k]);
    free(files);
    return n + COUNT(others);
}

/* What behaviour cloning learns from. */
static void write_data_set(const char *dir)
{
    static const float frames[TRANSITIONS][4];
    static const int32_t zeros[TRANSITIONS];
    static const uint8_t flags[TRANSITIONS];
    const struct hd_dataset_info info = {.env_type = "cartpole",
                                         .env_id = "",
                                         .dims = 1,
                                         .shape = {4},
                                         .stack = 1,
                                         .action_dims = 1,
                                         .actions = {2},
                                         .transitions = TRANSITIONS};
    const struct hd_dataset_rows rows = {.transitions = TRANSITIONS,
                                         .frames = TRANSITIONS,
                                         .frame = frames,
                                         .obs = zeros,
                                         .next_obs = zeros,
                                         .env = zeros,
                                         .episode = zeros,
                                         .action = zeros,
                                         .reward = frames[0],
                                         .done = flags,
                                         .truncated = flags};
    struct hd_dataset_writer *writer;
    ck_assert_int_eq(hd_dataset_create(dir, &info, 1, &writer), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &rows), HD_OK);
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
}

static int load(struct job *job)
{
    char *cuda = job->gpus > 0 ? "policy.cuda=true" : "policy.cuda=false";
    char *words[] = {
        "graph", job->run,       "--strategy", job->strategy,  "--set", job->graph,
        "--set", job->set,       "--set",      job->data_text, "--set", job->shards_text,
        "--set", job->gpus_text, "--set",      cuda,           NULL};
    snprintf(job->data_text, sizeof job->data_text, "policy.collect.data_path=%.200s",
             scratch_path("demos"));
    snprintf(job->shards_text, sizeof job->shards_text, "world.shards=%d", job->shards);
    snprintf(job->gpus_text, sizeof job->gpus_text, "runtime.gpus=%d",
             job->gpus > 0 ? job->gpus : 1);
    ck_assert_int_eq(hd_options_read(COUNT(words) - 1, words, &job->options), HD_OK);
    job->options.refuses_plugins = true;
    scratch_log[0] = '\0';
    const int status = hd_run_spec_load(&job->options, job->ranks, &job->run_spec);
    if (status != HD_OK)
        hd_options_release(&job->options);
    return status;
}

static void unload(struct job *job)
{
    hd_run_spec_release(&job->run_spec);
    hd_options_release(&job->options);
}

/* -- Plans as text, to be freed with free ------------------------------------------------------ */

static char *plan(const struct job *job, int rank)
{
    const struct hd_plan_gpus gpus = hd_gpus_plan(&job->run_spec, job->ranks);
    struct hd_plan *plan;
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(hd_plan_create(job->run_spec.graph, rank, job->ranks, &gpus,
                                    job->run_spec.settings.param_check_interval, &plan),
                     HD_OK);
    hd_plan_dump(plan, file);
    hd_plan_destroy(plan);
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

/* Replaces `word` at *at_p. */
static bool replace(const char **at_p, const char *word, const char *by, FILE *file)
{
    if (strncmp(*at_p, word, strlen(word)) != 0)
        return false;
    fputs(by, file);
    *at_p += strlen(word);
    return true;
}

/* Replaces the numbers of a rank and of its shards at *at_p. */
static bool replace_numbers(const char **at_p, const struct job *job, int rank, FILE *file)
{
    const int each = job->shards / job->ranks;
    int end = 0;
    if (strncmp(*at_p, "plan of rank ", strlen("plan of rank ")) == 0) {
        sscanf(*at_p, "plan of rank %*d of %*d, %*d%n", &end);
        fprintf(file, "plan of rank %d of %d, %d", rank, job->ranks, job->shards);
    } else if (strncmp(*at_p, " shards ", strlen(" shards ")) == 0) {
        sscanf(*at_p, " shards %*d-%*d%n", &end);
        fprintf(file, " shards %d-%d", rank * each, (rank + 1) * each - 1);
    }
    *at_p += end;
    return end > 0;
}

/* Returns the plan of rank 0 as that of another rank, among `job`'s, where shards have other
 * numbers, and what rank 0 alone has and does is absent. */
static char *move(const char *plan_of_0, const struct job *job, int rank)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    for (const char *at = plan_of_0; *at;) {
        if (replace_numbers(&at, job, rank, file))
            continue;
        if (rank > 0 && (replace(&at, " rank0  buckets", " rank0  none here buckets", file) ||
                         replace(&at, "[rank0", "[not here", file)))
            continue;
        fputc(*at++, file);
    }
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

/* -- Properties -------------------------------------------------------------------------------- */

/* Says which line differs first. */
static void check_same(const struct job *job, int rank, const char *found, const char *wanted)
{
    size_t at = 0, line = 0;
    for (; found[at] && found[at] == wanted[at]; at++)
        line = found[at] == '\n' ? at + 1 : line;
    ck_assert_msg(found[at] == wanted[at],
                  "%s, %s, %d GPUs, rank %d of %d: found\n%.*s\nwanted\n%.*s", job->run,
                  job->strategy, job->gpus, rank, job->ranks, (int)strcspn(found + line, "\n"),
                  found + line, (int)strcspn(wanted + line, "\n"), wanted + line);
}

static void check_ranks(const struct job *job)
{
    char *first = plan(job, 0);
    for (int rank = 1; rank < job->ranks; rank++) {
        char *found = plan(job, rank), *wanted = move(first, job, rank);
        ck_assert(strstr(found, " none here ") && strstr(found, "[not here"));
        check_same(job, rank, found, wanted);
        free(found);
        free(wanted);
    }
    free(first);
}

/* Plug-ins are those of this build, beside the folder of the test. */
static void setup(void)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    strcpy(strrchr(path, '/'), "/../plugins");
    setenv("HEDDLE_PLUGINS", path, 1);
    scratch_setup();
    write_data_set(scratch_path("demos"));
}

FIXTURE(setup, scratch_teardown)

/* Why a run cannot be planned: a net without GPUs, a plug-in that was not built, or a graph for one
 * of the other strategies. */
static bool is_refused(void)
{
    return strstr(scratch_log, "is computed on CPUs only") ||
           strstr(scratch_log, "is a plug-in that scripts/atari builds") ||
           strstr(scratch_log, "unknown strategy parameter");
}

/* All run files and graphs by all strategies, on CPUs and on GPUs. */
TEST(every_rank_has_the_plan_of_rank_0, .runs = STRATEGIES * list_runs(0, &(struct job){0}))
{
    struct job job = {.shards = SHARDS};
    list_runs(_i / STRATEGIES, &job);
    strcpy(job.strategy, strategies[_i % STRATEGIES]);
    for (job.gpus = 0; job.gpus <= GPUS; job.gpus++)
        for (job.ranks = 2; job.ranks <= SHARDS; job.ranks *= 2) {
            const bool is_loaded = load(&job) == HD_OK;
            ck_assert_msg(is_loaded || is_refused(), "%s", scratch_log);
            if (!is_loaded)
                continue;
            check_ranks(&job);
            unload(&job);
        }
}

/* Several ranks compare what all of them have, and their tasks on GPUs stay apart. */
static char *share_out(const char *plan_of_one, const struct job *job)
{
    static const char fused[] = " [gpu: one task sample_replay..copy]";
    char *text = move(plan_of_one, job, 0), *at = strstr(text, fused), *whole;
    ck_assert_int_eq(at != NULL, job->gpus == 1);
    if (job->ranks == 1)
        return text;
    if (at)
        memmove(at, at + strlen(fused), strlen(at + strlen(fused)) + 1);
    ck_assert_int_gt(asprintf(&whole,
                              "%s  compare policy every 100 update\n"
                              "  compare optimizer every 100 update\n",
                              text),
                     0);
    free(text);
    return whole;
}

/* Of DQN on CartPole, as the golden plans: serial and pipelined, on CPUs and on a GPU. */
TEST(ranks_have_the_plan_of_one_that_is_alone, .runs = HD_CUDA ? 4 : 2)
{
    struct job job = {.run = "configs/cartpole_dqn_ddp.yaml",
                      .graph = "seed=0",
                      .set = "seed=0",
                      .shards = 2,
                      .ranks = 1,
                      .gpus = _i / 2};
    strcpy(job.strategy, strategies[_i % 2]);
    ck_assert_int_eq(load(&job), HD_OK);
    char *alone = plan(&job, 0);
    unload(&job);
    for (job.shards = job.gpus > 0 ? 2 : 1; job.shards <= SHARDS; job.shards *= 2)
        for (job.ranks = 1; job.ranks <= job.shards; job.ranks *= 2) {
            ck_assert_int_eq(load(&job), HD_OK);
            char *found = plan(&job, 0), *wanted = share_out(alone, &job);
            check_same(&job, 0, found, wanted);
            check_ranks(&job);
            free(found);
            free(wanted);
            unload(&job);
        }
    free(alone);
}
