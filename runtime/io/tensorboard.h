/* SPDX-License-Identifier: Apache-2.0 */
/* TensorBoard event files: scalars only. One thread at a time. */
#ifndef HD_RUNTIME_IO_TENSORBOARD_H
#define HD_RUNTIME_IO_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>

struct hd_tensorboard;

/* Creates events.out.tfevents.<seconds>.<host>.<pid>.0 in an existing directory; never replaces a
 * file. Released by hd_tensorboard_destroy (accepts NULL), which flushes. Errors: HD_ERR_SYSTEM
 * (logged), HD_ERR_NOMEM. */
int hd_tensorboard_create(const char *directory, struct hd_tensorboard **board_p);

/* Goes on with a file of that directory after its first `bytes`; what follows them is cut off. */
int hd_tensorboard_open(const char *directory, const char *name, int64_t bytes,
                        struct hd_tensorboard **board_p);
void hd_tensorboard_destroy(struct hd_tensorboard *board);

/* Appends a scalar at `step`; wall_s in seconds since 1970. Appended scalars are kept until they
 * are written: when the disk is full the file ends early, but in order, and goes on from there at a
 * later flush. Errors: HD_ERR_SYSTEM (logged once a file) when so much waits to be written that
 * this scalar is refused, HD_ERR_NOMEM. */
int hd_tensorboard_add_scalar(struct hd_tensorboard *board, const char *tag, int64_t step,
                              double wall_s, double value);

/* Hands what is appended so far to the operating system. Errors: HD_ERR_SYSTEM (logged once a
 * file). */
int hd_tensorboard_flush(struct hd_tensorboard *board);

/* The file's name in its directory. Borrowed. */
const char *hd_tensorboard_get_name(const struct hd_tensorboard *board);

/* Bytes of all records appended so far: the length of the file after a flush. */
int64_t hd_tensorboard_get_length(const struct hd_tensorboard *board);

/* Calls `each` for every scalar of an event file, in order. A file that ends within a record, as
 * that of a running or killed program may, is read up to there. Errors (logged): HD_ERR_SYSTEM,
 * HD_ERR_NOMEM, HD_ERR_FORMAT with the place of a record whose checksum is wrong. */
int hd_tensorboard_read(const char *path,
                        void (*each)(void *arg, const char *tag, int64_t step, double wall_s,
                                     double value),
                        void *arg);

/* CRC-32C (Castagnoli) of a byte string, and as TFRecord masks it. Thread safe. */
uint32_t hd_crc32c_compute(const void *data, size_t bytes);
uint32_t hd_crc32c_compute_masked(const void *data, size_t bytes);

#endif
