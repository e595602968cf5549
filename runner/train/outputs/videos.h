/* SPDX-License-Identifier: Apache-2.0 */
/* Makes videos of a run, on rank 0: for each file of weights that a step `record_video` left in
 * video/, a process of its own, `runner eval --video` at the lowest priority, plays an episode and
 * writes video/iteration_<update>.gif. One runs at a time. It never touches the training, whose
 * bits cannot depend on it, and dies with it. Called by the session's thread only. */
#pragma once

#include "runner/train/base/train.h"

/* Makes ready to make videos, if the config asks for them. Comes before the threads of the session,
 * which are bound to cores. */
void hd_videos_open(struct hd_train *train);

/* Looks now and then whether a video is done and another is due. */
void hd_videos_poll(struct hd_train *train);

/* Waits for all videos, until a signal comes. */
void hd_videos_finish(struct hd_train *train);

/* Stops the video that is being made. A run that goes on makes it again. */
void hd_videos_stop(struct hd_train *train);
