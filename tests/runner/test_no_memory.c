/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails, for every n, while a run file is read, its graph planned, a session
 * started and the first iterations run: each ends in HD_ERR_NOMEM, and the sanitizers find that
 * everything was released. */
#include "graph/execute/execute.h"
#include "runner/base/run_spec.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

static const char *const configs[] = {"configs/cartpole_dqn_ddp.yaml",
                                      "configs/cartpole_ppo_ddp.yaml"};
enum { N_CONFIGS = sizeof configs / sizeof *configs, RANKS = 2, MAX_COUNT = 100000 };

static void drop(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

static int load(const char *config, struct hd_run_spec *job_p)
{
    const struct hd_options options = {
        .config = config,
        /* Small, because every attempt starts anew. */
        .sets = {{"world.shards=2", NULL},
                 {"env.n_evaluator_episode=1", NULL},
                 {"env.evaluator_env_num=1", NULL},
                 {"max_env_step=1", NULL},
                 {"strategy.policy_lag=1", NULL},
                 {"policy.model.encoder_hidden_size_list=[8]", NULL},
                 {"policy.model.actor_head_hidden_size=0", NULL},
                 {"policy.model.critic_head_hidden_size=0", NULL},
                 {"policy.other.replay_buffer.replay_buffer_size=1000", NULL}},
        .n_sets = 9};
    return hd_run_spec_load(&options, RANKS, job_p);
}

static int plan_all(struct hd_run_spec *job)
{
    int status = HD_OK;
    for (int rank = 0; status == HD_OK && rank < RANKS; rank++) {
        struct hd_plan *plan;
        status = hd_plan_create(job->graph, rank, RANKS, NULL, job->settings.param_check_interval,
                                &plan);
        if (status == HD_OK)
            hd_plan_destroy(plan);
    }
    return status;
}

TEST(a_run_file_without_memory, .runs = N_CONFIGS)
{
    int status = HD_ERR_NOMEM;
    int64_t n = 0;
    hd_log_set_sink(drop, NULL);
    while (status != HD_OK) {
        struct hd_run_spec job;
        ck_assert_int_lt(n, MAX_COUNT);
        hd_alloc_fail_nth(++n);
        status = load(configs[_i], &job);
        bool loaded = status == HD_OK;
        if (loaded)
            status = plan_all(&job);
        hd_alloc_fail_nth(0);
        if (loaded)
            hd_run_spec_release(&job);
        ck_assert_msg(status == HD_OK || status == HD_ERR_NOMEM, "allocation %lld: status %d",
                      (long long)n, status);
    }
    hd_log_set_sink(NULL, NULL);
    ck_assert_int_gt(n, 100);
    printf("%s: %lld allocations to read and plan\n", configs[_i], (long long)n - 1);
}

/* Runs a plan of one rank in a session; the n-th allocation fails. */
static int run(struct hd_plan *plan, const char *scheduler, int64_t n)
{
    const struct hd_session_options options = {.sequential = !scheduler,
                                               .workers = 2,
                                               .scheduler = scheduler,
                                               .ranks = 1,
                                               .scratch_bytes = hd_plan_get_scratch_bytes(plan),
                                               .watchdog_ns = 20000000000};
    const struct hd_executor_options executor_options = {.window = 2};
    struct hd_session *session = NULL;
    struct hd_executor *executor = NULL;
    const char *reason;
    hd_alloc_fail_nth(n);
    int status = hd_session_create(&options, &session);
    if (status == HD_OK)
        status = hd_executor_create(plan, session, &executor_options, &executor);
    if (status == HD_OK) {
        status = hd_executor_run(executor, &reason);
        ck_assert_int_eq(status, hd_session_get_status(session));
        ck_assert(status == HD_OK || hd_session_get_message(session)[0]);
    }
    hd_alloc_fail_nth(0);
    hd_executor_destroy(executor);
    hd_session_destroy(session);
    return status;
}

/* Tries every n, or every `step`-th, until the run passes. */
static void run_all(const char *config, const char *scheduler, int64_t step)
{
    struct hd_run_spec job;
    struct hd_plan *plan;
    ck_assert_int_eq(load(config, &job), HD_OK);
    ck_assert_int_eq(
        hd_plan_create(job.graph, 0, 1, NULL, job.settings.param_check_interval, &plan), HD_OK);
    int status = HD_ERR_NOMEM;
    int64_t n = 1;
    hd_log_set_sink(drop, NULL);
    for (; status != HD_OK; n += step) {
        ck_assert_int_lt(n, MAX_COUNT);
        status = run(plan, scheduler, n);
        ck_assert_msg(status == HD_OK || status == HD_ERR_NOMEM, "allocation %lld: status %d",
                      (long long)n, status);
    }
    hd_log_set_sink(NULL, NULL);
    printf("%s: about %lld allocations to start and run, %s\n", config, (long long)(n - step - 1),
           scheduler ? scheduler : "sequential");
    hd_plan_destroy(plan);
    hd_run_spec_release(&job);
}

TEST(a_sequential_session_without_memory, .runs = N_CONFIGS)
{
    run_all(configs[_i], NULL, 1);
}

/* StarPU is slow to start, so fewer n are tried. */
TEST(a_session_without_memory, .runs = N_CONFIGS)
{
    run_all(configs[_i], "lws", 97);
}
