/* SPDX-License-Identifier: Apache-2.0 */
/* runner run: this process is one rank. */
#include "graph/plan/plan.h"
#include "runner/base/commands.h"
#include "runner/base/origins.h"
#include "runner/base/signals.h"
#include "runner/trace/trace_file.h"
#include "runner/train/base/train.h"
#include "runner/train/failed.h"
#include "runner/train/gpu_failure.h"
#include "runner/train/origins.h"
#include "runner/train/outputs/checkpoints.h"
#include "runner/train/outputs/fields.h"
#include "runner/train/outputs/metrics.h"
#include "runner/train/outputs/outputs.h"
#include "runner/train/outputs/results.h"
#include "runner/train/outputs/resume.h"
#include "runner/train/outputs/traces.h"
#include "runner/train/outputs/videos.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/crash.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/io/logbook.h"
#include "runtime/io/reserve.h"
#include "runtime/launch/launch.h"
#include "runtime/machine/machine.h"
#include "tasks/output/inspect.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -- Start ------------------------------------------------------------------------------------- */

/* Binds this process before it makes any thread, so that all inherit the binding. */
static int bind_to_cores(struct hd_train *train, const struct hd_topology *topology)
{
    const struct hd_world *world = &train->ranks.world;
    const bool divided =
        world->launcher != HD_LAUNCHER_ENV && hd_topology_is_divided(topology, world->local_world);
    hd_topology_assign_cores(topology, divided ? 0 : world->local_rank,
                             divided ? 1 : world->local_world, &train->share);
    int status = hd_topology_bind(topology, &train->share);
    if (train->share.oversubscribed && train->ranks.world.rank == 0 &&
        !train->ranks.world.supervised)
        hd_log(HD_LOG_WARN, "%d ranks share %d cores: expect less speed",
               train->ranks.world.local_world, hd_topology_count_cores(topology));
    return status;
}

/* The thread that serves a GPU polls without a pause. It gets a core to itself, where another is
 * left for all other threads. */
static int leave_cores_to_gpus(struct hd_train *train, const struct hd_topology *topology)
{
    struct hd_core_share rest = train->share;
    struct hd_gpus *gpus = &train->gpus;
    if (gpus->plan.n == 0 || rest.oversubscribed || rest.cores <= gpus->plan.n ||
        train->run_spec.settings.sequential)
        return HD_OK;
    for (int i = 0; i < gpus->plan.n; i++)
        gpus->cpus[i] =
            hd_topology_take_core(topology, gpus->found[gpus->share.devices[i]].core, &rest);
    gpus->bound = true;
    return hd_topology_bind(topology, &rest);
}

/* Takes the cores of this rank, reads the run file and looks for GPUs. */
static int bind_and_load(struct hd_train *train, const struct hd_topology *topology)
{
    HD_TRY(bind_to_cores(train, topology));
    HD_TRY(hd_run_spec_load(train->options, train->ranks.world.world, &train->run_spec));
    HD_TRY(hd_resume_find(train));
    return hd_gpus_find(&train->run_spec, topology, &train->ranks.world, &train->gpus);
}

/* Takes this rank's GPUs, of those that the ranks that have met find together. */
static int take_gpus(struct hd_train *train, const struct hd_topology *topology)
{
    HD_TRY(hd_gpus_choose(&train->run_spec, &train->ranks.world, train->ranks.rendezvous,
                          &train->gpus));
    HD_TRY(leave_cores_to_gpus(train, topology));
    if (train->ranks.world.rank == 0 && train->options->measure_after < 0)
        hd_run_spec_explain(&train->run_spec, train->gpus.plan.n > 0);
    return HD_OK;
}

static void on_lost(void *arg, int rank, int status, const char *text)
{
    struct hd_train *train = arg;
    train->lost_rank = rank;
    char where[HD_RENDEZVOUS_TEXT / 2], line[HD_RENDEZVOUS_TEXT];
    hd_comm_report(train->ranks.comm, where, sizeof where);
    snprintf(line, sizeof line, "%.*s (%s)", HD_RENDEZVOUS_TEXT / 2 - 4, text, where);
    hd_comm_abort(train->ranks.comm, &(struct hd_comm_failure){rank, status, line});
    hd_checkpoint_writer_abandon(train->checkpoints.writer);
}

static void on_message(void *arg, int rank, const void *data, int64_t bytes)
{
    struct hd_train *train = arg;
    if (!hd_traces_receive(train, data, bytes))
        hd_checkpoint_writer_receive(train->checkpoints.writer, rank, data, bytes);
}

static void run_describe(void *arg, char *text, int64_t bytes)
{
    struct hd_train *train = arg;
    hd_monitor_describe(&train->monitor, text, bytes);
}

static int64_t get_progress(void *arg)
{
    return hd_monitor_count_progress(&((struct hd_train *)arg)->monitor);
}

static void tell_launcher(const struct hd_train *train)
{
    if (train->ranks.world.supervised && train->ranks.world.local_rank == 0)
        hd_launch_tell_dir(train->dir);
}

/* Tells all ranks the run directory, since all write there. */
static int share_dir(struct hd_train *train)
{
    char dir[HD_RENDEZVOUS_MAX_BYTES] = "";
    if (train->ranks.world.rank == 0 && strlen(train->dir) >= sizeof dir)
        return hd_fail(HD_ERR_INPUT, "the run directory's name is too long: %s", train->dir);
    if (train->ranks.world.rank == 0)
        strcpy(dir, train->dir);
    HD_TRY(hd_rendezvous_broadcast(train->ranks.rendezvous, dir, sizeof dir));
    hd_free(train->dir);
    train->dir = hd_strdup(dir);
    if (!train->dir)
        return HD_ERR_NOMEM;
    train->outputs.opened = true;
    tell_launcher(train);
    return HD_OK;
}

/* Joins the ranks whose configs and whose checkpoints to go on from are the same. */
static int join_equal_ranks(struct hd_train *train)
{
    if (train->ranks.world.world == 1)
        return HD_OK;
    const int64_t from = train->resume_from ? hd_checkpoint_get_iteration(train->resume_from) : -1;
    char *list = hd_run_spec_list(&train->run_spec), *text = NULL;
    if (list)
        text = hd_format("%sthe checkpoint to resume from\t%lld\t%s %lld\n", list, (long long)from,
                         from < 0 ? "none:" : "iteration", (long long)from);
    free(list);
    if (!text)
        return HD_ERR_NOMEM;
    const int status =
        hd_ranks_join(&train->ranks, &train->run_spec.settings,
                      hd_hash_mix(hd_run_spec_hash(&train->run_spec), (uint64_t)from), text,
                      train->fingerprint.text);
    hd_free(text);
    return status;
}

static int connect_ranks(struct hd_train *train)
{
    if (train->ranks.world.world == 1)
        return HD_OK;
    HD_TRY(hd_origins_check(train));
    int status = train->ranks.world.rank == 0 ? hd_outputs_open(train) : HD_OK;
    HD_TRY(hd_rendezvous_agree(train->ranks.rendezvous, status,
                               "rank 0 cannot make the run directory"));
    HD_TRY(share_dir(train));
    HD_TRY(hd_ranks_connect(&train->ranks, &train->run_spec.settings, train->plan, &train->gpus));
    HD_TRY(hd_checkpoints_open(train)); /* before other ranks can say anything about them */
    const struct hd_rendezvous_watch_options watch = {
        .on_lost = on_lost,
        .on_message = on_message,
        .describe = run_describe,
        .get_progress = get_progress,
        .arg = train,
        .heartbeat_timeout_s = train->run_spec.settings.heartbeat_timeout_s,
    };
    return hd_rendezvous_watch(train->ranks.rendezvous, &watch);
}

/* A rank that is alone meets nobody. */
static int open_alone(struct hd_train *train)
{
    if (train->ranks.world.world > 1)
        return HD_OK;
    HD_TRY(hd_origins_check(train));
    HD_TRY(hd_outputs_open(train));
    tell_launcher(train);
    return hd_checkpoints_open(train);
}

static void show_waiting(void *arg)
{
    struct hd_train *train = arg;
    if (train->outputs.iteration_ns > 0)
        hd_outputs_show_progress(train);
}

static int start_session(struct hd_train *train)
{
    const struct hd_settings *settings = &train->run_spec.settings;
    HD_TRY(hd_traces_open(train));
    struct hd_session_options options = {
        .sequential = settings->sequential,
        .observer = hd_observer_get_recorder(train->trace.observer),
        .workers = train->workers.n,
        .scheduler = train->workers.scheduler,
        .performance_models = settings->performance_models,
        .models_dir = train->workers.models_dir,
        .keeps_models = train->ranks.world.local_rank == 0,
        .rank = train->ranks.world.rank,
        .ranks = train->ranks.world.world,
        .comm = train->ranks.comm,
        .exchange = hd_run_spec_get_exchange(&train->run_spec),
        .scratch_bytes = hd_plan_get_scratch_bytes(train->plan),
        .n_devices = train->plan->devices,
        .bind_devices = train->gpus.bound,
        .device_scratch_bytes = hd_plan_get_device_scratch_bytes(train->plan),
        .device_comm = train->ranks.device_comm,
        .library_order = settings->library_order,
        .device_comm_bytes =
            train->ranks.device_comm ? hd_plan_get_device_comm_bytes(train->plan) : 0,
        .watchdog_ns = (int64_t)(settings->watchdog_s * 1e9),
        .trace_capacity = train->options->trace ? HD_TRACE_RING : 0,
        .logbook = train->outputs.logbook,
        .dump_views = hd_failed_batch_write,
        .dump_arg = train->dir,
        .interrupted = &hd_interrupted,
        .waiting = train->ranks.world.rank == 0 ? show_waiting : NULL,
        .waiting_arg = train,
    };
    for (int i = 0; i < options.n_devices; i++) {
        options.devices[i] = train->gpus.share.devices[i];
        options.device_cpus[i] = train->gpus.cpus[i];
    }
    return hd_session_create(&options, &train->session);
}

/* Puts off the evaluations of the run file, which would hide what the rest costs. */
static void skip_evaluations(const struct hd_graph *graph)
{
    for (int i = 0; i < graph->total_steps; i++) {
        struct hd_step *step = graph->all_steps[i];
        if (step->verb && strcmp(step->verb->name, "evaluate") == 0 && step->every > 0)
            step->first = INT64_MAX;
    }
}

static void tick(void *arg)
{
    struct hd_train *train = arg;
    hd_traces_begin_iteration(train);
    if (train->ranks.world.rank != 0)
        return;
    hd_stopwatch_tick(&train->timing.watch, hd_session_get_trace(train->session),
                      hd_executor_get_counter(train->executor, "update"),
                      hd_executor_get_counter(train->executor, "iteration"));
    hd_metrics_sample(train->outputs.metrics, train);
    train->outputs.iteration_ns = hd_clock_get_ns();
    hd_outputs_show_progress(train);
    hd_videos_poll(train);
}

static int create_executor(struct hd_train *train)
{
    const struct hd_executor_options options = {
        .window = train->run_spec.settings.window,
        .tick = train->ranks.world.rank == 0 || train->options->trace ? tick : NULL,
        .tick_arg = train,
        .get_requests = hd_checkpoints_get_requests,
        .apply_requests = hd_checkpoints_apply_requests,
        .save_at_stop = hd_checkpoints_save_at_stop,
        .requests_arg = train,
    };
    return hd_executor_create(train->plan, train->session, &options, &train->executor);
}

/* The fingerprint names the libraries that compute and the kind of GPU. */
static int take_fingerprint(struct hd_train *train)
{
    char libraries[256];
    hd_arithmetic_describe_libraries(libraries, sizeof libraries);
    if (train->gpus.n_found > 0) {
        const size_t used = strlen(libraries);
        snprintf(libraries + used, sizeof libraries - used, ", ");
        hd_device_get_name(0, libraries + used + 2, (int64_t)(sizeof libraries - used - 2));
    }
    return hd_fingerprint_create(hd_arithmetic_get_isa(), libraries,
                                 train->run_spec.settings.precision, &train->fingerprint);
}

/* Ranks that are not told how many are on their host alike still make one plan. */
static int find_one_host(const struct hd_train *train, bool *one_host_p)
{
    *one_host_p = train->ranks.world.local_world == train->ranks.world.world;
    return hd_rendezvous_broadcast(train->ranks.rendezvous, one_host_p, sizeof *one_host_p);
}

static int make_plan(struct hd_train *train)
{
    bool one_host;
    HD_TRY(find_one_host(train, &one_host));
    HD_TRY(hd_plan_create(train->run_spec.graph, train->ranks.world.rank, train->ranks.world.world,
                          &train->gpus.plan, train->run_spec.settings.param_check_interval,
                          &train->plan));
    hd_plan_assign_channels(train->plan, train->run_spec.settings.open_exchanges, one_host);
    HD_TRY(hd_workers_choose(&train->run_spec.settings, &train->share,
                             train->ranks.world.local_world, train->plan->devices,
                             &train->workers));
    hd_workers_find_models(&train->run_spec.settings, train->ranks.world.local_rank == 0,
                           &train->workers);
    if (train->ranks.world.supervised) /* the launcher has checked it, and told it once */
        return HD_OK;
    return hd_plan_check_memory(train->plan, train->ranks.world.local_world,
                                hd_memory_count_available());
}

/* Meets the other ranks, and plans with what all of them have. */
static int meet_and_plan(struct hd_train *train, const struct hd_topology *topology)
{
    HD_TRY(bind_and_load(train, topology));
    if (train->options->measure_after >= 0 && !train->options->evaluate)
        skip_evaluations(train->run_spec.graph);
    HD_TRY(take_fingerprint(train));
    HD_TRY(hd_resume_check(train));
    HD_TRY(hd_origins_find(&train->run_spec, &train->origins));
    HD_TRY(join_equal_ranks(train));
    HD_TRY(take_gpus(train, topology));
    return make_plan(train);
}

static int prepare(struct hd_train *train)
{
    struct hd_topology *topology;
    HD_TRY(hd_world_read(&train->ranks.world));
    hd_log_set_rank(train->ranks.world.rank, train->ranks.world.world);
    HD_TRY(hd_world_read_secret(&train->ranks.world, train->options->secret_file,
                                train->options->insecure));
    HD_TRY(hd_topology_create(NULL, &topology));
    const int status = meet_and_plan(train, topology);
    hd_topology_destroy(topology);
    HD_TRY(status);
    HD_TRY(connect_ranks(train));
    hd_signals_set_started(train->run_spec.settings.sigterm_grace_s);
    HD_TRY(open_alone(train));
    HD_TRY(start_session(train));
    HD_TRY(create_executor(train));
    atomic_store(&train->monitor.session, train->session);
    return hd_resume_restore(train);
}

/* -- End --------------------------------------------------------------------------------------- */

/* Says why a run that a signal stopped has no checkpoint of that moment, and what it goes on from.
 */
static void report_late_stop(const struct hd_train *train)
{
    char last[HD_MESSAGE_BYTES / 4];
    if (train->ranks.world.rank != 0)
        return;
    hd_checkpoints_describe_last(train, last, sizeof last);
    hd_log(HD_LOG_WARN,
           "%s in an iteration that has lasted %.1f s, and checkpoints come between iterations: %s",
           hd_session_get_message(train->session),
           (double)(hd_clock_get_ns() - train->outputs.iteration_ns) * 1e-9, last);
}

/* Says what a run has left that ended in order because of a signal. */
static void report_orderly_stop(const struct hd_train *train)
{
    char last[HD_MESSAGE_BYTES / 4];
    if (train->checkpoints.can_resume) {
        hd_log(HD_LOG_WARN, "stopped; --resume %s continues from this checkpoint", train->dir);
        return;
    }
    hd_checkpoints_describe_last(train, last, sizeof last);
    hd_log(HD_LOG_WARN, "stopped; no checkpoint could be written: %s", last);
}

/* Tells why this rank leaves. Ranks of other hosts would take its closed connections for the cause,
 * since a rank that failed may be slower to leave than those of its host that know. */
static void tell_ranks(const struct hd_train *train, int status, int cause, const char *message)
{
    struct hd_comm_failure failure;
    if (status != HD_ERR_PEER)
        hd_rendezvous_fail(train->ranks.rendezvous, status, message);
    else if (train->ranks.comm && hd_comm_get_failure(train->ranks.comm, &failure))
        hd_rendezvous_pass_on(train->ranks.rendezvous, failure.rank, cause, message);
}

/* Logs the failure of this rank. One message per run names a failure, so that of another rank is
 * left to whoever supervises. */
static void report_failure(struct hd_train *train, int status)
{
    hd_gpu_failure_wait();
    if (status == HD_ERR_WATCHDOG ||
        (train->ranks.world.rank == 0 && hd_session_get_cause(train->session) == HD_ERR_WATCHDOG))
        hd_monitor_show(&train->monitor);
    const char *message = hd_session_get_message(train->session);
    if (train->checkpoints.stop_signal && hd_session_get_status(train->session) == HD_OK) {
        if (train->ranks.world.rank == 0)
            report_orderly_stop(train);
        return;
    }
    const int cause = hd_session_get_cause(train->session);
    if (hd_status_is_stop(cause))
        report_late_stop(train);
    tell_ranks(train, status, cause, message);
    const struct hd_world *world = &train->ranks.world;
    if (status == HD_ERR_PEER && world->supervised &&
        (world->local_rank != 0 || world->local_world == world->world)) /* the launcher says why */
        return;
    if (hd_status_is_stop(cause))
        return;
    hd_log(HD_LOG_ERROR, "%s", message);
}

/* The main thread is in a task that does not return. */
static void record_end(void *arg, int status)
{
    struct hd_train *train = arg;
    if (hd_status_is_stop(status))
        report_late_stop(train);
    hd_end_record(train, status);
}

static int run(struct hd_train *train)
{
    const char *reason = NULL;
    train->monitor.record = record_end;
    train->monitor.arg = train;
    train->monitor.starter = train->ranks.world.starter;
    HD_TRY(hd_monitor_start(&train->monitor, train->ranks.world.rank, train->ranks.rendezvous));
    train->timing.train_ns = hd_clock_get_ns();
    train->timing.first_update = hd_executor_get_counter(train->executor, "update");
    train->timing.first_env_step = hd_fields_count_env_steps(train);
    if (train->ranks.world.rank == 0)
        train->outputs.metrics = hd_metrics_start(train);
    int status = hd_executor_run(train->executor, &reason);
    hd_metrics_end(train->outputs.metrics, train,
                   status == HD_OK ? reason : hd_status_get_text(status));
    hd_log_show_progress(NULL);
    if (status != HD_OK) {
        hd_monitor_note_end(&train->monitor);
        report_failure(train, status);
    } else if (train->ranks.world.rank == 0)
        status = hd_results_write(train, reason);
    else
        status = hd_traces_leave_part(train);
    return status;
}

static void release(struct hd_train *train)
{
    if (train->session && hd_session_get_status(train->session) != HD_OK)
        hd_checkpoint_writer_abandon(train->checkpoints.writer);
    hd_videos_stop(train);
    hd_monitor_stop(&train->monitor); /* the wait has a deadline of its own */
    if (train->checkpoints.writer)    /* while the other ranks are still heard */
        hd_checkpoint_writer_wait(train->checkpoints.writer);
    /* Freeing a GPU's memory would wait for what the device comm has there, which waits for other
     * ranks. */
    if (train->ranks.device_comm &&
        (!train->session || hd_session_get_status(train->session) != HD_OK))
        hd_device_comm_abort(train->ranks.device_comm);
    hd_checkpoint_close(train->resume_from);
    hd_executor_destroy(train->executor);
    hd_session_destroy(train->session);
    hd_traces_close(train);
    hd_free(train->workers.models_dir);
    hd_ranks_leave(&train->ranks);
    hd_checkpoint_writer_destroy(train->checkpoints.writer);
    hd_logbook_destroy(train->outputs.logbook);
    if (train->outputs.dir_lock >= 0)
        hd_reserve_remove(train->dir);
    hd_plan_destroy(train->plan);
    hd_run_spec_release(&train->run_spec);
    json_decref(train->origins);
    hd_free(train->dir);
    if (train->outputs.dir_lock >= 0)
        close(train->outputs.dir_lock);
}

/* mpirun takes the first exit code for the run's, so the rank that failed is to be first. */
static void delay_exit_of_bystanders(const struct hd_train *train, int status)
{
    enum { DELAY_MS = 300 };
    if (status == HD_ERR_PEER && train->ranks.world.launcher != HD_LAUNCHER_ENV)
        nanosleep(&(struct timespec){.tv_nsec = DELAY_MS * 1000000L}, NULL);
}

static int exit_code(const struct hd_train *train, int status)
{
    if (status == HD_ERR_PEER && train->ranks.world.supervised)
        return HD_EXIT_PEER;
    return hd_status_get_exit_code(status);
}

int hd_command_run(struct hd_options *options)
{
    struct hd_train train = {
        .options = options,
        .monitor = {.lock = PTHREAD_MUTEX_INITIALIZER},
        .outputs = {.dir_lock = -1},
        .lost_rank = -1,
        .timing = {.begin_ns = hd_clock_get_ns(), .watch = {.after = options->measure_after}},
    };
    hd_signals_catch();
    hd_crash_catch();
    hd_gpu_failure_catch(&train);
    hd_monitor_prepare();
    int status = prepare(&train);
    if (status < HD_OK)
        hd_rendezvous_fail(train.ranks.rendezvous, status, "it cannot start");
    if (status == HD_OK)
        status = run(&train);
    if (status < HD_OK)
        hd_end_record(&train, status);
    int code = status == HD_RESUME_ENDED ? 0 : exit_code(&train, status);
    delay_exit_of_bystanders(&train, status);
    release(&train);
    hd_gpu_failure_leave();
    if (status == HD_OK)
        hd_mpi_leave();
    return code;
}
