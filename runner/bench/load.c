/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/bench/load.h"

#include "runner/report/outcome.h"
#include "runtime/base/clock.h"
#include "runtime/base/input/input.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* -- Reading ----------------------------------------------------------------------------------- */

/* Adds the times of the CPUs in the set, in seconds. */
static void read_times(const cpu_set_t *allowed, struct hd_load *load)
{
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    char line[512];
    FILE *file = fopen("/proc/stat", "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned cpu;
        double user, nice, system, idle, wait, irq, soft, stolen;
        if (sscanf(line, "cpu%u %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &user, &nice, &system,
                   &idle, &wait, &irq, &soft, &stolen) != 9 ||
            cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, allowed))
            continue;
        const double busy = user + nice + system + irq + soft;
        load->busy_s += tick_s * busy;
        load->stolen_s += tick_s * stolen;
        load->total_s += tick_s * (busy + idle + wait + stolen);
    }
    if (file)
        fclose(file);
}

static double read_number(const char *path)
{
    char why[HD_INPUT_WHY];
    double number = NAN;
    FILE *file = hd_input_open_stream(path, HD_INPUT_RUN, why);
    if (file && fscanf(file, "%lf", &number) != 1)
        number = NAN;
    if (file)
        fclose(file);
    return number;
}

static double read_mhz(const cpu_set_t *allowed)
{
    double sum = 0;
    char path[96];
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
        sum += read_number(path) * 1e-3;
    }
    return sum / CPU_COUNT(allowed);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

void hd_load_read(struct hd_load *load_p)
{
    cpu_set_t allowed;
    struct rusage usage;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    getrusage(RUSAGE_CHILDREN, &usage);
    *load_p = (struct hd_load){.load = read_number("/proc/loadavg"),
                               .mhz = read_mhz(&allowed),
                               .ours_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
                               .at_ns = hd_clock_get_ns(),
                               .cpus = CPU_COUNT(&allowed)};
    read_times(&allowed, load_p);
}

/* -- What it says ------------------------------------------------------------------------------ */

json_t *hd_load_build_json(const struct hd_load *before, const struct hd_load *after)
{
    const double seconds = (double)(after->at_ns - before->at_ns) * 1e-9;
    const double others_s = after->busy_s - before->busy_s - (after->ours_s - before->ours_s);
    const double total_s = after->total_s - before->total_s;
    json_t *load = json_pack("[o, o]", hd_json_number(before->load), hd_json_number(after->load));
    json_t *mhz = json_pack("[o, o]", hd_json_number(before->mhz), hd_json_number(after->mhz));
    return json_pack("{s:o, s:o, s:i, s:o, s:o}", "load", load, "mhz", mhz, "cpus", after->cpus,
                     "others", hd_json_number(fmax(0, others_s / seconds)), "stolen",
                     hd_json_number((after->stolen_s - before->stolen_s) / total_s));
}

double hd_load_get_mhz(const json_t *load)
{
    const json_t *mhz = json_object_get(load, "mhz"), *before = json_array_get(mhz, 0),
                 *after = json_array_get(mhz, 1);
    return json_is_number(before) && json_is_number(after)
               ? fmin(json_number_value(before), json_number_value(after))
               : NAN;
}

static double number(const json_t *load, const char *key)
{
    return json_number_value(json_object_get(load, key));
}

void hd_load_describe(const json_t *loads, double mhz, char *text, size_t bytes)
{
    double others = 0, stolen = 0, slowest = mhz;
    size_t i, n = 0;
    json_t *load;
    json_array_foreach(loads, i, load) {
        others = fmax(others, number(load, "others"));
        stolen = fmax(stolen, number(load, "stolen"));
        slowest = fmin(slowest, hd_load_get_mhz(load)); /* which passes over NaN */
        n += number(load, "others") > HD_LOAD_OTHERS || number(load, "stolen") > HD_LOAD_STOLEN ||
             hd_load_get_mhz(load) < HD_LOAD_SLOW * mhz;
    }
    char parts[3][64] = {"", "", ""};
    if (others > HD_LOAD_OTHERS)
        snprintf(parts[0], sizeof *parts, ", others on %.1f CPUs", others);
    if (stolen > HD_LOAD_STOLEN)
        snprintf(parts[1], sizeof *parts, ", %.0f %% stolen", 100 * stolen);
    if (slowest < HD_LOAD_SLOW * mhz)
        snprintf(parts[2], sizeof *parts, ", %.0f MHz in place of %.0f", slowest, mhz);
    text[0] = '\0';
    if (n > 0)
        snprintf(text, bytes, "%zu of %zu runs%s%s%s", n, json_array_size(loads), parts[0],
                 parts[1], parts[2]);
}
