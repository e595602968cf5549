/* SPDX-License-Identifier: Apache-2.0 */
/* runner eval: plays episodes with given weights, on demand as a video, or prints the net's outputs
 * for observations. */
#include "runner/base/commands.h"
#include "runner/base/signals.h"
#include "runner/play/stage.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/video/video.h"
#include "tasks/types/output/eval_result.h"

#include <inttypes.h>
#include <signal.h>

struct eval {
    const struct hd_options *options;
    struct hd_stage stage;
    struct hd_player_episode *episodes; /* [play.episodes] */
    struct hd_eval_result *result;
    struct hd_video *video; /* NULL: none */
    uint8_t *picture;
    int64_t height, width, pictures;
};

/* -- Results ----------------------------------------------------------------------------------- */

enum { N_SHOWN = 4 };
static const char *const shown[N_SHOWN] = {"mean", "std", "max", "min"};

static double get_shown(const struct hd_eval_result *result, int i)
{
    return (double[N_SHOWN]){result->mean, result->std, result->max, result->min}[i];
}

static void print_text(const struct eval *eval)
{
    const int64_t n = eval->stage.episodes;
    for (int i = 0; i < N_SHOWN; i++)
        printf("%s %.9g\n", shown[i], get_shown(eval->result, i));
    printf("lengths");
    for (int64_t i = 0; i < n; i++)
        printf(" %" PRId64, eval->episodes[i].steps);
    printf("\nseeds");
    for (int64_t i = 0; i < n; i++)
        printf(" %" PRIu64, eval->episodes[i].seed);
    printf("\nreturns");
    for (int64_t i = 0; i < n; i++)
        printf(" %.9g", eval->episodes[i].episode_return);
    printf("\n");
}

static void print_json(const struct eval *eval)
{
    printf("{");
    for (int i = 0; i < N_SHOWN; i++)
        printf("\"%s\": %.17g, ", shown[i], get_shown(eval->result, i));
    printf("\"episodes\": [");
    for (int64_t i = 0; i < eval->stage.episodes; i++)
        printf("%s{\"seed\": %" PRIu64 ", \"return\": %.17g, \"length\": %" PRId64 ", \"cut\": %s}",
               i ? ", " : "", eval->episodes[i].seed, eval->episodes[i].episode_return,
               eval->episodes[i].steps, eval->episodes[i].cut ? "true" : "false");
    printf("]}\n");
}

static void summarise(struct eval *eval)
{
    eval->result->episodes = eval->stage.episodes;
    int64_t cut = 0;
    for (int64_t i = 0; i < eval->stage.episodes; i++) {
        eval->result->returns[i] = eval->episodes[i].episode_return;
        cut += eval->episodes[i].cut;
    }
    hd_eval_result_summarise(eval->result);
    if (cut > 0)
        hd_log(HD_LOG_WARN,
               "%" PRId64 " of %" PRId64 " episodes did not end within env.max_evaluator_step "
               "steps; their returns until then count",
               cut, eval->stage.episodes);
}

/* -- Playing ----------------------------------------------------------------------------------- */

static int open_video(struct eval *eval)
{
    if (!eval->options->video)
        return HD_OK;
    HD_TRY(hd_player_get_picture_size(eval->stage.player, &eval->height, &eval->width));
    eval->picture = hd_alloc(eval->height * eval->width, 3);
    if (!eval->picture)
        return HD_ERR_NOMEM;
    const struct hd_video_shape shape = {.height = eval->height,
                                         .width = eval->width,
                                         .fps = eval->options->fps,
                                         .scale = eval->options->zoom};
    return hd_video_create(eval->options->video, &shape, &eval->video);
}

static int draw(struct eval *eval)
{
    const int64_t max = eval->options->max_frames;
    if (!eval->video || (max > 0 && eval->pictures == max))
        return HD_OK;
    HD_TRY(hd_player_draw(eval->stage.player, eval->picture));
    eval->pictures++;
    return hd_video_add(eval->video, eval->picture);
}

static int play_episode(struct eval *eval, int64_t i)
{
    struct hd_player *player = eval->stage.player;
    HD_TRY(hd_player_start(player, eval->stage.seed + (uint64_t)i));
    HD_TRY(draw(eval));
    while (!hd_player_get_episode(player).ended) {
        if (hd_interrupted)
            return hd_interrupted == SIGINT ? HD_ERR_INTERRUPTED : HD_ERR_STOPPED;
        HD_TRY(hd_player_step(player));
        HD_TRY(draw(eval));
    }
    eval->episodes[i] = hd_player_get_episode(player);
    return HD_OK;
}

static int publish(struct eval *eval)
{
    if (!eval->video)
        return HD_OK;
    HD_TRY(hd_video_publish(eval->video));
    hd_log(HD_LOG_INFO, "%" PRId64 " pictures of %" PRId64 " x %" PRId64 " pixels in %s",
           eval->pictures, eval->width * eval->options->zoom, eval->height * eval->options->zoom,
           eval->options->video);
    return HD_OK;
}

static int play(struct eval *eval)
{
    const int64_t n = eval->stage.episodes;
    eval->episodes = hd_alloc(n, sizeof *eval->episodes);
    eval->result = hd_alloc(1, sizeof *eval->result + (size_t)n * sizeof *eval->result->returns);
    if (!eval->episodes || !eval->result)
        return HD_ERR_NOMEM;
    hd_signals_set_started(0); /* before there is a file that an interrupted evaluation removes */
    HD_TRY(open_video(eval));
    for (int64_t i = 0; i < n; i++)
        HD_TRY(play_episode(eval, i));
    HD_TRY(publish(eval));
    summarise(eval);
    (eval->options->as_json ? print_json : print_text)(eval);
    return HD_OK;
}

static void release(struct eval *eval)
{
    hd_video_destroy(eval->video);
    hd_free(eval->picture);
    hd_free(eval->episodes);
    hd_free(eval->result);
    hd_stage_close(&eval->stage);
}

int hd_command_eval(struct hd_options *options)
{
    struct eval eval = {.options = options};
    hd_signals_catch();
    int status = hd_stage_open(options, &eval.stage);
    if (status == HD_OK)
        status = options->obs
                     ? hd_weights_print_outputs(&eval.stage.inference.weights, options->obs, stdout)
                     : play(&eval);
    release(&eval);
    return hd_status_get_exit_code(status);
}
