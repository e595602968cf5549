/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the scalars of TensorBoard event files. One thread at a time uses a file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hd_tensorboard;

/* Creates events.out.tfevents.<seconds>.<host>.<pid>.0 in a directory, in place of the event files
 * that are there. Returns HD_OK or HD_ERR_NOMEM; what a full disk does is told in
 * runtime/io/append.h. hd_tensorboard_destroy (accepts NULL) flushes and releases it. */
int hd_tensorboard_create(const char *directory, struct hd_tensorboard **board_p);

/* Continues a file of that directory after its first `bytes`, and cuts off what follows them.
 * Returns HD_OK or HD_ERR_NOMEM. */
int hd_tensorboard_open(const char *directory, const char *name, int64_t bytes,
                        struct hd_tensorboard **board_p);
void hd_tensorboard_destroy(struct hd_tensorboard *board);

/* Appends a scalar at `step`; wall_s is in seconds since 1970. Returns HD_OK or HD_ERR_NOMEM. */
int hd_tensorboard_add_scalar(struct hd_tensorboard *board, const char *tag, int64_t step,
                              double wall_s, double value);

/* Writes all appended scalars to the file, as far as possible. */
void hd_tensorboard_flush(struct hd_tensorboard *board);

/* Returns the file's name in its directory. Borrowed. */
const char *hd_tensorboard_get_name(const struct hd_tensorboard *board);

/* Returns the bytes of all records appended so far: the length of the file after a flush. */
int64_t hd_tensorboard_get_length(const struct hd_tensorboard *board);

/* Calls `each` for every scalar of an event file, in order. When the file ends within a record, as
 * that of a running or killed program may, it stops there. Returns HD_OK, HD_ERR_INPUT when the
 * file cannot be read, HD_ERR_NOMEM, or HD_ERR_FORMAT with the offset of a record whose checksum is
 * wrong (all logged). Thread safe. */
int hd_tensorboard_read(const char *path,
                        void (*each)(void *arg, const char *tag, int64_t step, double wall_s,
                                     double value),
                        void *arg);

/* Return the CRC-32C (Castagnoli) of a byte string, plain and as TFRecord masks it. Thread safe. */
uint32_t hd_crc32c_compute(const void *data, size_t bytes);
uint32_t hd_crc32c_compute_masked(const void *data, size_t bytes);
