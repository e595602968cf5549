/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/team.h"

#include "kernels/envs/gymnasium/describe.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hd_bridge_team *all_teams;

static void release(struct hd_bridge_team *team)
{
    if (team->workers.options)
        hd_bridge_workers_release(&team->workers);
    hd_bridge_options_release(&team->options);
    free(team->settings);
    free(team->taken);
    free(team);
}

/* A worker has whole parallel envs. */
static int64_t limit(int64_t workers, int64_t most)
{
    return workers <= most ? workers : most > 0 ? most : 1;
}

static int fill(struct hd_bridge_team *team, const struct hd_env_settings *settings, char *message)
{
    struct hd_bridge_description description;
    if (hd_bridge_options_read(settings, &team->options, message) != 0 ||
        hd_bridge_describe(&team->options, &description, message) != 0)
        return -1;
    const int64_t parallel = settings->envs / hd_bridge_count_agents(&description);
    const int64_t groups = settings->groups > 1 ? settings->groups : 1;
    team->teams = groups > 1 ? limit(team->options.workers, groups) : 1;
    team->options.workers = groups > 1 ? 1 : limit(team->options.workers, parallel);
    team->envs = settings->envs;
    team->seats = (groups + team->teams - 1) / team->teams;
    team->taken = calloc((size_t)team->seats, sizeof *team->taken);
    team->settings = hd_bridge_options_join(&team->options);
    if (!team->taken || !team->settings)
        return hd_bridge_refuse(message, "out of memory");
    return hd_bridge_workers_init(&team->options, &description, team->seats * team->envs,
                                  team->seats, &team->workers, message);
}

/* Makes a team for groups of these settings: of all workers for a group alone, of one worker for
 * its share of several groups. Returns NULL on error. */
static struct hd_bridge_team *make_team(const struct hd_env_settings *settings, char *message)
{
    struct hd_bridge_team *team = calloc(1, sizeof *team);
    if (!team) {
        hd_bridge_refuse(message, "out of memory");
        return NULL;
    }
    if (fill(team, settings, message) == 0)
        return team;
    release(team);
    return NULL;
}

static bool is_alike(const struct hd_bridge_team *team, const struct hd_bridge_team *other)
{
    return team->seats > 1 && other->seats > 1 && team->envs == other->envs &&
           strcmp(team->settings, other->settings) == 0;
}

/* Returns the emptiest of the teams that take such groups; NULL where there is no room, and while
 * such teams are fewer than are wanted. */
static struct hd_bridge_team *find_open(const struct hd_bridge_team *wanted)
{
    struct hd_bridge_team *best = NULL;
    int64_t alike = 0;
    for (struct hd_bridge_team *team = all_teams; team; team = team->next) {
        if (!is_alike(team, wanted))
            continue;
        alike++;
        if (team->users < team->seats && (!best || team->users < best->users))
            best = team;
    }
    return alike >= wanted->teams ? best : NULL;
}

int hd_bridge_seat_take(const struct hd_env_settings *settings, struct hd_bridge_seat *seat_p,
                        char message[HD_ENV_MESSAGE])
{
    struct hd_bridge_team *made = make_team(settings, message);
    *seat_p = (struct hd_bridge_seat){0};
    if (!made)
        return -1;
    pthread_mutex_lock(&lock);
    struct hd_bridge_team *team = find_open(made);
    if (!team) {
        made->next = all_teams;
        all_teams = team = made;
        made = NULL;
    }
    while (team->taken[seat_p->number])
        seat_p->number++;
    team->taken[seat_p->number] = true;
    team->users++;
    seat_p->team = team;
    pthread_mutex_unlock(&lock);
    if (made)
        release(made);
    return 0;
}

int hd_bridge_team_start(struct hd_bridge_team *team, const struct hd_bridge_user *user,
                         char message[HD_ENV_MESSAGE])
{
    char unused[HD_ENV_MESSAGE];
    if (atomic_load(&team->starts))
        return hd_bridge_workers_start(&team->workers, user, message);
    pthread_mutex_lock(&lock);
    for (struct hd_bridge_team *other = all_teams; other; other = other->next) {
        atomic_store(&other->starts, true);
        hd_bridge_workers_launch(&other->workers, unused); /* tells those who need it */
    }
    pthread_mutex_unlock(&lock);
    return hd_bridge_workers_start(&team->workers, user, message);
}

void hd_bridge_seat_leave(struct hd_bridge_seat *seat)
{
    struct hd_bridge_team *team = seat->team;
    if (!team)
        return;
    pthread_mutex_lock(&lock);
    team->taken[seat->number] = false;
    const bool last = --team->users == 0;
    struct hd_bridge_team **at = &all_teams;
    while (*at != team)
        at = &(*at)->next;
    if (last)
        *at = team->next;
    pthread_mutex_unlock(&lock);
    if (last)
        release(team);
}
