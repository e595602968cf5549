/* SPDX-License-Identifier: Apache-2.0 */
/* What an observer keeps of a long run: the newest tasks, and what they wait for. */
#include "runner/simulate/model/submission.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 1 << 16, TASKS = 3 * KEPT + 1000, EVERY = 100 };

/* Each task reads what the one before it wrote, and writes for the next. */
static void submit(struct hd_recorder *recorder, struct hd_buffer *const *buffers,
                   struct hd_task_group *group, int i)
{
    const struct hd_access accesses[] = {{buffers[i % 3], 0, 0, HD_READ},
                                         {buffers[(i + 1) % 3], 0, 0, HD_WRITE}};
    const struct hd_task task = {.verb = "step",
                                 .name = "step",
                                 .context.iteration = i / EVERY,
                                 .accesses = accesses,
                                 .n_accesses = 2,
                                 .group = group};
    ck_assert_int_eq(recorder->task(recorder, &task), HD_OK);
}

static char *observe(struct hd_session *session)
{
    struct hd_observer *observer;
    struct hd_buffer *buffers[3];
    struct hd_task_group group = {0};
    static char *text;
    size_t bytes;
    ck_assert_int_eq(hd_observer_create(0, NULL, &observer), HD_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffers[i]), HD_OK);
    struct hd_recorder *recorder = hd_observer_get_recorder(observer);
    for (int i = 0; i < TASKS; i++) {
        if (i % EVERY == 0)
            ck_assert_int_eq(hd_observer_begin_iteration(observer, i / EVERY, i / EVERY), HD_OK);
        submit(recorder, buffers, &group, i);
    }
    ck_assert_int_eq(recorder->wait(recorder, &group), HD_OK);
    FILE *file = open_memstream(&text, &bytes);
    hd_observer_write(observer, 0, file);
    fclose(file);
    for (int i = 0; i < 3; i++)
        hd_buffer_destroy(buffers[i]);
    hd_observer_destroy(observer);
    return text;
}

/* Line by line: both sscanf and the sanitizer's strstr look for the end of the whole text. */
static void check_tasks(char *text)
{
    int number, before, n = 0, expected = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        if (sscanf(line, "[0,%d,", &number) != 1)
            continue;
        ck_assert(n++ == 0 || number == expected);
        expected = number + 1;
        if (strncmp(line + strcspn(line, "\""), "\"wait\"", 6) == 0)
            continue;
        const char *list = strchr(line + 1, '[');
        ck_assert(n == 1 ? list[1] == ']'
                         : sscanf(list, "[%d", &before) == 1 && before == number - 1);
    }
    ck_assert_int_eq(number, TASKS + 1);
    ck_assert(n >= KEPT && n <= 2 * KEPT);
}

TEST(the_newest_tasks_are_kept)
{
    const struct hd_session_options options = {.sequential = true, .workers = 1, .ranks = 1};
    struct hd_session *session;
    int iteration, number, updates;
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    char *text = observe(session);
    ck_assert_int_eq(sscanf(text, "\"iterations\":[\n[0,%d,%d,%d,", &iteration, &number, &updates),
                     3);
    ck_assert_int_eq(number, 1 + EVERY * iteration);
    ck_assert_int_eq(updates, iteration);
    check_tasks(strstr(text, "\"tasks\":["));
    free(text);
    hd_session_destroy(session);
}
