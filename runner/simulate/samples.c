/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/samples.h"

#include "runner/simulate/facts.h"
#include "runner/simulate/sockets.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/io/base/json_file.h"

#include <stdlib.h>
#include <string.h>

/* A call of a body, or of a background task all calls. */
struct sample {
    const char *name; /* the JSON's */
    int lane, iteration, shard, item, stage, bucket;
    double begin_s, length_s;
};

/* -- Samples ----------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->begin_s > y->begin_s) - (x->begin_s < y->begin_s);
}

static int compare_kinds(const struct sample *a, const struct sample *b)
{
    const int names = strcmp(a->name, b->name);
    return names != 0 ? names : a->stage != b->stage ? a->stage - b->stage : a->bucket - b->bucket;
}

/* Within a kind, the tasks of a shard in an iteration stand side by side. */
static int by_kind(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    const int kinds = compare_kinds(x, y);
    return kinds != 0                     ? kinds
           : x->iteration != y->iteration ? x->iteration - y->iteration
                                          : x->shard - y->shard;
}

static int by_length(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->length_s > y->length_s) - (x->length_s < y->length_s);
}

/* The lanes of workers come first. */
static int count_workers(const json_t *events)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *name, *lane;
        if (json_unpack(json_array_get(events, i), "{s:s, s:{s:s}}", "name", &name, "args", "name",
                        &lane) == 0 &&
            strcmp(name, "thread_name") == 0 && strncmp(lane, "worker ", 7) == 0)
            n++;
    }
    return n;
}

/* Reads the events of workers, in order of begin. */
static int64_t read_samples(const json_t *events, int workers, struct sample *samples)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        struct sample sample;
        double begin_us, length_us;
        if (json_unpack(json_array_get(events, i),
                        "{s:s, s:i, s:F, s:F, s:{s:i, s:i, s:i, s:i, s:i}}", "name", &sample.name,
                        "tid", &sample.lane, "ts", &begin_us, "dur", &length_us, "args",
                        "iteration", &sample.iteration, "shard", &sample.shard, "part",
                        &sample.bucket, "item", &sample.item, "stage", &sample.stage) != 0 ||
            sample.lane >= workers)
            continue;
        sample.begin_s = begin_us * 1e-6;
        sample.length_s = length_us * 1e-6;
        samples[n++] = sample;
    }
    qsort(samples, (size_t)n, sizeof *samples, by_begin);
    return n;
}

static const struct hd_submitted *find_node(const struct hd_submission *submission,
                                            const struct sample *sample)
{
    const struct hd_submitted *found = NULL;
    for (int i = 0; i < submission->n_nodes && !found; i++) {
        const struct hd_submitted *node = &submission->nodes[i];
        if (node->kind == HD_SUBMITTED_TASK && node->stage == sample->stage &&
            node->bucket == sample->bucket &&
            strcmp(submission->names[node->name], sample->name) == 0)
            found = node;
    }
    return found;
}

/* Makes one sample of the calls of a task, which comes once in an iteration: a background task
 * lasts as long as its time slices, one that waits from its first call to its last. */
static int64_t join_calls(const struct hd_submission *submission, struct sample *samples, int64_t n)
{
    enum { LOOK_BACK = 4096 };
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct hd_submitted *node = find_node(submission, &samples[i]);
        int64_t j = kept;
        const bool many = node && (node->background || node->waits);
        while (many && --j >= 0 && j > kept - LOOK_BACK)
            if (compare_kinds(&samples[i], &samples[j]) == 0 &&
                samples[i].iteration == samples[j].iteration &&
                samples[i].shard == samples[j].shard && samples[i].item == samples[j].item)
                break;
        if (!many || j < 0 || j <= kept - LOOK_BACK)
            samples[kept++] = samples[i];
        else if (node->background)
            samples[j].length_s += samples[i].length_s;
        else
            samples[j].length_s = samples[i].begin_s + samples[i].length_s - samples[j].begin_s;
    }
    return kept;
}

/* -- What they say ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Stores the gaps between the bodies of each worker in gaps[n], sorted. Returns their number. */
static int64_t list_gaps(const struct sample *samples, int64_t n, int workers, double *gaps)
{
    int64_t n_gaps = 0;
    for (int lane = 0; lane < workers; lane++) {
        double end_s = -1;
        for (int64_t i = 0; i < n; i++) {
            if (samples[i].lane != lane)
                continue;
            if (end_s >= 0)
                gaps[n_gaps++] = samples[i].begin_s > end_s ? samples[i].begin_s - end_s : 0;
            end_s = samples[i].begin_s + samples[i].length_s;
        }
    }
    qsort(gaps, (size_t)n_gaps, sizeof *gaps, by_value);
    return n_gaps;
}

/* Returns the time in which no worker is in a body, from the first body to the last. */
static double add_idle(const struct sample *samples, int64_t n)
{
    double idle_s = 0, end_s = samples[0].begin_s;
    for (int64_t i = 0; i < n; i++) {
        const double sample_end_s = samples[i].begin_s + samples[i].length_s;
        idle_s += samples[i].begin_s > end_s ? samples[i].begin_s - end_s : 0;
        end_s = sample_end_s > end_s ? sample_end_s : end_s;
    }
    return idle_s;
}

/* One worker is in a body, starts one, or submits: the typical gap between bodies is what starting
 * costs, and the rest of the time between bodies is what submission does. Several workers also wait
 * for each other: starting costs what the shorter gaps last, and while none of them is in a body,
 * the one that submits does so. */
static int measure_overheads(const struct sample *samples, int64_t n, int workers,
                             struct hd_calibration *calibration)
{
    double *gaps = hd_alloc(n, sizeof *gaps);
    if (!gaps)
        return HD_ERR_NOMEM;
    const int64_t n_gaps = list_gaps(samples, n, workers, gaps);
    calibration->start_s = gaps[workers == 1 ? n_gaps / 2 : n_gaps / 4];
    hd_free(gaps);
    const double rest_s = add_idle(samples, n) / (double)(n - 1) - calibration->start_s / workers;
    calibration->submit_s = rest_s > 0 ? rest_s : 0;
    return HD_OK;
}

static double average(const struct sample *samples, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += samples[i].length_s;
    return sum / (double)(end - begin);
}

/* Returns how many of n samples of a kind a shard has in an iteration, if it has any. */
static double count_each(const struct sample *samples, int64_t n)
{
    int64_t pairs = 1;
    for (int64_t i = 1; i < n; i++)
        pairs += samples[i].iteration != samples[i - 1].iteration ||
                 samples[i].shard != samples[i - 1].shard;
    return (double)n / (double)pairs;
}

static void add_times(const struct hd_submission *submission, struct sample *samples, int64_t n,
                      struct hd_calibration *calibration)
{
    struct hd_task_times *times = &calibration->times[calibration->n_times++];
    const struct hd_submitted *node = find_node(submission, samples);
    *times = (struct hd_task_times){.stage = samples->stage,
                                    .bucket = samples->bucket,
                                    .count = n,
                                    .each = count_each(samples, n),
                                    .volume = node ? node->volume : 0};
    snprintf(times->name, sizeof times->name, "%s", samples->name);
    qsort(samples, (size_t)n, sizeof *samples, by_length);
    times->mean = average(samples, 0, n);
    for (int i = 0; i < HD_TENTHS; i++) {
        const int64_t begin = n * i / HD_TENTHS, end = n * (i + 1) / HD_TENTHS;
        times->tenths[i] = average(samples, begin, end > begin ? end : begin + 1);
    }
}

/* Returns the iteration after the first that makes updates: by then tasks have touched memory and
 * made their plans. */
static int find_warm(const struct hd_submission *submission)
{
    int mark = 0;
    while (mark < submission->n_marks - 1 && submission->marks[mark].updates == 0)
        mark++;
    return mark;
}

/* Returns how many samples of a kind, in order of iterations, come before iteration `warm`; 0 if
 * there are no others. */
static int64_t count_cold(const struct sample *samples, int64_t n, int warm)
{
    int64_t cold = 0;
    while (cold < n && samples[cold].iteration < warm)
        cold++;
    return cold < n ? cold : 0;
}

static int summarize(const struct hd_submission *submission, struct sample *samples, int64_t n,
                     int workers, struct hd_calibration *calibration)
{
    enum { TOO_FEW = 16 };
    if (n < TOO_FEW)
        return hd_fail(HD_ERR_INPUT, "the run was too short");
    HD_TRY(measure_overheads(samples, n, workers, calibration));
    n = join_calls(submission, samples, n);
    qsort(samples, (size_t)n, sizeof *samples, by_kind);
    calibration->times = hd_alloc(n, sizeof *calibration->times);
    if (!calibration->times)
        return HD_ERR_NOMEM;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && compare_kinds(&samples[begin], &samples[end]) == 0;)
            end++;
        const int64_t cold = count_cold(samples + begin, end - begin, find_warm(submission));
        add_times(submission, samples + begin + cold, end - begin - cold, calibration);
    }
    return HD_OK;
}

/* Measures how fast two vectors are added that no cache holds. */
static int measure_adding(double *bytes_per_s_p)
{
    enum { FLOATS = 1 << 22, REPEATS = 8 };
    float *memory = hd_alloc(3 * (int64_t)FLOATS, sizeof *memory);
    if (!memory)
        return HD_ERR_NOMEM;
    const float *operands[] = {memory, memory + FLOATS};
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        const int64_t begin_ns = hd_clock_get_ns();
        hd_tree_add(2, operands, 1, 0, 0, FLOATS, memory + 2 * (int64_t)FLOATS);
        const int64_t ns = hd_clock_get_ns() - begin_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    hd_free(memory);
    *bytes_per_s_p = 3.0 * FLOATS * sizeof(float) / ((double)best_ns * 1e-9);
    return HD_OK;
}

/* -- Runs -------------------------------------------------------------------------------------- */

static int read_run(const struct hd_run_spec *run_spec, const json_t *events,
                    struct hd_calibration *calibration)
{
    const struct hd_comm_hosts one = {1, 1};
    struct hd_submission *submission;
    struct hd_peers *exchanges;
    enum { ITERATIONS = 4 };
    struct sample *samples = hd_alloc((int64_t)json_array_size(events) + 1, sizeof *samples);
    if (!samples)
        return HD_ERR_NOMEM;
    int status = hd_run_spec_record(run_spec, 0, 1, &one, 0, ITERATIONS, &submission, &exchanges);
    if (status == HD_OK) {
        const int workers = count_workers(events);
        const int64_t n = read_samples(events, workers, samples);
        status = summarize(submission, samples, n, workers, calibration);
        hd_submission_release(submission);
        hd_peers_release(exchanges);
    }
    hd_free(samples);
    return status;
}

static int read_trace(const struct hd_run_spec *run_spec, const char *dir,
                      struct hd_calibration *calibration)
{
    char *path = hd_format("%s/trace.json", dir), why[HD_FILE_WHY] = "no memory";
    json_t *trace = path ? hd_json_file_read(path, HD_INPUT_RUN, why) : NULL;
    int status = trace ? read_run(run_spec, json_object_get(trace, "traceEvents"), calibration)
                       : hd_fail(HD_ERR_FORMAT, "%s; runner run --trace writes one", why);
    json_decref(trace);
    hd_free(path);
    return status;
}

int hd_calibration_measure(const struct hd_run_spec *run_spec, const char *dir,
                           struct hd_calibration *calibration)
{
    HD_TRY(measure_adding(&calibration->bytes_per_s));
    HD_TRY(hd_sockets_measure(&calibration->socket_bytes_per_s));
    return read_trace(run_spec, dir, calibration);
}
