/* SPDX-License-Identifier: Apache-2.0 */
/* runner check-env: plays the environments of a run file by drawn actions, and tells where they
 * break the rules of kernels/envs/env.h, with what to do. */
#include "kernels/envs/find/find.h"
#include "runner/base/commands.h"
#include "runner/base/run_spec.h"
#include "runner/base/signals.h"
#include "runner/check/env_group.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/machine/machine.h"
#include "tasks/types/base/env_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ENVS = 2, STEPS = 1000, WARM = 300, COMPARED = 300, SAVED_AT = 37, EPISODE_MAX = 5000 };
enum { GROWTH_MAX = 8 << 20 };

struct check {
    struct hd_env_kind kind;
    int faults;
};

/* Tells of a fault, and what may cure it. */
static void tell_fault(struct check *check, const char *what, const char *cure)
{
    printf("FAULT  %s\n       %s\n", what, cure);
    check->faults++;
}

static void tell_failure(struct check *check, const char *doing, const struct hd_env_group *group)
{
    char what[sizeof group->fault + 64];
    snprintf(what, sizeof what, "%s: %s", doing, group->fault);
    tell_fault(check, what, "the environment has to return what its spaces say, without errors");
}

/* -- Description ------------------------------------------------------------------------------- */

static void print_actions(const struct hd_env_actions *actions)
{
    static const char *const kinds[] = {"one choice", "choices", "real numbers"};
    printf("actions       %s:", kinds[actions->kind]);
    for (int d = 0; d < actions->dims; d++)
        if (actions->kind == HD_ENV_BOX)
            printf(" [%g, %g]", (double)actions->low[d], (double)actions->high[d]);
        else
            printf(" %" PRId64, actions->n[d]);
    printf("\n");
}

static void print_spaces(const struct hd_env_kind *kind)
{
    char about[HD_ENV_MESSAGE];
    hd_env_describe(kind->env, about);
    printf("%s %s\n", about, kind->settings.env_id);
    for (int i = 0; i < hd_env_count_parts(&kind->spec); i++) {
        const struct hd_env_part part = hd_env_get_part(&kind->spec, i);
        printf("%-14s%s%s%s [", i == 0 ? "observations" : "", part.name, part.name[0] ? ": " : "",
               part.element == HD_ENV_U8 ? "bytes" : "floats");
        for (int d = 0; d < part.dims; d++)
            printf("%s%" PRId64, d > 0 ? ", " : "", part.shape[d]);
        printf("]\n");
    }
    print_actions(&kind->spec.actions);
    if (kind->agents > 1)
        printf("agents        %" PRId64 " of one parallel environment\n", kind->agents);
    printf("saved state   %" PRId64 " bytes\n", kind->state_bytes);
}

/* -- Checks ------------------------------------------------------------------------------------ */

static int start_all(struct hd_env_group *group)
{
    for (int64_t i = 0; i < group->envs; i++)
        if (hd_env_group_start(group, i, 0) != 0)
            return -1;
    return 0;
}

static int open_started(const struct hd_env_kind *kind, int64_t first, int64_t envs,
                        struct hd_env_group *group_p)
{
    return hd_env_group_open(kind, first, envs, group_p) == 0 ? start_all(group_p) : -1;
}

static void tell_growth(struct check *check, int64_t bytes)
{
    char text[96];
    snprintf(text, sizeof text, "memory grew by %.1f MiB in %d steps", (double)bytes / (1 << 20),
             STEPS - WARM);
    if (bytes > GROWTH_MAX)
        tell_fault(check, text, "something keeps what every step makes");
    else if (bytes > 0)
        printf("-      %s\n", text);
}

static int play(struct check *check, struct hd_env_group *group)
{
    const int64_t begin_ns = hd_clock_get_ns();
    int64_t warm_bytes = 0;
    for (int64_t t = 0; t < STEPS && !hd_interrupted; t++) {
        if (hd_env_group_step(group, true) != 0)
            return -1;
        if (t == WARM)
            warm_bytes = hd_memory_count_with_children();
    }
    const double seconds = (double)(hd_clock_get_ns() - begin_ns) * 1e-9;
    printf("ok     %d random steps of %d environments: %" PRId64 " episodes", STEPS, ENVS,
           group->episodes);
    if (group->episodes > 0)
        printf(" of mean length %.1f", (double)STEPS * ENVS / (double)group->episodes);
    printf(", mean reward %.3g, %.0f steps/s\n", group->returns / ((double)STEPS * ENVS),
           (double)STEPS * ENVS * (double)check->kind.agents / seconds);
    tell_growth(check, hd_memory_count_with_children() - warm_bytes);
    return 0;
}

static int check_steps(struct check *check)
{
    struct hd_env_group group;
    int status = open_started(&check->kind, 0, ENVS, &group);
    if (status == 0)
        status = play(check, &group);
    if (status != 0)
        tell_failure(check, "playing", &group);
    hd_env_group_close(&group);
    return status;
}

/* Steps both groups, in which envs of the same number have to show the same; returns the step after
 * which they did not, 0 if they did, or -1 if a group failed. */
static int64_t compare(struct check *check, struct hd_env_group *a, struct hd_env_group *b)
{
    for (int64_t t = 1; t <= COMPARED && !hd_interrupted; t++) {
        struct hd_env_group *failed = hd_env_group_step(a, true) != 0   ? a
                                      : hd_env_group_step(b, true) != 0 ? b
                                                                        : NULL;
        if (failed) {
            tell_failure(check, "comparing", failed);
            return -1;
        }
        if (!hd_env_group_is_part(b, a))
            return t;
    }
    return 0;
}

static void tell_comparison(struct check *check, int64_t at, const char *what, const char *cure)
{
    char text[160];
    if (at == 0)
        printf("ok     %s\n", what);
    if (at <= 0)
        return;
    snprintf(text, sizeof text, "%s: not so at step %" PRId64, what, at);
    tell_fault(check, text, cure);
}

static void check_same_seed(struct check *check)
{
    struct hd_env_group a, b = {0};
    if (open_started(&check->kind, 0, ENVS, &a) != 0)
        tell_failure(check, "starting", &a);
    else if (open_started(&check->kind, 0, ENVS, &b) != 0)
        tell_failure(check, "starting again", &b);
    else
        tell_comparison(check, compare(check, &a, &b), "the same seeds and actions show the same",
                        "something is drawn from elsewhere than the seed, or a clock is read: draw "
                        "from self.np_random in Python, from the env's own state in C");
    hd_env_group_close(&a);
    hd_env_group_close(&b);
}

/* The second env of a group has to be what it is in a group of its own. */
static void check_alone(struct check *check)
{
    struct hd_env_group both, one = {0};
    if (open_started(&check->kind, 0, ENVS, &both) != 0)
        tell_failure(check, "starting", &both);
    else if (open_started(&check->kind, 1, 1, &one) != 0)
        tell_failure(check, "starting one", &one);
    else
        tell_comparison(check, compare(check, &both, &one),
                        "environments of a group do not touch one another",
                        "something is shared: a global, a static or a class variable");
    hd_env_group_close(&both);
    hd_env_group_close(&one);
}

static int copy_all(struct hd_env_group *from, struct hd_env_group *to)
{
    for (int64_t i = 0; i < from->envs; i++)
        if (hd_env_group_copy(from, i, to, i) != 0)
            return -1;
    return 0;
}

static void check_saved(struct check *check)
{
    struct hd_env_group a, b = {0};
    int status = open_started(&check->kind, 0, ENVS, &a);
    for (int64_t t = 0; t < SAVED_AT && status == 0; t++)
        status = hd_env_group_step(&a, true);
    if (status != 0)
        tell_failure(check, "playing", &a);
    else if (hd_env_group_open(&check->kind, 0, ENVS, &b) != 0 || copy_all(&a, &b) != 0)
        tell_failure(check, "saving and loading", &b);
    else
        tell_comparison(check, compare(check, &a, &b),
                        "a state that was saved in an episode goes on as the env does",
                        "the state lacks something that the env's future depends on; an env of "
                        "Gymnasium that remembers earlier episodes needs env.options.save: pickle");
    hd_env_group_close(&a);
    hd_env_group_close(&b);
}

/* Plays env 0 until its episode ends; returns whether it did, -1 if the group failed. */
static int play_episode(struct hd_env_group *group)
{
    for (int64_t t = 0; t < EPISODE_MAX && !hd_interrupted; t++) {
        if (hd_env_group_step(group, false) != 0)
            return -1;
        if (group->done[0])
            return 1;
    }
    return 0;
}

/* Compares an episode after another one with the same episode in a new group. */
static void check_episodes(struct check *check)
{
    static const char what[] = "an episode does not depend on those before it";
    struct hd_env_group a, b = {0};
    int ended = open_started(&check->kind, 0, 1, &a) == 0 ? play_episode(&a) : -1;
    if (ended == 1)
        ended = hd_env_group_start(&a, 0, 1) == 0 ? play_episode(&a) : -1;
    if (ended < 0)
        tell_failure(check, "playing episodes", &a);
    else if (ended == 0)
        printf("-      no two episodes ended in %d steps: whether they depend on each other is not "
               "known\n",
               EPISODE_MAX);
    else if (hd_env_group_open(&check->kind, 0, 1, &b) != 0 || hd_env_group_start(&b, 0, 1) != 0 ||
             play_episode(&b) < 0)
        tell_failure(check, "playing an episode", &b);
    else if (a.played[0].trace == b.played[0].trace)
        printf("ok     %s\n", what);
    else
        tell_fault(check, "an episode depends on those before it",
                   "reset has to set everything; a wrapper that remembers needs env.options.save: "
                   "pickle, and evaluations then have statistics of their own; running means are "
                   "policy.collect.normalize_obs and normalize_reward");
    hd_env_group_close(&a);
    hd_env_group_close(&b);
}

static void check_reset_twice(struct check *check)
{
    struct hd_env_group group;
    if (open_started(&check->kind, 0, 1, &group) != 0) {
        tell_failure(check, "starting", &group);
    } else {
        const uint64_t first = group.played[0].trace;
        if (hd_env_group_start(&group, 0, 0) != 0)
            tell_failure(check, "starting again", &group);
        else if (group.played[0].trace == first)
            printf("ok     a second reset from the same seed shows the same\n");
        else
            tell_fault(
                check, "a second reset from the same seed shows something else",
                "reset has to draw from its seed alone: super().reset(seed=seed) first, then "
                "self.np_random");
    }
    hd_env_group_close(&group);
}

/* Draws what an env shows twice; rgb has room for both pictures. */
static void compare_pictures(struct check *check, struct hd_env_group *group, uint8_t *rgb,
                             size_t bytes)
{
    const struct hd_env_kind *kind = &check->kind;
    char message[HD_ENV_MESSAGE] = "";
    if (kind->env->render(group->group, 0, rgb, message) != 0 ||
        kind->env->render(group->group, 0, rgb + bytes, message) != 0)
        tell_fault(check, message, "render has to return uint8 [height, width, 3]");
    else if (memcmp(rgb, rgb + bytes, bytes) != 0)
        tell_fault(check, "two pictures of one state differ", "render may change nothing");
    else
        printf("ok     pictures of %" PRId64 " x %" PRId64 "\n", kind->spec.render_width,
               kind->spec.render_height);
}

static int check_drawing(struct check *check)
{
    const struct hd_env_spec *spec = &check->kind.spec;
    const int64_t bytes = spec->render_height * spec->render_width * 3;
    struct hd_env_group group;
    if (!check->kind.env->render || bytes == 0)
        return HD_OK;
    uint8_t *rgb = hd_alloc(2 * bytes, 1);
    if (!rgb)
        return HD_ERR_NOMEM;
    if (open_started(&check->kind, 0, 1, &group) == 0)
        compare_pictures(check, &group, rgb, (size_t)bytes);
    else
        tell_failure(check, "starting", &group);
    hd_env_group_close(&group);
    hd_free(rgb);
    return HD_OK;
}

/* -- The command ------------------------------------------------------------------------------- */

static int run_checks(struct check *check)
{
    print_spaces(&check->kind);
    if (check_steps(check) == 0) {
        check_reset_twice(check);
        check_same_seed(check);
        check_alone(check);
        check_saved(check);
        check_episodes(check);
        HD_TRY(check_drawing(check));
    }
    if (hd_interrupted)
        return HD_ERR_INTERRUPTED;
    printf("%s\n", check->faults == 0 ? "no faults" : "the environment breaks rules of training");
    return check->faults == 0 ? HD_OK : HD_ERR_TASK;
}

static int open_env(const struct hd_run_spec *run_spec, struct check *check)
{
    struct hd_env_kind *kind = &check->kind;
    kind->seed = (uint64_t)run_spec->settings.seed;
    HD_TRY(hd_env_options_read(run_spec->config, &kind->settings));
    const int status =
        hd_env_probe(run_spec->config, &kind->settings, (struct hd_source_location){.file = "env"},
                     run_spec->diag, &kind->env, &kind->spec, &kind->state_bytes);
    hd_diag_report(run_spec->diag);
    HD_TRY(status);
    kind->agents = hd_env_count_agents(&kind->spec);
    kind->frame_bytes = hd_env_get_frame_bytes(&kind->spec);
    return HD_OK;
}

int hd_command_check_env(struct hd_options *options)
{
    struct hd_run_spec run_spec;
    struct check check = {0};
    hd_signals_catch();
    int status = hd_run_spec_load(options, 1, &run_spec);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    hd_signals_set_started(0);
    status = open_env(&run_spec, &check);
    if (status == HD_OK)
        status = run_checks(&check);
    hd_env_options_release(&check.kind.settings);
    hd_run_spec_release(&run_spec);
    return hd_status_get_exit_code(status);
}
