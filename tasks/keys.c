/* SPDX-License-Identifier: Apache-2.0 */
/* The config keys that verbs and types read, under DI-engine's names and nesting. A help text
 * follows its key in the output of `runner keys`. */
#include "tasks/builtin.h"

#define PER_SHARD "per shard"

const struct hd_key hd_task_keys[] = {
    {"env.type", HD_KEY_TEXT, 0, 0, "cartpole", NULL, NULL,
     "the environment: cartpole, pixel_pong, the name of a plug-in (atari) or its path"},
    {"env.env_id", HD_KEY_TEXT, 0, 0, "", NULL, NULL,
     "the game, of an environment that has several (PongNoFrameskip-v4)"},
    {"env.frame_stack", HD_KEY_INT, 1, 64, "1", NULL, NULL,
     "number of consecutive frames that make an observation"},
    {"env.options", HD_KEY_MAP, 0, 0, "{}", NULL, NULL, "options that the environment defines"},
    {"env.collector_env_num", HD_KEY_INT, 1, 4096, "8", NULL, PER_SHARD,
     "number of environments that collect"},
    {"env.evaluator_env_num", HD_KEY_INT, 1, 4096, "5", NULL, "global",
     "number of environments that evaluate, over all ranks"},
    {"env.n_evaluator_episode", HD_KEY_INT, 1, 4096, "5", NULL, "global",
     "number of episodes of an evaluation, over all ranks"},
    {"env.stop_value", HD_KEY_REAL, -1e300, 1e300, "1e10", NULL, "global",
     "mean return of an evaluation at which the run stops"},

    {"runtime.precision", HD_KEY_CHOICE, 0, 0, "f32", "f32|tf32|bf16", "global",
     "arithmetic of the nets; bf16: convolutional nets multiply bf16 numbers and parameters "
     "stay f32; tf32: GPUs multiply floats rounded to 10 bits and CPUs compute in f32"},
    {"runtime.on_nan", HD_KEY_CHOICE, 0, 0, "stop", "stop|skip", "global",
     "what happens when a shard's loss is not finite; stop: the run ends with an error; skip: "
     "this update leaves the parameters as they are"},
    {"policy.type", HD_KEY_CHOICE, 0, 0, "dqn", "dqn|ppo|bc", "global",
     "the algorithm, and with it the outputs of the policy's net; dqn: action values; ppo: "
     "logits and a value; bc: logits"},
    {"policy.multi_gpu", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "data-parallel training; must be true when there are several ranks"},
    {"policy.cuda", HD_KEY_CHOICE, 0, 0, "auto", "true|false|auto", "global",
     "whether GPUs learn; auto: if there are any"},
    {"policy.model.obs_shape", HD_KEY_INT_LIST, 1, 1e6, NULL, NULL, "global",
     "shape of an observation"},
    {"policy.model.action_shape", HD_KEY_INT, 1, 1e6, NULL, NULL, "global", "number of actions"},
    {"policy.model.encoder_hidden_size_list", HD_KEY_INT_LIST, 1, 1e6, "[128, 128, 64]", NULL,
     "global", "widths of the encoder's layers"},
    {"policy.model.dueling", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "the net has an advantage stream and a value stream instead of one head"},
    {"policy.model.norm", HD_KEY_CHOICE, 0, 0, "none", "none|sync_batch_norm", "global",
     "normalisation between each hidden layer of a dense net and its ReLU; sync_batch_norm: "
     "that of torch.nn.SyncBatchNorm, over the samples of all shards, for graphs/bc_norm.yaml"},
    {"policy.model.actor_head_hidden_size", HD_KEY_INT, 0, 1e6, "0", NULL, "global",
     "width of the actor's hidden layer, which must be that of the encoder's last layer; 0: "
     "that width"},
    {"policy.model.critic_head_hidden_size", HD_KEY_INT, 0, 1e6, "0", NULL, "global",
     "width of the critic's hidden layer, which must be that of the encoder's last layer; 0: "
     "that width"},
    {"policy.nstep", HD_KEY_INT, 1, 1000, "1", NULL, "global",
     "number of rewards that are added before bootstrapping"},
    {"policy.nstep_tail", HD_KEY_CHOICE, 0, 0, "di_engine", "di_engine|corrected", "global",
     "exponent of gamma in the bootstrap of the last samples of a fragment, which have only k "
     "rewards; di_engine: k - 1; corrected: k"},
    {"policy.discount_factor", HD_KEY_REAL, 0, 1, "0.97", NULL, "global",
     "gamma, the discount factor, of off-policy learning"},
    {"policy.learn.update_per_collect", HD_KEY_INT, 1, 1e6, "5", NULL, "global",
     "number of updates after each collect"},
    {"policy.learn.batch_size", HD_KEY_INT, 1, 1e6, "64", NULL, PER_SHARD,
     "number of samples of an update"},
    {"policy.learn.microbatch", HD_KEY_INT, 0, 1e6, "0", NULL, PER_SHARD,
     "number of samples whose gradients are added at once, a divisor of batch_size; 0: "
     "batch_size"},
    {"policy.learn.accumulate", HD_KEY_INT, 1, 1e6, "1", NULL, "global",
     "number of batches of batch_size whose gradients are added before the ranks exchange them"},
    {"policy.learn.learning_rate", HD_KEY_REAL, 0, 1e3, "0.001", NULL, "global",
     "learning rate of Adam"},
    {"policy.learn.ppo_param_init", HD_KEY_CHOICE, 0, 0, "true", "true|false|scaled", "global",
     "initial parameters of a net of policy.type ppo; true: orthogonal dense layers as in "
     "DI-engine; false: PyTorch's defaults; scaled: orthogonal with gains"},
    {"policy.learn.adam_eps", HD_KEY_REAL, 0, 1, "1e-8", NULL, "global", "epsilon of Adam"},
    {"policy.learn.grad_clip_type", HD_KEY_CHOICE, 0, 0, "none", "none|clip_norm", "global",
     "clipping of gradients; clip_norm: a gradient longer than grad_clip_value is scaled down "
     "to that length"},
    {"policy.learn.grad_clip_value", HD_KEY_REAL, 0, 1e9, "0.5", NULL, "global",
     "largest L2 norm of the whole gradient"},
    {"policy.learn.target_update_freq", HD_KEY_INT, 1, 1e12, "100", NULL, "global",
     "number of updates between copies to the target net"},
    {"policy.recompute_adv", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "values, advantages and returns are computed at the start of each epoch; false: once "
     "after each collect"},
    {"policy.learn.epoch_per_collect", HD_KEY_INT, 1, 1e6, "10", NULL, "global",
     "number of passes over the samples of a collect"},
    {"policy.learn.value_weight", HD_KEY_REAL, 0, 1e6, "0.5", NULL, "global",
     "weight of the value loss in the total loss"},
    {"policy.learn.entropy_weight", HD_KEY_REAL, 0, 1e6, "0.01", NULL, "global",
     "weight of the policy's entropy in the total loss"},
    {"policy.learn.clip_ratio", HD_KEY_REAL, 0, 1e6, "0.2", NULL, "global",
     "largest change of the probability ratio and of the value before they are clipped"},
    {"policy.learn.value_clip", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "the value loss is the larger of the losses of the value and of the clipped value"},
    {"policy.learn.adv_norm", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "advantages are standardised over each minibatch of a shard"},
    {"policy.learn.value_norm", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "the net's values are in units of the running deviation of returns"},
    {"policy.learn.minibatch_tail", HD_KEY_CHOICE, 0, 0, "overlap", "overlap|short", "global",
     "what happens to samples that fill no minibatch; overlap: the last minibatch overlaps the"
     " one before, as in DI-engine; short: it is shorter"},
    {"policy.learn.lr_scheduler.type", HD_KEY_CHOICE, 0, 0, "none", "none|kl", "global",
     "schedule of the learning rate; kl: it is adapted to the divergence between the policies "
     "before and after an iteration"},
    {"policy.learn.lr_scheduler.kl_low", HD_KEY_REAL, 0, 1e6, "0.005", NULL, "global",
     "divergence below which the learning rate grows"},
    {"policy.learn.lr_scheduler.kl_high", HD_KEY_REAL, 0, 1e6, "0.02", NULL, "global",
     "divergence above which the learning rate falls"},
    {"policy.learn.lr_scheduler.factor", HD_KEY_REAL, 1, 1e3, "1.5", NULL, "global",
     "factor by which the learning rate grows or falls"},
    {"policy.learn.lr_scheduler.min", HD_KEY_REAL, 0, 1e3, "1e-6", NULL, "global",
     "smallest learning rate"},
    {"policy.learn.lr_scheduler.max", HD_KEY_REAL, 0, 1e3, "0.01", NULL, "global",
     "largest learning rate"},
    {"policy.learn.train_epoch", HD_KEY_INT, 1, 1e15, "1e10", NULL, "global",
     "number of passes over the data set after which the run stops"},
    {"policy.learn.sampler.shuffle", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "the data set is shuffled for each epoch before it is distributed to the shards"},
    {"policy.learn.sampler.tail", HD_KEY_CHOICE, 0, 0, "pad", "pad|drop_last|uneven", "global",
     "what happens when the number of shards does not divide the samples; pad: the first "
     "samples are repeated; drop_last: the last samples are left out; uneven: some shards have"
     " one sample more"},
    {"policy.collect.data_path", HD_KEY_TEXT, 0, 0, "", NULL, "global",
     "folder of the data set to learn from, which `runner record` wrote, relative to the "
     "working directory"},
    {"policy.collect.discount_factor", HD_KEY_REAL, 0, 1, "0.99", NULL, "global",
     "gamma, the discount factor, of on-policy learning"},
    {"policy.collect.gae_lambda", HD_KEY_REAL, 0, 1, "0.95", NULL, "global",
     "lambda of generalised advantage estimation"},
    {"policy.collect.env_groups", HD_KEY_INT, 1, 4096, "1", NULL, PER_SHARD,
     "number of environment groups that are played independently, a divisor of "
     "collector_env_num and of n_sample"},
    {"policy.collect.overlap_act_step", HD_KEY_BOOL, 0, 0, "false", NULL, "global",
     "acting and stepping are separate tasks for each step of an environment group, and GPUs "
     "act if there are any; false: a group's collect is one task"},
    {"policy.collect.segment_at_done", HD_KEY_BOOL, 0, 0, "true", NULL, "global",
     "a fragment ends with its episode and unfinished fragments are dropped, as in DI-engine; "
     "false: each environment plays n_sample / collector_env_num steps and none is dropped"},
    {"policy.collect.obs_samples", HD_KEY_INT, 1, 65536, "256", NULL, PER_SHARD,
     "number of observations of a collect that are added to the running statistics of "
     "observations"},
    {"policy.collect.n_sample", HD_KEY_INT, 1, 1e7, "8", NULL, PER_SHARD,
     "number of samples of a collect"},
    {"policy.eval.evaluator.eval_freq", HD_KEY_INT, 1, 1e12, "1000", NULL, "global",
     "smallest number of updates between evaluations"},
    {"policy.other.eps.type", HD_KEY_CHOICE, 0, 0, "exp", "exp|linear", "global",
     "how epsilon decays"},
    {"policy.other.eps.start", HD_KEY_REAL, 0, 1, "0.95", NULL, "global", "epsilon at the start"},
    {"policy.other.eps.end", HD_KEY_REAL, 0, 1, "0.1", NULL, "global", "epsilon at the end"},
    {"policy.other.eps.decay", HD_KEY_REAL, 1, 1e15, "10000", NULL, "global",
     "number of environment steps, over all shards, of the decay of epsilon"},
    {"policy.other.replay_buffer.replay_buffer_size", HD_KEY_INT, 1, 1e9, "20000", NULL, PER_SHARD,
     "number of transitions that the replay holds"},
    {"policy.other.replay_buffer.frame_slack", HD_KEY_REAL, 0, 10, "0.05", NULL, PER_SHARD,
     "frames that a large replay holds beyond one for each transition, as a share of these; "
     "short episodes need more"},
    {0},
};
