/* SPDX-License-Identifier: Apache-2.0 */
/* Products that keep a block of the result in registers over the summed index. This file is
 * compiled with contraction, which is safe because every element is one chain of fused
 * multiply-adds. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/dense/packed_linear_internal.h"
#include "runtime/base/alloc.h"

enum { BLOCK = HD_PACK_BLOCK, IN = HD_PACK_IN, OUT = HD_PACK_OUT };

/* The float passes need dy transposed and some blocks of inputs transposed. The bf16 passes need dy
 * of 32 rows at a time, and as many blocks of inputs or these blocks' weights; and tiles. Without
 * tiles one block of inputs suffices. */
int64_t hd_packed_get_scratch_bytes(const struct hd_packed *p, int64_t rows)
{
    enum { TILE_BYTES = 1024, TILES = 4 };
    const int64_t out_pairs = (hd_packed_count_out_blocks(p) + 1) / 2,
                  row_blocks = (rows + IN - 1) / IN;
    const int64_t floats =
        (hd_packed_count_outputs(p) + HD_PACK_GROUP * IN) * hd_linear_round_up(rows);
    const int64_t bytes = floats * (int64_t)sizeof(float);
    const int64_t per_row_block = 2 * out_pairs + 2 * HD_PACK_GROUP;
    const int64_t weights = (row_blocks * per_row_block + TILES) * TILE_BYTES;
    const int64_t data = (HD_PACK_GROUP * out_pairs * 2 + TILES) * TILE_BYTES;
    const int64_t bf16_bytes = weights > data ? weights : data;
    return hd_align_up(bytes > bf16_bytes ? bytes : bf16_bytes);
}

/* Loads the first n <= 16 floats, with zeros for the others. */
HD_ALWAYS hd_vec load_some(const float *from, int64_t n)
{
    if (n == HD_VEC)
        return hd_vec_load(from);
    hd_vec some = {0};
    memcpy(&some, from, (size_t)n * sizeof *from);
    return some;
}

HD_ALWAYS void store_some(float *to, hd_vec value, int64_t n)
{
    if (n == HD_VEC)
        hd_vec_store(to, value);
    else
        memcpy(to, &value, (size_t)n * sizeof *to);
}

/* Returns the offset in the weights of output v * HD_REG, from a multiple of OUT on. */
HD_ALWAYS int64_t output_at(int v)
{
    return v * HD_REG / OUT * BLOCK + v * HD_REG % OUT;
}

/* -- Forward ----------------------------------------------------------------------------------- */

HD_ALWAYS void forward_block(const struct hd_packed_panel *p, int rows, int vectors)
{
    hd_reg sum[HD_REG_ROWS][HD_REG_COLUMNS];
    const float *block = p->w, *x = p->x, *ahead = p->ahead;
    hd_packed_load_sums(p, rows, vectors, sum);
    for (int64_t i0 = 0; i0 < p->depth; i0 += IN, block += p->next, x += IN) {
        int64_t n = hd_min(p->depth - i0, IN);
        for (int64_t i = 0; i < n; i++) {
            hd_reg w[HD_REG_COLUMNS];
            if (ahead)
                __builtin_prefetch(ahead + i0 / IN * p->next + i * OUT, 0, 2);
            for (int v = 0; v < vectors; v++)
                w[v] = hd_reg_load(block + output_at(v) + i * OUT);
            for (int r = 0; r < rows; r++)
                for (int v = 0; v < vectors; v++)
                    sum[r][v] += x[r * p->ldx + i] * w[v];
        }
    }
    hd_packed_store_sums(p, rows, vectors, sum);
}

static void run_forward_block(const struct hd_packed_panel *p, int rows, int vectors)
{
    HD_UNROLL(forward_block, p, rows, vectors)
}

/* Returns the weights of the panel that begins at these blocks or, beyond the last output, of the
 * next one. */
static const char *find_panel(const struct hd_packed *p, const struct hd_packed_way *way,
                              const char *w, int64_t first_in, int64_t first_out)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p);
    if (first_out >= out_blocks) {
        first_out = 0;
        first_in += way->blocks;
    }
    return first_in < hd_packed_count_in_blocks(p)
               ? w + (first_in * out_blocks + first_out) * BLOCK * way->bytes
               : NULL;
}

void hd_packed_run_panels(const struct hd_packed *p, const struct hd_packed_way *way, int64_t rows,
                          const void *w, const float *bias, const void *x, int64_t ldx, float *y,
                          int64_t ldy)
{
    enum { BLOCKS = HD_REG_COLUMNS * HD_REG / OUT };
    const int64_t out_blocks = hd_packed_count_out_blocks(p),
                  in_blocks = hd_packed_count_in_blocks(p);
    for (int64_t i = 0; i < in_blocks; i += way->blocks)
        for (int64_t b = 0; b < out_blocks; b += BLOCKS) {
            const char *next = find_panel(p, way, w, i, b + BLOCKS);
            for (int64_t r = 0, row = 0; r < rows; r += HD_REG_ROWS, row++) {
                const struct hd_packed_panel panel = {
                    .w = find_panel(p, way, w, i, b),
                    .next = out_blocks * BLOCK,
                    .depth = hd_min(p->in - i * IN, way->blocks * IN),
                    .x = (const char *)x + (r * ldx + i * IN) * way->bytes,
                    .ldx = ldx,
                    .y = y + r * ldy + b * OUT,
                    .ldy = ldy,
                    .bias = i + way->blocks >= in_blocks ? bias + b * OUT : NULL,
                    .start = i == 0,
                    .ahead = next && row < BLOCKS ? next + row * BLOCK * way->bytes : NULL,
                };
                way->run(&panel, (int)hd_min(rows - r, HD_REG_ROWS),
                         (int)hd_min(out_blocks - b, BLOCKS) * OUT / HD_REG);
            }
        }
}

void hd_packed_forward(const struct hd_packed *p, int64_t rows, const float *w, const float *bias,
                       const float *x, int64_t ldx, float *y, int64_t ldy)
{
    static const struct hd_packed_way way = {sizeof(float), 4, run_forward_block};
    hd_packed_run_panels(p, &way, rows, w, bias, x, ldx, y, ldy);
}

/* -- Backward ---------------------------------------------------------------------------------- */

enum { LARGE = 1 << 18 /* floats of weights that exceed the second-level cache */ };
enum {
    INPUTS = HD_REG == 16 ? 8 : 4,
    ROW_VECTORS = HD_REG == 16 ? 2 : 16 / HD_REG,
    OUT_BLOCKS = 16 /* OUT_BLOCKS at a time, so that dy stays in the cache */
};
enum { COLUMNS = 64 /* rows of dx at a time */ };

/* Computes dx[i][COLUMNS] = sum_o w[o][i] dy[o][ld], for INPUTS inputs and up to ROW_VECTORS
 * vectors of rows. Prefetches as many weights from `ahead`, which may lie beyond the end. */
HD_ALWAYS void data_block(int64_t out, const float *w, const float *ahead, const float *dy,
                          int64_t ld, bool start, float *dx, int vectors)
{
    hd_reg sum[INPUTS][ROW_VECTORS] = {{{0}}};
    for (int i = 0; i < INPUTS && !start; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = hd_reg_load(dx + i * COLUMNS + v * HD_REG);
    for (int64_t o0 = 0; o0 < out; o0 += OUT, w += BLOCK, ahead += INPUTS * OUT) {
        int64_t n = hd_min(out - o0, OUT);
        for (int i = 0; i < INPUTS; i++)
            __builtin_prefetch(ahead + i * OUT, 0, 2);
        for (int64_t o = 0; o < n; o++) {
            hd_reg row[ROW_VECTORS];
            for (int v = 0; v < vectors; v++)
                row[v] = hd_reg_load(dy + (o0 + o) * ld + v * HD_REG);
            for (int i = 0; i < INPUTS; i++)
                for (int v = 0; v < vectors; v++)
                    sum[i][v] += w[i * OUT + o] * row[v];
        }
    }
    for (int i = 0; i < INPUTS; i++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(dx + i * COLUMNS + v * HD_REG, sum[i][v]);
}

/* Stores rows of dx from columns[input][COLUMNS]. Prefetches the memory `ahead` elements later,
 * because stores that wait for their cache lines delay loads from similar addresses. */
static void store_rows(int64_t rows, int64_t inputs, const float *columns, const float *mask,
                       float *dx, int64_t lddx, int64_t ahead)
{
    for (int64_t r0 = 0; r0 < rows; r0 += HD_VEC)
        for (int64_t i0 = 0; i0 < inputs; i0 += HD_VEC) {
            hd_vec block[HD_VEC];
            for (int i = 0; i < HD_VEC; i++)
                block[i] = hd_vec_load(columns + (i0 + i) * COLUMNS + r0);
            hd_vec_transpose(block);
            int64_t n = hd_min(inputs - i0, HD_VEC);
            for (int64_t r = r0; r < rows && r < r0 + HD_VEC; r++) {
                const int64_t at = r * lddx + i0;
                __builtin_prefetch(dx + at + ahead, 1, 3);
                if (mask)
                    __builtin_prefetch(mask + at + ahead, 0, 3);
                hd_vec value = block[r - r0];
                if (mask)
                    value = hd_vec_rectify(value, load_some(mask + at, n));
                store_some(dx + at, value, n);
            }
        }
}

/* Computes dx of blocks [first, last) and of COLUMNS rows from r0 on, as
 * columns[input][COLUMNS]. */
static void data_columns(const struct hd_packed *p, int64_t first, int64_t last, int64_t r0,
                         const float *w, const float *dy, int64_t ld, float *columns)
{
    const int64_t out_blocks = hd_packed_count_out_blocks(p), end = hd_min(ld, r0 + COLUMNS);
    for (int64_t o = 0; o < out_blocks; o += OUT_BLOCKS)
        for (int64_t b = first; b < last; b++)
            for (int64_t i = 0; i < IN; i += INPUTS) {
                const int64_t blocks = hd_min(out_blocks - o, OUT_BLOCKS);
                const int64_t out = hd_min(p->out - o * OUT, OUT_BLOCKS * OUT);
                const float *block = w + (b * out_blocks + o) * BLOCK + i * OUT;
                const float *ahead = w + ((b + 1) * out_blocks + o) * BLOCK + i * blocks * OUT;
                float *to = columns + ((b - first) * IN + i) * COLUMNS;
                for (int64_t r = r0; r < end; r += ROW_VECTORS * HD_REG, to += ROW_VECTORS * HD_REG)
                    if (end - r >= ROW_VECTORS * HD_REG)
                        data_block(out, block, ahead, dy + o * OUT * ld + r, ld, o == 0, to,
                                   ROW_VECTORS);
                    else
                        data_block(out, block, ahead, dy + o * OUT * ld + r, ld, o == 0, to,
                                   ROW_VECTORS / 2);
            }
}

/* Several blocks of inputs are computed at a time: rows may lie pages apart, which makes each visit
 * of a row expensive. */
void hd_packed_backward_data(const struct hd_packed *p, int64_t rows, const float *w,
                             const float *dy, int64_t lddy, int64_t first, int64_t last,
                             const float *mask, float *dx, int64_t lddx, void *scratch)
{
    const int64_t ld = hd_linear_round_up(rows);
    float *dy_columns = scratch;
    float columns[HD_PACK_GROUP * IN * COLUMNS] __attribute__((aligned(64)));
    hd_transpose(rows, p->out, dy, lddy, dy_columns, ld);
    for (int64_t b = first; b < last; b += HD_PACK_GROUP)
        for (int64_t r = 0; r < rows; r += COLUMNS) {
            const int64_t end = hd_min(last, b + HD_PACK_GROUP), at = r * lddx + b * IN;
            const int64_t ahead =
                r + COLUMNS < rows ? COLUMNS * lddx : HD_PACK_GROUP * IN - r * lddx;
            data_columns(p, b, end, r, w, dy_columns, ld, columns);
            store_rows(hd_min(rows - r, COLUMNS), hd_min(p->in, end * IN) - b * IN, columns,
                       mask ? mask + at : NULL, dx + at, lddx, ahead);
        }
}

/* Computes dw of INPUTS inputs and up to ROW_VECTORS vectors of outputs. */
HD_ALWAYS void weights_block(int64_t rows, const float *x, int64_t ldx, const float *dy,
                             int64_t lddy, float *dw, int vectors, bool stream)
{
    hd_reg sum[INPUTS][ROW_VECTORS] = {{{0}}};
    for (int64_t r = 0; r < rows; r++) {
        hd_reg row[ROW_VECTORS];
        for (int v = 0; v < vectors; v++)
            row[v] = hd_reg_load(dy + r * lddy + v * HD_REG);
        for (int i = 0; i < INPUTS; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] += x[i * ldx + r] * row[v];
    }
    for (int v = 0; v < vectors; v++)
        for (int i = 0; i < INPUTS; i++)
            if (stream)
                hd_reg_stream(dw + output_at(v) + i * OUT, sum[i][v]);
            else
                hd_reg_store(dw + output_at(v) + i * OUT, sum[i][v]);
}

void hd_packed_backward_weights(const struct hd_packed *p, int64_t rows, const float *dy,
                                int64_t lddy, const float *x, int64_t ldx, int64_t first,
                                int64_t last, float *dw, void *scratch)
{
    enum { BLOCKS = ROW_VECTORS * HD_REG / OUT };
    const int64_t ld = hd_linear_round_up(rows), out_blocks = hd_packed_count_out_blocks(p);
    const bool stream = hd_packed_count_weights(p) >= LARGE;
    float *columns = scratch;
    for (int64_t b = first; b < last; b += HD_PACK_GROUP) {
        const int64_t end = hd_min(last, b + HD_PACK_GROUP);
        const int64_t inputs = hd_min(p->in, end * IN) - b * IN, all = (end - b) * IN;
        memset(columns + inputs * ld, 0, (size_t)((all - inputs) * ld) * sizeof *columns);
        hd_transpose(rows, inputs, x + b * IN, ldx, columns, ld);
        for (int64_t o = 0; o < out_blocks; o += BLOCKS)
            for (int64_t i = 0; i < all; i += INPUTS) {
                float *to = dw + ((b + i / IN) * out_blocks + o) * BLOCK + i % IN * OUT;
                if (out_blocks - o >= BLOCKS)
                    weights_block(rows, columns + i * ld, ld, dy + o * OUT, lddy, to, ROW_VECTORS,
                                  stream);
                else
                    weights_block(rows, columns + i * ld, ld, dy + o * OUT, lddy, to,
                                  ROW_VECTORS / 2, stream);
            }
    }
    hd_reg_stream_end();
}
