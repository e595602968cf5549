/* SPDX-License-Identifier: Apache-2.0 */
/* The emulation of tiles: its products against integers, the bits that Intel's manual states, and
 * what it refuses; where there is AMX, against the processor. */
#include "runtime/base/rng.h"
#include "tests/emulation/amx.h"
#include "tests/harness/check.h"

#include <signal.h>

enum { ROWS = 16, PAIRS = 16, WORDS = 2 * PAIRS };

/* c += a b; a row of b holds pairs of the summed index. */
struct product {
    float c[ROWS][PAIRS];
    uint16_t a[ROWS][WORDS], b[ROWS][WORDS];
};

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Configures tiles 0, 1 and 2 as c, a and b. */
static struct amx_config config_of(int rows, int pairs, int columns)
{
    return (struct amx_config){
        .palette = 1,
        .row_bytes = {(uint16_t)(4 * columns), (uint16_t)(4 * pairs), (uint16_t)(4 * columns)},
        .rows = {(uint8_t)rows, (uint8_t)rows, (uint8_t)pairs}};
}

static void multiply(const struct amx_config *config, struct product *p)
{
    amx_configure(config);
    amx_load(0, p->c, sizeof p->c[0]);
    amx_load(1, p->a, sizeof p->a[0]);
    amx_load(2, p->b, sizeof p->b[0]);
    amx_multiply(0, 1, 2);
    amx_store(0, p->c, sizeof p->c[0]);
    amx_release();
}

static int integer(int i, int j)
{
    return (7 * i + 3 * j) % 11 - 5;
}

TEST(products_of_integers_are_exact_within_the_configuration)
{
    static const int sizes[][3] = {{16, 16, 16}, {1, 1, 1}, {5, 16, 16}, {16, 3, 7}, {9, 10, 2}};
    for (int s = 0; s < COUNT(sizes); s++) {
        const int rows = sizes[s][0], pairs = sizes[s][1], columns = sizes[s][2];
        const struct amx_config config = config_of(rows, pairs, columns);
        struct product p;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < WORDS; j++) {
                p.a[i][j] = bf16_of((float)integer(i, j));
                p.b[i][j] = bf16_of((float)integer(j, i));
                p.c[i][j / 2] = (float)(i + j / 2);
            }
        multiply(&config, &p);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < PAIRS; j++) {
                int sum = i + j;
                for (int k = 0; k < 2 * pairs && i < rows && j < columns; k++)
                    sum += integer(i, k) * integer(2 * j + k % 2, k / 2);
                ck_assert_msg(p.c[i][j] == (float)sum, "c[%d][%d] is %g, not %d", i, j,
                              (double)p.c[i][j], sum);
            }
    }
}

/* Two pairs of products that are added to c. */
TEST(bits_are_those_of_the_manual)
{
    static const struct {
        float c, a[4], b[4], sum;
    } cases[] = {
        /* both sums are added before c */
        {0x1p24f, {1, 1, 0, 0}, {1, 1, 0, 0}, 0x1p24f + 2},
        {1, {0x1p24f, -0x1p24f, 0, 0}, {1, 1, 0, 0}, 1},
        /* each sum begins at zero, and knows only its own half of the pairs */
        {-0x1p24f, {0x1p24f, 0, 1, 0}, {1, 0, 1, 0}, 0},
        {0, {0x1p24f, 0, 0, 1}, {1, 0, 0, 1}, 0x1p24f},
        {0, {0x1p24f, 1, 1, 1}, {1, 1, 1, 1}, 0x1p24f + 2},
        /* products are not rounded by themselves */
        {0, {-0x1p127f, 0, 0x1p127f, 0}, {1, 0, 2, 0}, 0x1p127f},
        /* to nearest even */
        {0x1p24f + 2, {1, 0, 0, 0}, {1, 0, 0, 0}, 0x1p24f + 4},
        /* denormal numbers are zeros, in factors, sums and results */
        {0, {0x1p-127f, 0, 0, 0}, {0x1p127f, 0, 0, 0}, 0},
        {0, {0x1p-100f, 0, 0x1p-100f, 0}, {0x1p-27f, 0, 0x1p-27f, 0}, 0},
        {0x1p-127f, {0x1p-126f, 0, 0, 0}, {1, 0, 0, 0}, 0x1p-126f},
        {0x1.8p-126f, {-0x1p-126f, 0, 0, 0}, {1, 0, 0, 0}, 0},
        {INFINITY, {1, 0, 0, 0}, {1, 0, 0, 0}, INFINITY},
    };
    const struct amx_config config = config_of(1, 2, 1);
    for (int i = 0; i < COUNT(cases); i++) {
        struct product p = {.c = {{cases[i].c}}};
        for (int k = 0; k < 4; k++) {
            p.a[0][k] = bf16_of(cases[i].a[k]);
            p.b[k / 2][k % 2] = bf16_of(cases[i].b[k]);
        }
        multiply(&config, &p);
        ck_assert_msg(p.c[0][0] == cases[i].sum, "case %d: %a, not %a", i, (double)p.c[0][0],
                      (double)cases[i].sum);
    }
}

/* -- What aborts ------------------------------------------------------------------------------- */

static void configure_rows(void)
{
    struct amx_config config = config_of(17, 16, 16);
    amx_configure(&config);
}

static void configure_palette(void)
{
    struct amx_config config = {0};
    amx_configure(&config);
}

static void configure_no_columns(void)
{
    struct amx_config config = config_of(16, 16, 0);
    amx_configure(&config);
}

static void load_tile(void)
{
    struct amx_config config = config_of(16, 16, 16);
    struct product p = {0};
    amx_configure(&config);
    amx_load(3, p.c, 64);
}

static void zero_after_release(void)
{
    struct amx_config config = config_of(16, 16, 16);
    amx_configure(&config);
    amx_release();
    amx_zero(0);
}

static void store_unconfigured(void)
{
    struct product p = {0};
    amx_store(0, p.c, 64);
}

static void multiply_rows(void)
{
    struct amx_config config = config_of(16, 16, 16);
    config.rows[1] = 15;
    amx_configure(&config);
    amx_multiply(0, 1, 2);
}

static void multiply_twice(void)
{
    struct amx_config config = config_of(16, 16, 16);
    amx_configure(&config);
    amx_multiply(0, 1, 1);
}

static void (*const faults[])(void) = {configure_rows, configure_palette,  configure_no_columns,
                                       load_tile,      zero_after_release, store_unconfigured,
                                       multiply_rows,  multiply_twice};

TEST(what_is_not_configured_aborts, .runs = COUNT(faults), .signal = SIGABRT)
{
    faults[_i]();
}

/* -- The processor ----------------------------------------------------------------------------- */

#if defined __x86_64__ && !defined __clang__

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux grants tiles only to processes that ask. */
static bool has_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, AMX_BF16 = 1 << 22 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx & AMX_BF16 &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

__attribute__((target("amx-tile,amx-bf16"))) static void
multiply_there(const struct amx_config *config, struct product *p)
{
    __asm__ volatile("" ::"r"(config), "r"(p) : "memory");
    _tile_loadconfig(config);
    _tile_loadd(0, p->c, sizeof p->c[0]);
    _tile_loadd(1, p->a, sizeof p->a[0]);
    _tile_loadd(2, p->b, sizeof p->b[0]);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, p->c, sizeof p->c[0]);
    _tile_release();
    __asm__ volatile("" ::: "memory");
}

/* Returns a random number of any sign and of one of `exponents` neighbouring exponents. */
static float number(struct hd_rng *rng, uint32_t i, int exponents)
{
    const uint64_t bits = hd_rng_draw_u64(rng, i);
    const uint32_t exponent = 128 - (uint32_t)(bits >> 32) % (uint32_t)exponents;
    const uint32_t word = ((uint32_t)bits & 0x807FFFFFu) | exponent << 23;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void compare(int i)
{
    const int exponents = i % 2 ? 8 : 129;
    const struct amx_config config = config_of(1 + i % 16, 16 - i % 7, 16 - i % 5);
    struct hd_rng rng = hd_rng_make(1, (uint64_t)i, 0, 0, 0);
    struct product here, there;
    uint32_t item = 0;
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < WORDS; j++) {
            here.a[row][j] = bf16_of(number(&rng, item++, exponents));
            here.b[row][j] = bf16_of(number(&rng, item++, exponents));
            here.c[row][j / 2] = number(&rng, item++, exponents);
        }
    there = here;
    multiply(&config, &here);
    multiply_there(&config, &there);
    ck_assert_msg(memcmp(&here, &there, sizeof here) == 0, "product %d", i);
}

TEST(emulation_is_the_processor)
{
    if (!has_tiles())
        printf("no matrix registers here: they are not compared\n");
    for (int i = 0; i < 60 && has_tiles(); i++)
        compare(i);
}

#endif
