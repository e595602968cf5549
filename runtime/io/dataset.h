/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of recorded transitions: a folder of files transitions-00001-of-00003.safetensors, …,
 * which appears whole or not at all. Every file is complete by itself: it holds each frame that its
 * transitions need once, and an observation is the list of its frames, oldest first, so that in
 * numpy obs = frames[obs]. Tensors of a file of T transitions and F frames, stack K:
 *
 *   frames F32 or U8 [F][…]    the frames that the envs showed
 *   obs, next_obs I32 [T][K]   frames of the observations before and after the action
 *   action I32 or F32 [T][D]   choices, or real numbers; [T] if D is 1
 *   reward F32 [T]
 *   done U8 [T]                1: the episode ended, for any reason
 *   truncated U8 [T]           1: ended by a time limit alone
 *   env, episode I32 [T]       numbers of both: an env's transitions follow one another in order of
 *                              time, and continue in the next file
 *
 * The metadata of each file hold hd_dataset_info and the hash of the file's data. A data set is
 * read-only once it exists; several threads may read it, one at a time may write one. */
#pragma once

#include "runtime/io/base/safetensors.h"

#include <stdbool.h>

enum { HD_DATASET_DIMS = 4, HD_DATASET_ACTION_DIMS = 64, HD_DATASET_OPTIONS = 1024 };
enum { HD_DATASET_PARTS = 2560 };

/* The description of a data set. */
struct hd_dataset_info {
    const char *env_type, *env_id;        /* the environment's name, and which game of it ("") */
    bool states_options;                  /* else of another program, or of an earlier one */
    char env_options[HD_DATASET_OPTIONS]; /* of the environment; the beginning of a long text */
    bool u8;                              /* frames are bytes; else floats */
    int dims;
    int64_t shape[HD_DATASET_DIMS]; /* of a frame */
    char parts[HD_DATASET_PARTS];   /* of a frame, which is then bytes that hold one part after the
                                       other, each from a multiple of 4 on: "{camera: [3, 64, 64],
                                       state: [5]}", of three dimensions bytes, else floats; "": a
                                       frame is one array */
    int64_t stack;                  /* K: frames of an observation */
    bool continuous;                /* actions are real numbers; else choices */
    int action_dims;                /* D: numbers of an action, 1 … HD_DATASET_ACTION_DIMS */
    int64_t actions[HD_DATASET_ACTION_DIMS]; /* number d is one of 0 … actions[d] - 1, unless
                                                continuous */
    int64_t transitions;                     /* in all files */
    uint64_t seed, policy;                   /* of the envs; hash of the parameters that played */
    double epsilon;                          /* share of random actions */
};

/* The content of one file; arrays as above. */
struct hd_dataset_rows {
    int64_t first; /* number of its first transition in the data set; ignored when writing */
    int64_t transitions, frames;
    const void *frame;
    const int32_t *obs, *next_obs, *env, *episode;
    const void *action; /* int32_t or float */
    const float *reward;
    const uint8_t *done, *truncated;
};

/* Returns the bytes of a frame. */
int64_t hd_dataset_get_frame_bytes(const struct hd_dataset_info *info);

/* -- Writing ----------------------------------------------------------------------------------- */

struct hd_dataset_writer;

/* Begins a data set of `files` files that will be `dir`, which must not exist or be empty; info and
 * its texts outlive the writer. Returns HD_OK, HD_ERR_INPUT when dir is in use, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (all logged). */
int hd_dataset_create(const char *dir, const struct hd_dataset_info *info, int64_t files,
                      struct hd_dataset_writer **writer_p);

/* Writes the next file. Returns HD_OK, HD_ERR_INPUT for texts that are not UTF-8, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (all logged). */
int hd_dataset_write(struct hd_dataset_writer *writer, const struct hd_dataset_rows *rows);

/* Gives the folder its name. Returns HD_OK, HD_ERR_INPUT when not all files were written, or
 * HD_ERR_SYSTEM (both logged). */
int hd_dataset_publish(struct hd_dataset_writer *writer);

/* Releases the writer (accepts NULL) and removes its files unless they were published. */
void hd_dataset_destroy(struct hd_dataset_writer *writer);

/* -- Reading ----------------------------------------------------------------------------------- */

struct hd_dataset;

/* Maps all files, reads them once and checks them. Returns HD_OK, HD_ERR_INPUT when dir or a file
 * of it is missing, HD_ERR_FORMAT when a file is malformed, holds indices out of range, has other
 * data than the hash that it states (if it does), or belongs to another data set than the first
 * one, HD_ERR_SYSTEM or HD_ERR_NOMEM (all logged, naming folder or file). hd_dataset_close (accepts
 * NULL) releases it. */
int hd_dataset_open(const char *dir, struct hd_dataset **dataset_p);
void hd_dataset_close(struct hd_dataset *dataset);

/* Returns the description of the data set. Borrowed. */
const struct hd_dataset_info *hd_dataset_get_info(const struct hd_dataset *dataset);

/* Returns the hash of all data, made from the hashes of the files. */
uint64_t hd_dataset_get_hash(const struct hd_dataset *dataset);

/* Returns the content of the file that holds transition `index`, as its transition index - first.
 * Borrowed. */
const struct hd_dataset_rows *hd_dataset_find(const struct hd_dataset *dataset, int64_t index);
