/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a minibatch to new parameters: the sum of the gradient over partials and shards, its
 * clip and Adam's step, by the mean of all shards or a shard's own. */
#include "runtime/base/hash.h"
#include "tasks/collect/stepper.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/check_close.h"
#include "tests/tasks/on_policy.h"

/* -- Clip and Adam ----------------------------------------------------------------------------- */

/* Three elements, in buckets of their own: the net has more than three blocks. */
enum { THREE = 3 };
static const int64_t places[THREE] = {1, HD_BLOCK + 5, 3 * HD_BLOCK};

/* The steps by the mean of all shards, by a shard's own gradient, and with an adapted rate. */
static const struct step own_grad_norm = {.verb = &hd_verb_grad_norm,
                                          .ports = "grad=grad norm=grad_norm"},
                         own_adam = {.verb = &hd_verb_adam, .ports = "mean_grad=grad grad_norm"},
                         adam_at_rate = {.verb = &hd_verb_adam, .ports = "grad_norm learning_rate"};

static struct world *open_three(const char *sets, double bucket_mb)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.model.encoder_hidden_size_list=[96,96]; policy.learn.learning_rate=0.001; "
                 "policy.collect.n_sample=32; policy.learn.batch_size=8; "
                 "policy.learn.microbatch=2; policy.learn.grad_clip_value=0.5");
    world_set(w, "%s", sets);
    w->bucket_mb = bucket_mb;
    open_on_policy(w);
    ck_assert_int_gt(world_get(w, "policy")->spec.elements, places[THREE - 1]);
    value_clear(world_get(w, "policy"));
    return w;
}

/* A gradient whose mean is zero but for three elements: of all shards, or of the samples of four
 * partials, one of which has none. */
static void set_gradient(struct world *w, bool own, const float *mean)
{
    static const float rows[] = {3, 0, 4, 1};
    struct value *value = world_get(w, own ? "grad" : "mean_grad");
    value_clear(value);
    for (int64_t partial = 0; partial < value->spec.partials; partial++) {
        const float n = own ? rows[partial] : 1;
        float *sums = hd_grad_get_partial(&value->spec, value->data, partial);
        for (int i = 0; i < THREE; i++)
            sums[places[i]] = mean[i] * n;
        for (int bucket = 0; bucket < value->spec.buckets; bucket++)
            hd_grad_get_counts(&value->spec, value->data, partial)[bucket] = n;
    }
}

static void update_by(struct world *w, bool own, const float *mean)
{
    set_gradient(w, own, mean);
    world_run(w, own ? &own_grad_norm : &grad_norm, 0);
    world_run(w, own ? &own_adam : &adam, 0);
}

static const float *get_first_moments(const struct world *w)
{
    return hd_adam_state_lay_out(INSTANCE(w, "optimizer")).first;
}

static void check_three(const struct world *w, const double *wanted)
{
    const float *params = world_get(w, "policy")->data;
    for (int64_t i = 0, k = 0; i < world_get(w, "policy")->spec.elements; i++) {
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
    const bool own = _i % 2 == 1;
    struct world *w = open_three("policy.learn.grad_clip_type=clip_norm", _i / 2 ? 0.001 : 0);
    ck_assert_int_eq(world_get(w, "policy")->spec.buckets > 1, _i / 2);
    for (int i = 0; i < THREE; i++)
        ((float *)world_get(w, "policy")->data)[places[i]] = (float[]){1, -2, 3}[i];
    update_by(w, own, first);
    ck_assert_double_eq_tol(world_field(w, "grad_norm", "grad_norm_avg"), 1.3, 1e-7);
    check_three(w, after[0]);
    for (int i = 0; i < THREE; i++)
        CHECK_CLOSE(get_first_moments(w)[places[i]], .1 * (double)first[i] * .5 / (1.3 + 1e-6), 1.0,
                    1e-8, "first moment");
    update_by(w, own, second);
    ck_assert_double_eq_tol(world_field(w, "grad_norm", "grad_norm_avg"), sqrt(.03), 1e-7);
    check_three(w, after[1]);
}

/* Gradients no longer than the limit, and all gradients without a clip, stay bitwise as they are.
 */
TEST(what_is_not_clipped)
{
    static const float shorter[] = {.3f, -.39f, 0}, longer[] = {3, -4, 12};
    for (int i = 0; i < 2; i++) {
        struct world *w = open_three(
            i ? "policy.learn.grad_clip_type=none" : "policy.learn.grad_clip_type=clip_norm", 0);
        const float *g = i ? longer : shorter;
        update_by(w, false, g);
        for (int k = 0; k < THREE; k++)
            ck_assert(get_first_moments(w)[places[k]] == (float)(1 - 0.9) * g[k]);
    }
}

/* The length of Adam's first step is the learning rate, whatever the gradient: that of the config
 * until adapt_lr has written one. */
TEST(steps_use_the_adapted_learning_rate)
{
    static const float g[] = {1, 1, 1};
    for (int i = 0; i < 2; i++) {
        struct world *w = open_three("policy.learn.grad_clip_type=none", 0);
        if (i == 1)
            hd_scalars_push(INSTANCE(w, "learning_rate"), 0, 0.25, 1);
        set_gradient(w, false, g);
        world_run(w, &grad_norm, 0);
        world_run(w, &adam_at_rate, 0);
        const double rate = i ? 0.25 : 0.001;
        check_three(w, (double[]){-rate, -rate, -rate});
    }
}

TEST(mistakes)
{
    static const struct {
        const char *sets;
        struct step step;
        const char *names[3]; /* what the message has to name */
    } mistakes[] = {
        {"policy.learn.grad_clip_type=clip_norm",
         {.verb = &hd_verb_adam},
         {"clip_norm", "grad_norm"}},
        {"policy.learn.grad_clip_type=clip_norm",
         {.verb = &hd_verb_adam, .ports = "grad_norm=stats"},
         {"grad_norm_avg", "'grad_norm'", "'stats'"}},
        {"policy.learn.grad_clip_type=clip_norm",
         {.verb = &hd_verb_adam, .ports = "grad_norm learning_rate=means"},
         {" learning_rate ", "'learning_rate'", "'means'"}},
        {"policy.learn.lr_scheduler.type=kl",
         {.verb = &hd_verb_adam, .ports = "grad_norm"},
         {"lr_scheduler.type kl", "adapt_lr"}},
        {"policy.learn.lr_scheduler.type=kl",
         {.verb = &hd_verb_adapt_lr, .ports = "means=grad_norm"},
         {"adapt_lr", "kl_avg", "'grad_norm'"}},
        {"policy.learn.lr_scheduler.type=kl",
         {&hd_verb_loss_grad, "batch=advantages stats", "{loss: ppo}"},
         {"ppo", "type minibatch", "'advantages'"}},
        {"policy.learn.lr_scheduler.type=kl",
         {&hd_verb_loss_grad, "target=policy stats", "{loss: ppo}"},
         {"ppo", "target"}},
    };
    for (int i = 0; i < COUNT(mistakes); i++) {
        const char *line = world_mistake(open_three(mistakes[i].sets, 0), &mistakes[i].step);
        for (int k = 0; k < 3 && mistakes[i].names[k]; k++)
            ck_assert_msg(strstr(line, mistakes[i].names[k]), "%s", line);
    }
}

/* -- Partials and shards ----------------------------------------------------------------------- */

#define CONV                                                                                       \
    "policy.model.obs_shape=[2,36,40]; policy.model.action_shape=3; "                              \
    "policy.model.encoder_hidden_size_list=[16,16,32,48]"
static const char *const nets[] = {"policy.model.encoder_hidden_size_list=[96,80]", CONV,
                                   CONV "; runtime.precision=bf16"};
enum { NETS = sizeof nets / sizeof *nets };

/* The last one is in bf16. */
static int count_nets(void)
{
    return bf16_here() ? NETS : NETS - 1;
}

static struct world *make_net(int net, int batch, int micro, int64_t shard)
{
    struct world *w = make_on_policy(shard);
    world_set(w, "policy.learn.batch_size=%d; policy.learn.microbatch=%d", batch, micro);
    world_set(w, "policy.collect.n_sample=96; policy.learn.grad_clip_type=clip_norm; "
                 "policy.learn.minibatch_tail=short");
    world_set(w, "%s", nets[net]);
    return w;
}

static struct world *open_net(int net, int batch, int micro, int64_t shard)
{
    struct world *w = make_net(net, batch, micro, shard);
    open_on_policy(w);
    return w;
}

/* A minibatch of samples [first, first + used) of one fixed list. */
static void fill_batch(struct world *w, int first, int used)
{
    const struct hd_minibatch_shape *shape = hd_minibatch_get_shape(&world_get(w, "batch")->spec);
    const struct hd_minibatch batch = get_minibatch(w);
    const bool u8 = hd_net_has_u8_obs(world_net(w, "policy"));
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

/* Computes the gradient of samples [first, first + used). */
static void compute(struct world *w, int first, int used)
{
    fill_batch(w, first, used);
    world_run(w, &loss_grad, 0);
}

static void combine(struct world *const *worlds, int n)
{
    worlds_combine(worlds, n, &mean_grad);
    worlds_combine(worlds, n, &mean_stats);
}

/* The distribution of samples over shards changes no bit of the mean, nor of what follows from it.
 */
TEST(distributing_samples_over_shards_changes_no_bit, .runs = count_nets())
{
    struct world *one = open_net(_i, SAMPLES, SAMPLES / SHARDS, 0), *four[SHARDS];
    compute(one, 0, SAMPLES);
    combine(&one, 1);
    for (int s = 0; s < SHARDS; s++) {
        four[s] = open_net(_i, SAMPLES / SHARDS, 0, s);
        compute(four[s], s * SAMPLES / SHARDS, SAMPLES / SHARDS);
    }
    combine(four, SHARDS);
    ck_assert_uint_eq(value_hash(world_get(one, "mean_grad")),
                      value_hash(world_get(four[0], "mean_grad")));
    ck_assert_double_eq_tol(world_field(one, "means", "total_loss_avg"),
                            world_field(four[0], "means", "total_loss_avg"), 1e-12);
    run_adam(one);
    for (int s = 0; s < SHARDS; s++) {
        run_adam(four[s]);
        ck_assert_uint_eq(value_hash(world_get(one, "policy")),
                          value_hash(world_get(four[s], "policy")));
    }
}

/* Shards with short minibatches weigh as many samples as they have: the mean is that of one shard
 * with all samples. */
TEST(shards_weigh_what_they_have, .runs = count_nets())
{
    static const int used[SHARDS] = {8, 3, 0, 5};
    struct world *one = open_net(_i, 16, 0, 0), *four[SHARDS];
    double difference = 0, norm = 0;
    int first = 0;
    for (int s = 0; s < SHARDS; first += used[s++]) {
        four[s] = open_net(_i, 8, 0, s);
        compute(four[s], first, used[s]);
    }
    combine(four, SHARDS);
    compute(one, 0, 16);
    combine(&one, 1);
    for (int64_t i = 0; i < world_get(one, "mean_grad")->spec.elements; i++) {
        const double a = ((float *)world_get(one, "mean_grad")->data)[i];
        const double b = ((float *)world_get(four[0], "mean_grad")->data)[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_double_lt(sqrt(difference / norm), _i == 2 ? 1e-2 : 1e-5);
    ck_assert(isfinite(world_field(four[0], "means", "total_loss_avg")));
}

/* k batches accumulated are one batch k times as large, in microbatches of the batch. */
TEST(accumulating_is_a_larger_batch, .runs = count_nets())
{
    struct world *small = make_net(_i, 8, 0, 0), *large = open_net(_i, 24, 8, 0);
    world_set(small, "policy.learn.accumulate=3");
    open_on_policy(small);
    for (int update = 0; update < 3; update++) {
        for (int i = 0; i < 2; i++) {
            struct world *w = i ? large : small;
            ck_assert_int_eq(world_get(w, "grad")->spec.partials, 3);
            compute(w, update * 24, 24);
            combine(&w, 1);
            run_adam(w);
        }
        for (int i = 0; i < small->n_values; i++)
            ck_assert_uint_eq(value_hash(&small->values[i]), value_hash(&large->values[i]));
    }
}

/* One shard's own gradient is bitwise the mean over one shard, in buckets or whole. */
TEST(own_gradients, .runs = count_nets())
{
    uint64_t hash[4];
    for (int i = 0; i < 4; i++) {
        struct world *w = make_net(_i, 24, 8, 0);
        w->bucket_mb = i / 2 ? 0.02 : 0;
        open_on_policy(w);
        for (int update = 0; update < 3; update++) {
            compute(w, update * 24, update == 1 ? 13 : 24);
            combine(&w, 1);
            world_run(w, i % 2 ? &own_grad_norm : &grad_norm, 0);
            world_run(w, i % 2 ? &own_adam : &adam, 0);
        }
        hash[i] =
            hd_hash_mix(value_hash(world_get(w, "policy")), value_hash(world_get(w, "grad_norm")));
    }
    for (int i = 1; i < 4; i++)
        ck_assert_uint_eq(hash[i], hash[0]);
}

/* -- Acting ------------------------------------------------------------------------------------ */

/* The greedy action is that of the largest logit, however large the value is. */
TEST(greedy_actions_ignore_the_value)
{
    struct world *w = make_on_policy(0);
    world_set(w, "env.collector_env_num=8; policy.learn.ppo_param_init=false");
    world_open(w, &collect, NULL);
    world_run(w, &collect, 0);
    const struct hd_net *net = world_net(w, "policy");
    const struct hd_envs_shape *shape = hd_envs_get_shape(&world_get(w, "envs")->spec);
    const struct hd_envs envs = hd_envs_get(INSTANCE(w, "envs"), 0);
    const int64_t outputs = hd_net_count_outputs(net);
    void *params = world_get(w, "policy")->data;
    float out[8 * 3];
    int64_t scratch_bytes, chosen[2] = {0};
    ck_assert_int_eq(hd_stepper_prepare(shape, net, &scratch_bytes), HD_OK);
    void *scratch = hd_alloc(1, (size_t)scratch_bytes);
    for (int value = -1; value <= 1; value++) {
        for (int t = 0; t < hd_net_count_tensors(net); t++)
            if (strcmp(hd_net_get_tensor(net, t)->name, "critic_head.last.bias") == 0)
                ck_assert_int_eq(hd_net_import_tensor(net, &(float){100 * (float)value}, t, params),
                                 HD_OK);
        struct hd_stepper stepper = hd_stepper_get(shape, net, scratch);
        hd_stepper_choose_greedy(&stepper, shape, &envs, net, params, NULL);
        world_forward(w, "policy", NULL, envs.obs, 8, out);
        for (int env = 0; env < 8; env++) {
            const float *logit = out + env * outputs;
            ck_assert_int_eq(stepper.action[env].choice, logit[1] > logit[0]);
            chosen[stepper.action[env].choice]++;
        }
    }
    ck_assert(chosen[0] > 0 || chosen[1] > 0);
    hd_free(scratch);
}
