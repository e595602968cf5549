/* SPDX-License-Identifier: Apache-2.0 */
/* collect_on_policy on a GPU that steps the envs, compared by bytes with that on a CPU, which is
 * tested against naive collectors. */
#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"
#include "tests/kernels/common/device.h"
#include "tests/tasks/values.h"

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_VALUES };
enum { MAX_SETS = 12, SHARD = 1, MOST_STATE = 256, SCREENS_AT = 8 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES];
};

static const struct hd_verb *const verb = &hd_verb_collect_on_policy;

static void world_open(struct world *w, const char *const *sets, int n)
{
    static const struct hd_type *const types[] = {&hd_type_params,  &hd_type_moments,
                                                  &hd_type_envs,    &hd_type_env_counters,
                                                  &hd_type_scalars, &hd_type_trajectories};
    static const char *const names[] = {"policy",   "obs_norm", "envs",
                                        "counters", "episodes", "trajectories"};
    struct hd_spec *specs[MAX_PORTS];
    w->setup = setup_open(sets, n);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    struct hd_setup step = step_setup(verb, &w->setup, w->ports, specs);
    ck_assert_int_eq(verb->declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, SHARD);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

static void collect(struct world *w, int64_t iteration)
{
    struct hd_context where = at(&w->setup, SHARD, iteration);
    memset(w->values[TRAJECTORIES].data, 0xFF, (size_t)w->values[TRAJECTORIES].spec.bytes);
    run(verb, &w->setup, w->ports, &where);
}

/* Observations on a scale of their own, as learned from rows of random ones. */
static void fill_norm(struct world *w)
{
    enum { ROWS = 5 };
    const struct value *norm = &w->values[NORM];
    const int64_t n = hd_moments_count_elements(&norm->spec);
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    float *x = test_alloc(ROWS * n, sizeof *x);
    void *other = test_alloc(norm->spec.bytes, 1);
    for (int64_t i = 0; i < ROWS * n; i++)
        x[i] = (float)(255 * hd_rng_draw_uniform(&rng, (uint32_t)i));
    hd_moments_compute(x, ROWS, n, hd_moments_get(&norm->spec, other));
    hd_moments_join(&norm->spec, norm->data, other);
}

/* -- Cases ------------------------------------------------------------------------------------- */

/* n_sample a multiple of the envs or not, or below them; observations as they are or normalised, of
 * several frames or one; fragments of several steps and one. */
static const struct shape_case {
    int64_t n_sample, envs, stack, collects;
    bool norm;
    const char *env;
} cases[] = {
    {160, 4, 4, 6, false, "env.type=pixel_pong"},
    {62, 4, 4, 8, true, "env={type: pixel_pong, options: {background: 87}}"},
    {2, 3, 2, 30, false, "env.type=pixel_pong"},
    {30, 1, 1, 6, true, "env.type=pixel_pong"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void open_case(struct world *w, const struct shape_case *c)
{
    char text[4][64];
    const char *const sets[] = {"policy.type=ppo",
                                c->env,
                                text[0],
                                text[1],
                                text[2],
                                text[3],
                                "policy.collect.segment_at_done=false",
                                "policy.model.action_shape=6",
                                "policy.model.encoder_hidden_size_list=[4,4,8]"};
    snprintf(text[0], sizeof text[0], "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(text[1], sizeof text[1], "env.collector_env_num=%d", (int)c->envs);
    snprintf(text[2], sizeof text[2], "env.frame_stack=%d", (int)c->stack);
    snprintf(text[3], sizeof text[3], "policy.model.obs_shape=[%d,84,84]", (int)c->stack);
    world_open(w, sets, sizeof sets / sizeof *sets);
    if (c->norm)
        fill_norm(w);
    else
        w->ports[NORM] = NULL;
}

/* Makes games that are cut off after a few steps, env e after e % 3 + 1, so that several end in one
 * step and some in the first of a collect. */
static int64_t screens_of(int64_t env)
{
    return HD_PIXEL_PONG_MAX_SCREENS - HD_PIXEL_PONG_SKIP * (env % 3 + 1);
}

static void hasten_envs(struct world *w)
{
    const struct value *value = &w->values[ENVS];
    const struct hd_envs envs = hd_envs_get(&value->spec, value->data, 0);
    char state[MOST_STATE], message[HD_ENV_MESSAGE];
    for (int64_t i = 0; i < *envs.count; i++) {
        const int64_t screens = screens_of(i);
        ck_assert_int_eq(hd_env_pixel_pong.save(*envs.group, i, state, message), 0);
        memcpy(state + SCREENS_AT, &screens, sizeof screens);
        ck_assert_int_eq(hd_env_pixel_pong.load(*envs.group, i, state, message), 0);
    }
}

/* The hash is of all bytes in use. */
static void check_same(const struct world *found, const struct world *wanted)
{
    ck_assert_mem_eq(
        found->values[TRAJECTORIES].data, wanted->values[TRAJECTORIES].data,
        (size_t)hd_trajectories_count_header_bytes(&wanted->values[TRAJECTORIES].spec));
    for (int i = COUNTERS; i < N_VALUES; i++)
        ck_assert_uint_eq(value_hash(&found->values[i]), value_hash(&wanted->values[i]));
}

/* -- On a GPU ---------------------------------------------------------------------------------- */
/* The body of hd_gpu_verb beside the CPU's, on the same values. Their logits differ in the last
 * bits; their draws are then the same but for those that fall between two logits' boundaries, one
 * of some 10^5 (f32), and there are some 10^3 here. All else is equal, by bytes. */

#if HD_CUDA

static const double logits_off_by = 1e-5; /* of numbers around 1 */

/* Copies of a world's values as the executor makes them. */
struct mirror {
    struct hd_view views[N_VALUES];
    void *scratch, *header;
    void *args;
};

static struct mirror mirror_of(struct world *w)
{
    const struct hd_gpu_verb *gpu = verb->gpu;
    struct mirror m = {.args = prepare(verb, &w->setup, w->ports)};
    struct hd_subtasks subtasks;
    ck_assert(gpu != NULL && gpu->supports(m.args) && !gpu->stage(m.args, 0) &&
              gpu->stage(m.args, 1));
    ck_assert_int_eq(gpu->ready(m.args), HD_OK);
    gpu->get_subtasks(m.args, &subtasks);
    m.scratch = device_make(NULL, gpu->scratch(m.args));
    m.header = device_shared(subtasks.header_bytes);
    for (int i = 0; i < N_VALUES; i++) {
        const struct value *value = &w->values[i];
        m.views[i] = (struct hd_view){.spec = &value->spec, .data = value->data};
        if (i == COUNTERS || i == EPISODES)
            continue;
        const int64_t bytes = hd_value_get_device_bytes(&value->spec);
        char *content = test_alloc(bytes, 1);
        memcpy(content, value->data, (size_t)hd_value_get_common_bytes(&value->spec));
        m.views[i].data =
            i == TRAJECTORIES ? device_make(NULL, bytes) : device_make(content, bytes);
    }
    if (!w->ports[NORM])
        m.views[NORM] = (struct hd_view){0};
    const struct hd_device_form *form = m.views[POLICY].spec->type->device;
    ck_assert_int_eq(form->ready(m.views[POLICY].spec), HD_OK);
    ck_assert_int_eq(form->renew_on_gpu(m.views[POLICY].spec, m.views[POLICY].data, 0,
                                        m.views[POLICY].spec->elements, device_stream()),
                     HD_OK);
    return m;
}

/* Counts and episodes are those of `to`. */
static void collect_on_gpu(struct mirror *m, struct world *to, int64_t iteration)
{
    struct hd_context context = at(&to->setup, SHARD, iteration);
    char unused;
    context.items = 1;
    context.gpu = true;
    context.scratch = m->scratch;
    context.header = m->header;
    context.stream = device_stream();
    m->views[COUNTERS].data = to->values[COUNTERS].data;
    m->views[EPISODES].data = to->values[EPISODES].data;
    ck_assert_int_eq(verb->body(&context, m->views, m->args), HD_OK);
    context.stage = 1;
    ck_assert_int_eq(verb->gpu->body(&context, m->views, m->args), HD_OK);
    device_get(&unused, m->views[TRAJECTORIES].data, 1); /* waits */
    context.headers = &m->header;
    ck_assert_int_eq(verb->finish(&context, m->views, m->args), HD_OK);
}

static void fetch(const struct mirror *m, struct world *to, int i)
{
    const struct hd_spec *spec = &to->values[i].spec;
    device_get(to->values[i].data, m->views[i].data, hd_value_get_common_bytes(spec));
    if (spec->type->device && spec->type->device->renew_on_host)
        ck_assert_int_eq(spec->type->device->renew_on_host(spec, to->values[i].data), HD_OK);
}

/* Makes the host's games those of its envs, as a checkpoint does, and gives them to the GPU. */
static void put_envs(const struct mirror *m, struct world *from)
{
    struct value *value = &from->values[ENVS];
    value_save_load(value);
    DEVICE_TRY(cudaMemcpy(m->views[ENVS].data, value->data,
                          (size_t)hd_value_get_common_bytes(&value->spec), cudaMemcpyHostToDevice));
}

/* The found logits become the wanted ones if they are close. */
static void adopt_logits(struct world *found, const struct world *wanted)
{
    const struct hd_spec *spec = &wanted->values[TRAJECTORIES].spec;
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(spec);
    const struct hd_trajectories a = hd_trajectories_get(spec, found->values[TRAJECTORIES].data, 0),
                                 b = hd_trajectories_get(spec, wanted->values[TRAJECTORIES].data,
                                                         0);
    for (int64_t i = 0; i < shape->envs * shape->steps * shape->logits; i++) {
        CHECK_CLOSE(a.logit[i], b.logit[i], 1, logits_off_by, "logit");
        a.logit[i] = b.logit[i];
    }
}

TEST(test_on_gpu, .runs = CASES, .cuda = true)
{
    struct world here, there;
    open_case(&here, &cases[_i]);
    open_case(&there, &cases[_i]);
    struct mirror m = mirror_of(&there);
    for (int64_t iteration = 0; iteration < cases[_i].collects && iteration < 7; iteration++) {
        collect(&here, iteration);
        collect_on_gpu(&m, &there, iteration);
        fetch(&m, &there, TRAJECTORIES);
        fetch(&m, &there, ENVS);
        adopt_logits(&there, &here);
        check_same(&there, &here);
        if (iteration % 2 == 0) {
            hasten_envs(&here);
            hasten_envs(&there);
            put_envs(&m, &there);
        }
    }
    ck_assert_int_ge(((struct hd_env_counters *)there.values[COUNTERS].data)->episode,
                     2 * cases[_i].envs);
    unprepare(verb, m.args);
    world_close(&here);
    world_close(&there);
}

#endif
