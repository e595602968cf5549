/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a minibatch to new parameters: the sum of the gradient over partials and shards, its
 * clip and Adam's step, by the mean of all shards or a shard's own. */
#include "runtime/base/hash.h"
#include "tasks/collect/stepper.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/check_close.h"
#include "tests/tasks/collect/on_policy.h"

/* -- Clip and Adam ----------------------------------------------------------------------------- */

/* Three elements, in buckets of their own: the net has more than three blocks. */
enum { THREE = 3 };
static const int64_t places[THREE] = {1, HD_BLOCK + 5, 3 * HD_BLOCK};

static void open_three(struct world *w, const char *clip_type, bool own_grad, double bucket_mb)
{
    const char *const sets[] = {"policy.model.encoder_hidden_size_list=[96,96]",
                                "policy.learn.learning_rate=0.001",
                                "policy.collect.n_sample=32",
                                "policy.learn.batch_size=8",
                                "policy.learn.microbatch=2",
                                "policy.learn.grad_clip_value=0.5",
                                clip_type};
    *w = (struct world){.own_grad = own_grad, .bucket_mb = bucket_mb};
    world_open(w, sets, 7);
    ck_assert_int_gt(w->v[POLICY].spec.elements, places[THREE - 1]);
    memset(w->v[POLICY].data, 0, (size_t)w->v[POLICY].spec.bytes);
}

/* A gradient whose mean is zero but for three elements: of all shards, or of the samples of four
 * partials, one of which has none. */
static void set_gradient(struct world *w, const float *mean)
{
    static const float rows[] = {3, 0, 4, 1};
    struct value *value = &w->v[w->own_grad ? GRAD : MEAN_GRAD];
    memset(value->data, 0, (size_t)value->spec.bytes);
    for (int64_t partial = 0; partial < value->spec.partials; partial++) {
        const float n = w->own_grad ? rows[partial] : 1;
        float *sums = hd_grad_get_partial(&value->spec, value->data, partial);
        for (int i = 0; i < THREE; i++)
            sums[places[i]] = mean[i] * n;
        for (int bucket = 0; bucket < value->spec.buckets; bucket++)
            hd_grad_get_counts(&value->spec, value->data, partial)[bucket] = n;
    }
}

static void check_three(const struct world *w, const double *wanted)
{
    const float *params = w->v[POLICY].data;
    for (int64_t i = 0, k = 0; i < w->v[POLICY].spec.elements; i++) {
        const bool is_one = k < THREE && i == places[k];
        CHECK_CLOSE(params[i], is_one ? wanted[k] : 0, 1.0, 3e-7, "parameter");
        k += is_one;
    }
}

/* The numbers of docs/di-engine.md 9.4, in one bucket and in several. */
TEST(clipped_adam_of_the_spec, .runs = 4)
{
    static const float first[] = {.3f, -.4f, 1.2f}, second[] = {.1f, .1f, -.1f};
    static const double after[][THREE] = {{.99900001, -1.999, 2.9990001},
                                          {.99800628, -1.9988439, 2.998503}};
    struct world w;
    open_three(&w, "policy.learn.grad_clip_type=clip_norm", _i % 2 == 1, _i / 2 ? 0.001 : 0);
    ck_assert_int_eq(w.v[POLICY].spec.buckets > 1, _i / 2);
    for (int i = 0; i < THREE; i++)
        ((float *)w.v[POLICY].data)[places[i]] = (float[]){1, -2, 3}[i];
    set_gradient(&w, first);
    world_adam(&w);
    ck_assert_double_eq_tol(world_field(&w, GRAD_NORM, "grad_norm_avg"), 1.3, 1e-7);
    check_three(&w, after[0]);
    const struct hd_adam_state moments =
        hd_adam_state_lay_out(&w.v[OPTIMIZER].spec, w.v[OPTIMIZER].data);
    for (int i = 0; i < THREE; i++)
        CHECK_CLOSE(moments.first[places[i]], .1 * (double)first[i] * .5 / (1.3 + 1e-6), 1.0, 1e-8,
                    "first moment");
    set_gradient(&w, second);
    world_adam(&w);
    ck_assert_double_eq_tol(world_field(&w, GRAD_NORM, "grad_norm_avg"), sqrt(.03), 1e-7);
    check_three(&w, after[1]);
    world_close(&w);
}

/* Gradients no longer than the limit, and all gradients without a clip, stay bitwise as they are.
 */
TEST(what_is_not_clipped)
{
    static const float shorter[] = {.3f, -.39f, 0}, longer[] = {3, -4, 12};
    for (int i = 0; i < 2; i++) {
        struct world w;
        open_three(&w,
                   i ? "policy.learn.grad_clip_type=none" : "policy.learn.grad_clip_type=clip_norm",
                   false, 0);
        const float *g = i ? longer : shorter;
        set_gradient(&w, g);
        world_adam(&w);
        const struct hd_adam_state moments =
            hd_adam_state_lay_out(&w.v[OPTIMIZER].spec, w.v[OPTIMIZER].data);
        for (int k = 0; k < THREE; k++)
            ck_assert(moments.first[places[k]] == (float)(1 - 0.9) * g[k]);
        world_close(&w);
    }
}

/* The length of Adam's first step is the learning rate, whatever the gradient: that of the config
 * until adapt_lr has written one. */
TEST(steps_use_the_adapted_learning_rate)
{
    static const float g[] = {1, 1, 1};
    for (int i = 0; i < 2; i++) {
        struct world w;
        open_three(&w, "policy.learn.grad_clip_type=none", false, 0);
        w.adapt_lr = true;
        if (i == 1)
            hd_scalars_push(&w.v[RATE].spec, w.v[RATE].data, 0, 0.25, 1);
        set_gradient(&w, g);
        world_adam(&w);
        const double rate = i ? 0.25 : 0.001;
        check_three(&w, (double[]){-rate, -rate, -rate});
        world_close(&w);
    }
}

static void check_mistake(const struct hd_verb *verb, struct world *w, const int *ports,
                          const char *says)
{
    struct value *values[MAX_PORTS];
    struct hd_spec *specs[MAX_PORTS];
    void *args = NULL;
    world_ports(w, ports, values);
    struct hd_setup step = step_setup(verb, &w->setup, values, specs);
    ck_assert_int_eq(verb->prepare(&step, &args), HD_ERR_INPUT);
    const char *line = hd_diag_get_line(w->setup.diag, hd_diag_count(w->setup.diag) - 1);
    ck_assert_msg(strstr(line, says), "%s", line);
    unprepare(verb, args);
}

TEST(mistakes)
{
    struct world w;
    open_three(&w, "policy.learn.grad_clip_type=clip_norm", false, 0);
    check_mistake(&hd_verb_adam, &w, (int[]){MEAN_GRAD, POLICY, OPTIMIZER, NONE, NONE, N_VALUES},
                  "clip_norm needs the result of a step grad_norm");
    check_mistake(&hd_verb_adam, &w, (int[]){MEAN_GRAD, POLICY, OPTIMIZER, STATS, NONE, N_VALUES},
                  "adam reads grad_norm_avg from port 'grad_norm', but 'stats' has none");
    check_mistake(&hd_verb_adam, &w,
                  (int[]){MEAN_GRAD, POLICY, OPTIMIZER, GRAD_NORM, MEANS, N_VALUES},
                  "adam reads learning_rate from port 'learning_rate', but 'means' has none");
    world_close(&w);
    open_three(&w, "policy.learn.lr_scheduler.type=kl", false, 0);
    check_mistake(&hd_verb_adam, &w,
                  (int[]){MEAN_GRAD, POLICY, OPTIMIZER, GRAD_NORM, NONE, N_VALUES},
                  "lr_scheduler.type kl needs the result of a step adapt_lr");
    check_mistake(&hd_verb_adapt_lr, &w, (int[]){GRAD_NORM, RATE, N_VALUES},
                  "adapt_lr needs the divergence kl_avg, which 'grad_norm' does not hold");
    check_mistake(
        &hd_verb_loss_grad, &w, (int[]){POLICY, NONE, ADVANTAGES, STATS, GRAD, NONE, N_VALUES},
        "loss ppo takes a batch of type minibatch, but 'advantages' is of type advantages");
    check_mistake(&hd_verb_loss_grad, &w,
                  (int[]){POLICY, POLICY, BATCH, STATS, GRAD, NONE, N_VALUES},
                  "loss ppo has no use for a target net");
    world_close(&w);
}

/* -- Partials and shards ----------------------------------------------------------------------- */

static const struct {
    const char *net[4];
} nets[] = {
    {{"policy.model.encoder_hidden_size_list=[96,80]"}},
    {{"policy.model.obs_shape=[2,36,40]", "policy.model.action_shape=3",
      "policy.model.encoder_hidden_size_list=[16,16,32,48]"}},
    {{"policy.model.obs_shape=[2,36,40]", "policy.model.action_shape=3",
      "policy.model.encoder_hidden_size_list=[16,16,32,48]", "runtime.precision=bf16"}},
};
enum { NETS = sizeof nets / sizeof *nets };

/* The last one is in bf16. */
static int count_nets(void)
{
    return bf16_here() ? NETS : NETS - 1;
}

static void open_net(struct world *w, int net, int batch, int micro, int accumulate, int64_t shard)
{
    char text[3][64];
    const char *sets[16] = {text[0],
                            text[1],
                            text[2],
                            "policy.collect.n_sample=96",
                            "policy.learn.grad_clip_type=clip_norm",
                            "policy.learn.minibatch_tail=short"};
    int n = 6;
    snprintf(text[0], sizeof text[0], "policy.learn.batch_size=%d", batch);
    snprintf(text[1], sizeof text[1], "policy.learn.microbatch=%d", micro);
    snprintf(text[2], sizeof text[2], "policy.learn.accumulate=%d", accumulate);
    for (int i = 0; i < 4 && nets[net].net[i]; i++)
        sets[n++] = nets[net].net[i];
    *w = (struct world){.shard = shard};
    world_open(w, sets, n);
}

/* A minibatch of samples [first, first + used) of one fixed list. */
static void fill_batch(struct world *w, int first, int used)
{
    const struct hd_minibatch_shape *shape = hd_minibatch_get_shape(&w->v[BATCH].spec);
    struct hd_minibatch batch = world_batch(w);
    const bool u8 = hd_net_has_u8_obs(hd_params_get_net(&w->v[POLICY].spec));
    *batch.used = used;
    for (int64_t b = 0; b < shape->rows; b++) {
        struct hd_rng rng = hd_rng_make(5, 6, b < used ? first + b : first, 0, 0);
        uint32_t item = 0;
        char *obs = batch.obs + b * shape->obs_bytes;
        for (int64_t i = 0; i < shape->obs_bytes && u8; i++)
            ((uint8_t *)obs)[i] = (uint8_t)(256 * hd_rng_draw_uniform(&rng, item++));
        for (int64_t i = 0; i < shape->obs_bytes / 4 && !u8; i++)
            ((float *)obs)[i] = (float)hd_rng_draw_uniform(&rng, item++);
        for (int64_t j = 0; j < shape->logits; j++)
            batch.logit[b * shape->logits + j] = (float)hd_rng_draw_uniform(&rng, item++);
        batch.action[b].choice = (int32_t)hd_rng_draw_below(&rng, item++, shape->logits);
        batch.advantage[b] = (float)hd_rng_draw_uniform(&rng, item++) - 0.5f;
        batch.target[b] = (float)hd_rng_draw_uniform(&rng, item++);
        batch.value[b] = (float)hd_rng_draw_uniform(&rng, item++);
    }
}

enum { SHARDS = 4, SAMPLES = 32 };

/* The distribution of samples over shards changes no bit of the mean, nor of what follows from it.
 */
TEST(distributing_samples_over_shards_changes_no_bit, .runs = count_nets())
{
    struct world one, four[SHARDS];
    open_net(&one, _i, SAMPLES, SAMPLES / SHARDS, 1, 0);
    fill_batch(&one, 0, SAMPLES);
    world_loss(&one);
    worlds_combine(&one, 1, GRAD, HD_MEAN, MEAN_GRAD);
    worlds_combine(&one, 1, STATS, HD_MEAN, MEANS);
    for (int s = 0; s < SHARDS; s++) {
        open_net(&four[s], _i, SAMPLES / SHARDS, 0, 1, s);
        fill_batch(&four[s], s * SAMPLES / SHARDS, SAMPLES / SHARDS);
        world_loss(&four[s]);
    }
    worlds_combine(four, SHARDS, GRAD, HD_MEAN, MEAN_GRAD);
    worlds_combine(four, SHARDS, STATS, HD_MEAN, MEANS);
    ck_assert_uint_eq(value_hash(&one.v[MEAN_GRAD]), value_hash(&four[0].v[MEAN_GRAD]));
    ck_assert_double_eq_tol(world_field(&one, MEANS, "total_loss_avg"),
                            world_field(&four[0], MEANS, "total_loss_avg"), 1e-12);
    world_adam(&one);
    for (int s = 0; s < SHARDS; s++) {
        world_adam(&four[s]);
        ck_assert_uint_eq(value_hash(&one.v[POLICY]), value_hash(&four[s].v[POLICY]));
        world_close(&four[s]);
    }
    world_close(&one);
}

/* Shards with short minibatches weigh as many samples as they have: the mean is that of one shard
 * with all samples. */
TEST(shards_weigh_what_they_have, .runs = count_nets())
{
    static const int used[SHARDS] = {8, 3, 0, 5};
    struct world one, four[SHARDS];
    double difference = 0, norm = 0;
    int first = 0;
    for (int s = 0; s < SHARDS; first += used[s++]) {
        open_net(&four[s], _i, 8, 0, 1, s);
        fill_batch(&four[s], first, used[s]);
        world_loss(&four[s]);
    }
    worlds_combine(four, SHARDS, GRAD, HD_MEAN, MEAN_GRAD);
    worlds_combine(four, SHARDS, STATS, HD_MEAN, MEANS);
    open_net(&one, _i, 16, 0, 1, 0);
    fill_batch(&one, 0, 16);
    world_loss(&one);
    worlds_combine(&one, 1, GRAD, HD_MEAN, MEAN_GRAD);
    for (int64_t i = 0; i < one.v[MEAN_GRAD].spec.elements; i++) {
        const double a = ((float *)one.v[MEAN_GRAD].data)[i];
        const double b = ((float *)four[0].v[MEAN_GRAD].data)[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_double_lt(sqrt(difference / norm), _i == 2 ? 1e-2 : 1e-5);
    ck_assert(isfinite(world_field(&four[0], MEANS, "total_loss_avg")));
    for (int s = 0; s < SHARDS; s++)
        world_close(&four[s]);
    world_close(&one);
}

/* k batches accumulated are one batch k times as large, in microbatches of the batch. */
TEST(accumulating_is_a_larger_batch, .runs = count_nets())
{
    struct world worlds[2];
    open_net(&worlds[0], _i, 8, 0, 3, 0);
    open_net(&worlds[1], _i, 24, 8, 1, 0);
    for (int update = 0; update < 3; update++) {
        for (int i = 0; i < 2; i++) {
            struct world *w = &worlds[i];
            ck_assert_int_eq(w->v[GRAD].spec.partials, 3);
            fill_batch(w, update * 24, 24);
            world_loss(w);
            worlds_combine(w, 1, GRAD, HD_MEAN, MEAN_GRAD);
            world_adam(w);
        }
        for (int v = 0; v < N_VALUES; v++)
            if (is_there(&worlds[0], v))
                ck_assert_uint_eq(value_hash(&worlds[0].v[v]), value_hash(&worlds[1].v[v]));
    }
    world_close(&worlds[0]);
    world_close(&worlds[1]);
}

/* One shard's own gradient is bitwise the mean over one shard, in buckets or whole. */
TEST(own_gradients, .runs = count_nets())
{
    uint64_t hash[4];
    for (int i = 0; i < 4; i++) {
        struct world w = {.own_grad = i % 2, .bucket_mb = i / 2 ? 0.02 : 0};
        const char *sets[8] = {"policy.collect.n_sample=96", "policy.learn.batch_size=24",
                               "policy.learn.microbatch=8",
                               "policy.learn.grad_clip_type=clip_norm"};
        int n = 4;
        for (int k = 0; k < 4 && nets[_i].net[k]; k++)
            sets[n++] = nets[_i].net[k];
        world_open(&w, sets, n);
        for (int update = 0; update < 3; update++) {
            fill_batch(&w, update * 24, update == 1 ? 13 : 24);
            world_loss(&w);
            worlds_combine(&w, 1, GRAD, HD_MEAN, MEAN_GRAD);
            world_adam(&w);
        }
        hash[i] = hd_hash_mix(value_hash(&w.v[POLICY]), value_hash(&w.v[GRAD_NORM]));
        world_close(&w);
    }
    for (int i = 1; i < 4; i++)
        ck_assert_uint_eq(hash[i], hash[0]);
}

/* -- Acting ------------------------------------------------------------------------------------ */

/* The greedy action is that of the largest logit, however large the value is. */
TEST(greedy_actions_ignore_the_value)
{
    static const char *const sets[] = {"env.collector_env_num=8",
                                       "policy.learn.ppo_param_init=false"};
    struct world w = {.plays = true};
    world_open(&w, sets, 2);
    world_collect(&w, 0);
    const struct hd_net *net = hd_params_get_net(&w.v[POLICY].spec);
    const struct hd_envs_shape *shape = hd_envs_get_shape(&w.v[ENVS].spec);
    const struct hd_envs envs = hd_envs_get(&w.v[ENVS].spec, w.v[ENVS].data, 0);
    const int64_t outputs = hd_net_count_outputs(net);
    float out[8 * 3];
    int64_t scratch_bytes, chosen[2] = {0};
    ck_assert_int_eq(hd_stepper_prepare(shape, net, &scratch_bytes), HD_OK);
    void *scratch = hd_alloc(1, (size_t)scratch_bytes);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, 8));
    for (int value = -1; value <= 1; value++) {
        for (int t = 0; t < hd_net_count_tensors(net); t++)
            if (strcmp(hd_net_get_tensor(net, t)->name, "critic_head.last.bias") == 0)
                ck_assert_int_eq(
                    hd_net_import_tensor(net, &(float){100 * (float)value}, t, w.v[POLICY].data),
                    HD_OK);
        struct hd_stepper stepper = hd_stepper_get(shape, net, scratch);
        hd_stepper_choose_greedy(&stepper, shape, &envs, net, w.v[POLICY].data, NULL);
        hd_net_forward(net, w.v[POLICY].data, NULL, envs.obs, 8, work, out);
        for (int env = 0; env < 8; env++) {
            const float *logit = out + env * outputs;
            ck_assert_int_eq(stepper.action[env].choice, logit[1] > logit[0]);
            chosen[stepper.action[env].choice]++;
        }
    }
    ck_assert(chosen[0] > 0 || chosen[1] > 0);
    hd_free(scratch);
    hd_free(work);
    world_close(&w);
}
