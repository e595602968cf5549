/* SPDX-License-Identifier: Apache-2.0 */
/* runner watch: plays under a policy, at the pace of people, in the terminal or on a page. The
 * weights are read again whenever their file is another, as while a run trains. */
#include "runner/base/commands.h"
#include "runner/base/embed.h"
#include "runner/base/signals.h"
#include "runner/play/stage.h"
#include "runner/server/server.h"
#include "runner/watch/picture.h"
#include "runner/watch/terminal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

HD_EMBED(hd_watch_page, HD_WATCH_PAGE);

struct watch {
    struct hd_options *options;
    struct hd_stage stage;
    enum hd_picture_form form;
    struct hd_server *server; /* NULL: there is a terminal */
    uint8_t *picture;
    int64_t height, width;
    struct stat file; /* the weights that play */
    int64_t episode;  /* from 1 */
    int64_t next_ns;  /* when the next picture is due */
    bool quit;
};

/* -- What is shown ----------------------------------------------------------------------------- */

/* Writes the time of day at which the weights were written. */
static void format_age(const struct watch *watch, char text[16])
{
    struct tm when;
    if (!localtime_r(&watch->file.st_mtime, &when) || strftime(text, 16, "%H:%M:%S", &when) == 0)
        strcpy(text, "-");
}

static int show_in_terminal(const struct watch *watch, const char *action, const char *age)
{
    const struct hd_player_episode episode = hd_player_get_episode(watch->stage.player);
    const struct hd_terminal_size size = hd_terminal_get_size();
    char line[256];
    snprintf(line, sizeof line,
             "episode %" PRId64 "  seed %" PRIu64 "  step %" PRId64
             "  action %s  return %.6g  weights %s  q: quit",
             watch->episode, episode.seed, episode.steps, action, episode.episode_return, age);
    HD_TRY(
        hd_picture_write(watch->form, watch->picture, watch->height, watch->width, &size, stdout));
    printf("\033[%d;1H%.*s\033[K", size.rows, size.columns, line);
    return fflush(stdout) == 0 ? HD_OK : HD_ERR_STOPPED; /* the terminal is gone */
}

/* Returns what the page shows, with the picture png[bytes]; NULL: no memory. */
static char *format_event(const struct watch *watch, const char *png, size_t bytes,
                          const char *action, const char *age)
{
    const struct hd_player_episode episode = hd_player_get_episode(watch->stage.player);
    const struct hd_config *config = watch->stage.inference.run_spec.config;
    const char *id = hd_config_get_text(config, "env.env_id");
    char *picture = hd_picture_encode_base64(png, bytes), *text = NULL;
    json_t *event =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:s, s:s*}", "run", watch->options->config,
                  "env", id[0] ? id : hd_config_get_text(config, "env.type"), "episode",
                  watch->episode, "seed", (json_int_t)episode.seed, "step", episode.steps, "action",
                  action, "return", episode.episode_return, "weights", age, "picture", picture);
    if (event && picture)
        text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(event);
    hd_free(picture);
    return text;
}

static int show_on_page(const struct watch *watch, const char *action, const char *age)
{
    size_t bytes = 0;
    char *png = hd_picture_make_png(watch->picture, watch->height, watch->width, &bytes);
    char *event = png ? format_event(watch, png, bytes, action, age) : NULL;
    int status = event ? hd_server_set_picture(watch->server, png, bytes) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_server_publish(watch->server, event);
    free(event);
    free(png);
    return status;
}

static int show(const struct watch *watch)
{
    char action[HD_PLAYER_ACTION_TEXT], age[16];
    HD_TRY(hd_player_draw(watch->stage.player, watch->picture));
    hd_player_format_action(watch->stage.player, action);
    format_age(watch, age);
    return (watch->server ? show_on_page : show_in_terminal)(watch, action, age);
}

/* -- Time -------------------------------------------------------------------------------------- */

static bool has_ended(const struct watch *watch)
{
    return watch->quit || hd_interrupted != 0;
}

static void listen_for(struct watch *watch, int timeout_ms)
{
    if (watch->server) {
        hd_server_serve(watch->server, timeout_ms);
        return;
    }
    const int key = hd_terminal_read_key(timeout_ms);
    watch->quit |= key == HD_TERMINAL_QUIT || key == HD_TERMINAL_CTRL_C;
}

/* Waits until `pictures` more could have been shown. A player that is late does not catch up. */
static void wait(struct watch *watch, int64_t pictures)
{
    const int64_t gap_ns = pictures * 1000000000 / watch->options->fps;
    int64_t now_ns = hd_clock_get_ns();
    watch->next_ns += gap_ns;
    if (watch->next_ns < now_ns)
        watch->next_ns = now_ns;
    do {
        listen_for(watch, (int)((watch->next_ns - now_ns) / 1000000));
        now_ns = hd_clock_get_ns();
    } while (!has_ended(watch) && watch->next_ns - now_ns >= 1000000);
}

/* -- Playing ----------------------------------------------------------------------------------- */

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* Loads the weights again if the file is a new one. */
static int renew_weights(struct watch *watch)
{
    struct stat file;
    if (stat(watch->options->weights, &file) != 0 || is_same(&file, &watch->file))
        return HD_OK;
    watch->file = file;
    return hd_weights_load(&watch->stage.inference.weights, watch->options->weights);
}

static int play_episode(struct watch *watch)
{
    struct hd_player *player = watch->stage.player;
    HD_TRY(hd_player_start(player, watch->stage.seed + (uint64_t)watch->episode++));
    HD_TRY(show(watch));
    wait(watch, 1);
    while (!has_ended(watch) && !hd_player_get_episode(player).ended) {
        HD_TRY(renew_weights(watch));
        HD_TRY(hd_player_step(player));
        HD_TRY(show(watch));
        wait(watch, 1);
    }
    wait(watch, watch->options->fps / 2); /* so that the end can be seen */
    return HD_OK;
}

static int play(struct watch *watch)
{
    const int64_t episodes = watch->options->episodes;
    watch->next_ns = hd_clock_get_ns();
    while (!has_ended(watch) && (episodes == 0 || watch->episode < episodes))
        HD_TRY(play_episode(watch));
    return HD_OK;
}

/* -- Start ------------------------------------------------------------------------------------- */

/* Keeps what is logged while the terminal is a screen, until it is given back. */
static void keep_line(enum hd_log_level level, const char *line, void *arg)
{
    char **kept = arg;
    (void)level;
    char *text = hd_format("%s%s\n", *kept ? *kept : "", line);
    if (text) {
        hd_free(*kept);
        *kept = text;
    }
}

static int play_in_terminal(struct watch *watch)
{
    char *kept = NULL;
    HD_TRY(hd_picture_find_form(watch->options->display, &watch->form));
    HD_TRY(hd_terminal_open());
    hd_log_set_sink(keep_line, &kept);
    const int status = play(watch);
    hd_log_set_sink(NULL, NULL);
    hd_terminal_close();
    if (kept)
        fputs(kept, stderr);
    hd_free(kept);
    return status;
}

static int play_on_page(struct watch *watch)
{
    HD_TRY(hd_server_open(watch->options->http, hd_watch_page, &watch->server));
    const int status = play(watch);
    hd_server_close(watch->server);
    return status;
}

static int open_watch(struct watch *watch)
{
    HD_TRY(hd_stage_open(watch->options, &watch->stage));
    watch->file = watch->stage.file;
    HD_TRY(hd_player_get_picture_size(watch->stage.player, &watch->height, &watch->width));
    watch->picture = hd_alloc(watch->height * watch->width, 3);
    return watch->picture ? HD_OK : HD_ERR_NOMEM;
}

int hd_command_watch(struct hd_options *options)
{
    struct watch watch = {.options = options};
    hd_signals_catch();
    int status = open_watch(&watch);
    if (status == HD_OK) {
        hd_signals_set_started(0);
        status = (options->http >= 0 ? play_on_page : play_in_terminal)(&watch);
    }
    hd_free(watch.picture);
    hd_stage_close(&watch.stage);
    return hd_status_get_exit_code(status);
}
