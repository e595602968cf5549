#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wording of messages is looked at here, and nowhere else: each says what was found, what was expected, where, and
what to do. Other tests look at places, keys and numbers."""

import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check  # noqa: E402

A2C, DQN, PPO, SAC = (f"configs/{name}.yaml" for name in ("cartpole_a2c_ddp", "cartpole_dqn_ddp", "cartpole_ppo_ddp",
                                                          "pendulum_sac"))
CLONE, GRU, PENDULUM = (f"configs/{name}.yaml" for name in ("cartpole_bc_ddp", "cartpole_hidden_ppo_gru", "pendulum_ppo"))
PONG, PRIORITY = "configs/pixel_pong_dqn_ddp.yaml", "configs/cartpole_dqn_priority.yaml"

ALGORITHMS = re.search(r"one of ([\w, ]+);", call("keys", "policy.type").stdout)[1]
LOSSES = ALGORITHMS.replace(", ", "|") + "|sac_critic"

# What is typed, and parts of the one message that answers.
COMMANDS = [
    (["keys", "policy.learn.lr"], ["no key 'policy.learn.lr'", "did you mean 'policy.learn.learning_rate'?"]),
    (["keys", "polcy.learn.learning_rate"], ["did you mean 'policy.learn.learning_rate' or"]),
    (["keys", "policy.lern"], ["no key 'policy.lern' (did you mean 'policy.learn'?)"]),
    (["verbs", "adm"], ["no verb 'adm'", "did you mean 'adam'?"]),
    (["keyz"], ["did you mean 'keys'?"]),
    (["verb"], ["did you mean 'verbs'?"]),
    (["train", CONFIG], ["unknown command 'train' (did you mean 'run'?)"]),
    (["evaluate", CONFIG], ["did you mean 'eval'?"]),
    (["run", "-"], ["'-': a config is not read from standard input"]),
    (["run", "--", "-x"], ["-x: the config cannot be read"]),
    (["doctor", "here"], ["doctor takes no argument, found 'here'"]),
    (["graph", "configs/cartpole_dqn_dp.yaml"],
     ["configs/cartpole_dqn_dp.yaml", "No such file", "did you mean 'configs/cartpole_dqn_ddp.yaml'?"]),
    (["graph", "cartpole_bc_ddp"], ["did you mean 'configs/cartpole_bc_ddp.yaml'?"]),
]
OPTIONS = [
    (["--seed", "-1"], ["--seed: seed: expected an integer in [0, 9007199254740992], found '-1'"]),
    (["--strategy", "pipeline"], ["--strategy: ", "did you mean 'pipelined.yaml'?"]),
    (["--set", "policy.learn.learning_rate", "0.1"],
     ["--set needs KEY=VALUE, found 'policy.learn.learning_rate'; write --set policy.learn.learning_rate=0.1"]),
    (["--set", "policy.learn.learning_rate"], ["write --set policy.learn.learning_rate=VALUE"]),
    (["--set", "policy.type=td3"], ["--set:1:13: policy.type: expected one of " + ALGORITHMS + ", found 'td3'\n"]),
    (["--set", "max_env_step=0.5"], ["an integer in [1, 1000000000000000], found '0.5'"]),
    (["--lr", "0.1"], ["unknown option '--lr'", "--set KEY=VALUE", "'policy.learn.learning_rate'"]),
    (["--batch-size=3"], ["'policy.learn.batch_size'"]),
    (["-x"], ["unknown option '-x'"]),
]
PPO_FAST = "graph=graphs/ppo_fast.yaml"
REPLAY = "policy.other.replay_buffer.replay_buffer_size"
CONTRADICTIONS = [  # keys that exclude each other, each at its place
    (CONFIG, ["policy.learn.batch_size=100000"],
     f"--set:1:25: policy.learn.batch_size: expected at most {REPLAY}, which is 20000, found 100000: "),
    (CONFIG, [f"{REPLAY}=32"], f":16:46: policy.learn.batch_size: expected at most {REPLAY}, which is 32, found 64: "),
    (CONFIG, [f"{REPLAY}=7", "policy.learn.batch_size=4"],
     f"policy.collect.n_sample: expected at most {REPLAY}, which is 7, found 8: "),
    (PPO, [PPO_FAST, "policy.learn.lr_scheduler.kl_low=3"],
     "--set:2:34: policy.learn.lr_scheduler.kl_low: expected at most policy.learn.lr_scheduler.kl_high, which is 0.02"),
    (PPO, [PPO_FAST, "policy.learn.lr_scheduler.min=3"], "expected at most policy.learn.lr_scheduler.max"),
]
UNUSED = [  # with other values than the default; and what is used, or changes nothing
    (CONFIG, "policy.learn.clip_ratio=0.3", "warning: --set:1:25: policy.learn.clip_ratio is not used by this run of dqn\n"),
    (PPO, "policy.learn.target_update_freq=3", "policy.learn.target_update_freq is not used by this run of ppo\n"),
    (PPO, "policy.other.eps.start=0.5", "policy.other.eps.start is not used by this run of ppo\n"),
    (PPO, "policy.nstep=3", "policy.nstep is not used by this run of ppo\n"),
    (SAC, "policy.other.eps.start=0.5", "policy.other.eps.start is not used by this run of sac\n"),
    (CONFIG, "policy.other.replay_buffer.beta=0.7", "policy.other.replay_buffer.beta is not used by this run of dqn\n"),
    (CONFIG, "policy.nstep_tail=corrected", "policy.nstep_tail is not used by this run of dqn\n"),
    (CONFIG, "policy.collect.clip_obs=5", "policy.collect.clip_obs is not used by this run of dqn\n"),
    (CONFIG, "policy.learn.clip_ratio=0.2", ""),
    (CONFIG, "policy.cuda=false", ""),
]
FLOW = [  # a text of graphs/dqn.yaml, what stands there instead, and the warning
    ("  - save:      {reads: [best, best_norm], as: best}     # ckpt/best\n", "",
     "PATH:34:131: no step reads 'best', which evaluate updates"),
    ("reads: [means, episode_means,", "reads: [episode_means,",
     "PATH:56:61: no step reads 'means', which mean(stats) writes"),
    ("    when: replay.size >= $policy.learn.batch_size * $policy.learn.accumulate\n", "",
     "PATH:45:33: sample_replay reads 'replay', which starts empty: add a `when: replay.size >= ...`"),
    ("totals.env_step >= $max_env_step or update", "update",
     f"{CONFIG}:7:15: max_env_step is not used by this run of dqn"),
    ("writes: [target]", "writes: [target], when: 0", "PATH:5:3: no step changes 'target', which loss_grad reads: it stays as it starts"),
]
ALIASES = {
    "lr": "policy.learn.learning_rate", "gamma": "policy.discount_factor", "n_envs": "env.collector_env_num",
    "num_envs": "env.collector_env_num", "total_timesteps": "max_env_step", "batch_size": "policy.learn.batch_size",
    "policy.seed": "seed", "buffer_size": "policy.other.replay_buffer.replay_buffer_size",
    "policy.learn.ent_coef": "policy.learn.entropy_weight", "policy.n_steps": "policy.collect.n_sample",
}

# Below configs/: a text of a file, what stands there instead, the text in that at whose place the mistake is told (its
# last occurrence; None: the place is told with it), and what is told.
WHEN, EVERY = "replay.size >= $policy.learn.batch_size * $policy.learn.accumulate", "every: $policy.learn.target_update_freq update"
SAMPLE = "      - sample_replay: {reads: [replay, obs_norm, reward_norm], writes: [batch]}\n"
LEARN = "      - loss_grad: {loss: $policy.type, reads: [policy, target, batch, schedule], updates: [stats], writes: [grad]}\n"
MEAN = "      - mean:      {exchange: $strategy.exchange_precision, reads: [grad], updates: [residual], writes: [mean_grad]}\n"
FILES = {
    "cartpole_ppo_ddp": [
        ("n_sample: 256", "n_sample: 256, env_groups: 3", "3",
         "policy.collect.env_groups: expected a divisor of env.collector_env_num 8, found 3",
         "policy.collect.env_groups: expected a divisor of policy.collect.n_sample 256, found 3"),
        ("n_sample: 256", "n_sample: 250, env_groups: 4", "4",
         "policy.collect.env_groups: expected a divisor of policy.collect.n_sample 250, found 4"),
        ("type: ppo", "type: dqn", "dqn",
         "collect_on_policy samples from the logits of an actor: policy.type must be a2c or ppo or vtrace, found dqn",
         "loss ppo learns an actor and a critic: policy.type must be ppo, found dqn"),
        ("type: ppo", "type: bc", "bc",
         "collect_on_policy samples from the logits of an actor: policy.type must be a2c or ppo or vtrace, found bc",
         "loss ppo learns an actor and a critic: policy.type must be ppo, found bc"),
        ("batch_size: 64", "batch_size: 64\n    microbatch: 7", "7",
         "policy.learn.microbatch: expected a divisor of the batch's 64 rows, found 7"),
        ("batch_size: 64", "batch_size: 64\n    microbatch: 128", "128",
         "policy.learn.microbatch: expected a divisor of the batch's 64 rows, found 128"),
        ("batch_size: 64", "batch_size: 100\n    accumulate: 3\n    minibatch_tail: short", "100",
         "policy.learn.batch_size: expected a divisor of the batch's 256 rows, found 100; policy.learn.microbatch may "
         "be one instead"),
        ("critic_head_hidden_size: 128", "critic_head_hidden_size: 64", "64",
         "critic_head_hidden_size: expected 128, the width of the encoder's last layer, or 0, which means that; found "
         "64"),
        ("grad_clip_type: clip_norm", "grad_clip_type: clip_value", "clip_value",
         "policy.learn.grad_clip_type: expected one of none, clip_norm, found 'clip_value'"),
        ("gae_lambda: 0.95", "gae_lambda: 1.5", "1.5",
         "policy.collect.gae_lambda: expected a finite number in [0, 1], found '1.5'"),
        ("policy:\n", "policy:\n  priority: true\n", "true",
         "policy.priority: loss ppo has no temporal-difference errors from which priorities could follow; loss dqn "
         "has")],
    "graphs/ppo": [
        ("adam:      {reads: [mean_grad, grad_norm, schedule]", "adam:      {reads: [mean_grad]", "adam:",
         "policy.learn.grad_clip_type clip_norm needs the result of a step grad_norm under `reads`"),
        ("loss_grad: {loss: ppo, reads: [policy, batch, obs_norm, schedule]", "loss_grad: {loss: ppo, reads: [policy, advantages, obs_norm]",
         "loss_grad:", "loss ppo takes a batch of type minibatch, but 'advantages' is of type advantages: it "
         "learns by graphs/ppo.yaml"),
        ("loss: ppo", "loss: pqn", "pqn", f"loss: expected {LOSSES}, found 'pqn'")],
    "graphs/ppo_fast": [
        ("adapt_lr:  {reads: [means]", "adapt_lr:  {reads: [episode_means]", "adapt_lr",
         "adapt_lr needs the divergence kl_avg, which 'episode_means' does not hold")],
    "cartpole_hidden_ppo_gru": [
        ("unroll_len: 32", "unroll_len: 48", "48",
         "policy.collect.unroll_len: expected a divisor of 128, the steps that an environment plays in a collect; "
         "found 48"),
        ("n_sample: 2048", "n_sample: 2040", "2040",
         "policy.collect.n_sample: expected a multiple of 16, the environments that collect; found 2040"),
        ("batch_size: 512", "batch_size: 16", "16",
         "policy.learn.batch_size: expected whole sequences of 32 steps (policy.collect.unroll_len), found 16 samples"),
        ("batch_size: 512", "batch_size: 512\n    microbatch: 16", "16",
         "policy.learn.microbatch: expected whole sequences of 32 steps (policy.collect.unroll_len), found 16 samples"),
        ("segment_at_done: false", "segment_at_done: true", "true",
         "policy.collect.segment_at_done: a recurrent net learns from sequences of one length; expected false, found "
         "true"),
        ("{gru: {hidden: 64}}", "{residual: [{gru: 64}]}", "gru", "gru cannot stand inside of residual"),
        ("{gru: {hidden: 64}}", "batch_norm, {lstm: 64}", "lstm", "a net with batch_norm cannot have lstm"),
        ("{gru: {hidden: 64}}", "{gru: {hidden: 0}}", "0",
         "expected an integer in [1, 1000000] for hidden of gru, found 0"),
        ("{gru: {hidden: 64}}", "gru", "gru", "gru needs its field hidden")],
    "graphs/sac": [
        ("net: policy.critic,", "net: policy.actor,", "policy.actor",
         "net: expected policy.model or policy.critic, found policy.actor"),
        ("net: policy.critic, init: critic1", "init: critic1", "target1:",
         "'target1' and 'critic1' have different nets (`net:`): [3] numbers to [2] by 67330 parameters, and [4] to "
         "[1] by 67329"),
        ("{type: grad, per: shard, of: policy}", "{type: grad, per: shard, of: policy, net: policy.critic}",
         "policy.critic}", "'policy_grad' has the net of 'policy': `net:` belongs to values of type params"),
        ("adam:      {learning_rate: $policy.learn.learning_rate_q, reads: [critic1_mean, schedule]",
         "adam:      {learning_rate: $policy.learn.learning_rate_q, reads: [critic2_mean]", "adam",
         "adam: 'critic2_mean' is made of 'critic2', not of 'critic1'"),
        ("learning_rate: $policy.learn.learning_rate_q", "learning_rate: $policy.learn.learning_rat_q",
         "$policy.learn.learning_rat_q",
         "learning_rate: expected a number or a key ($policy.learn.learning_rate), found "
         "$policy.learn.learning_rat_q; is it $policy.learn.learning_rate_q"),
        ("loss_grad: {loss: sac, reads: [policy, critic1, critic2, temperature, batch, schedule]",
         "loss_grad: {loss: sac, reads: [policy, critic1, critic2, batch]", "loss_grad",
         "loss sac needs a temperature (port 'temperature')"),
        ("loss_grad: {loss: sac, reads", "loss_grad: {loss: dqn, reads", "loss_grad",
         "loss dqn needs a second value of type params under `reads` (port 'target')")],
    "cartpole_dqn_ddp": [
        ("policy:\n", "policy:\n  priority: true\n", "true",
         "policy.priority: true: the step push_replay of this graph has no value for its port 'priorities'; "
         "graphs/dqn_priority.yaml has",
         "policy.priority: true: the step sample_replay of this graph has no value for its port 'priorities'; "
         "graphs/dqn_priority.yaml has"),
        ("seed: 0", "sead: 0", "sead", "unknown key 'sead' (did you mean 'seed'?)"),
        ("nstep: 1", "nstep: '1'", "'1'", "policy.nstep: expected an integer in [1, 1000], found the quoted text '1'"),
        ("nstep: 1", "nstep: [1]", "[", "policy.nstep: expected an integer in [1, 1000], found a list"),
        ("nstep: 1", "nstep: ~", "~", "policy.nstep: expected an integer in [1, 1000], found '~'"),
        ("discount_factor: 0.97", "discount_factor: .nan", ".nan",
         "policy.discount_factor: expected a finite number in [0, 1], found '.nan'"),
        ("multi_gpu: true", "multi_gpu: yes", "yes", "policy.multi_gpu: expected true or false, found 'yes'"),
        ("[128, 128, 64]", "[128, x]", "x",
         "policy.model.encoder_hidden_size_list: expected an integer or a list of integers in [1, 1000000], found 'x'"),
        ("collect: {n_sample: 8}", "collect: 5", "5", "collect: expected a map of keys, found '5'"),
        ("exp_name: cartpole_dqn_ddp", "exp_name: [a]", "[", "exp_name: expected a text, found a list"),
        ("shards: 4", "shards: aut", "aut", "world.shards: expected an integer in [1, 4096] or auto, found 'aut'"),
        ("obs_shape: 4", "obs_shape: 5", "5",
         "policy.model.obs_shape: env.type cartpole with env.frame_stack 1 shows [4], found [5]"),
        ("action_shape: 2", "action_shape: 3", "3",
         "policy.model.action_shape: env.type cartpole has 2 actions, found 3 actions"),
        ("env: {type: cartpole,", "env: {type: cartpole, options: {speed: 3},", "cartpole",
         "env.type cartpole: it takes no env_id and no such option, found 'speed'"),
        ("env: {", "environment: {}\nenv: {", "environment",
         "unknown key 'environment' (the keys here are: exp_name, seed, graph, strategy, world, max_env_step, "
         "max_train_iter, runtime, env, policy)")],
    "cartpole_dqn_priority": [
        ("priority: true                   # draw by priorities\n  priority_IS_weight: true",
         "priority: false\n  priority_IS_weight: false", "false\n",
         "policy.priority must be true: the step push_replay of this graph has a value for its port 'priorities'",
         "policy.priority must be true: the step sample_replay of this graph has a value for its port 'priorities'"),
        ("alpha: 0.6", "alpha: 1.5", "1.5",
         "policy.other.replay_buffer.alpha: expected a finite number in [0, 1], found '1.5'"),
        ("beta: 0.4", "beta: -1", "-1",
         "policy.other.replay_buffer.beta: expected a finite number in [0, 1], found '-1'")],
    "graphs/dqn_priority": [
        ("{type: td_errors, per: shard}", "{type: td_errors, per: shard, when: 0}", None,
         "configs/cartpole_dqn_priority.yaml:14:13: policy.priority: true: the step loss_grad of this graph has no value "
         "for its port 'td_errors'; graphs/dqn_priority.yaml has")],
    "graphs/dqn": [
        ("totals:        {type: env_counters}", "totals:        {type: env_counter}", "env_counter}",
         "unknown type 'env_counter' (did you mean 'env_counters'?)"),
        ("totals:        {type: env_counters}", "totals:        {per: shard}", "{", "value 'totals' needs a type"),
        ("grad:          {type: grad, per: shard", "grad:          {type: grad, per: rank", "rank",
         "per: expected 'shard', found 'rank'"),
        ("placement: rank0, init: policy", "placement: rank1, init: policy", "rank1",
         "unknown placement 'rank1' (did you mean 'rank0'?)"),
        ("slots: $strategy.batch_buffers", "slots: 0", "0", "slots: expected an integer in [1, 64], found '0'"),
        ("best:          {type: params, placement: rank0, init: policy",
         "best:          {type: params, placement: rank0, init: bestt", "bestt",
         "unknown value 'bestt' (did you mean 'best'?)"),
        ("target:        {type: params, init: policy", "target:        {type: params, init: later", "later",
         "unknown value 'later': expected one of policy, target, optimizer, envs, replay, transitions, counters, "
         "episodes, episode_means, totals, batch, grad, mean_grad, stats, means, eval_envs, best, result, evaluation, "
         "residual, schedule, obs_stats, all_obs_stats, obs_norm, best_norm, reward_stats, all_reward_stats, reward_norm"),
        ("  counters: ", "  unused: {type: scalars}\n  counters: ", "unused", "no step names the value 'unused'"),
        ("- sum:       {", "- sun:       {", "sun", "unknown verb 'sun' (did you mean 'sum'?)"),
        ("sum:       {reads: [counters]", "sum:       {read: [counters]", "read",
         "unknown key of a step 'read' (did you mean 'reads'?)"),
        ("sum:       {reads: [counters]", "sum:       {reads: counters", "counters",
         "reads: expected a list, found 'counters'"),
        ("sum:       {reads: [counters]", "sum:       {reads: [counter]", "counter",
         "unknown value 'counter' (did you mean 'counters'?)"),
        ("push_replay: {reads: [transitions], updates: [replay]}",
         "push_replay: {reads: [transitions], updates: [batch]}", "batch",
         "push_replay has no free port under `updates` for 'batch' of type batch"),
        ("push_replay: {reads: [transitions], updates: [replay]}", "push_replay: {reads: [transitions]}", "push",
         "push_replay needs a value of type replay under `updates` (port 'replay')"),
        ("push_replay: {reads: [transitions], updates", "push_replay: {reads: [a: transitions], updates", "a:",
         "unknown port 'a': expected one of transitions, replay, priorities"),
        ("copy:      {every: $policy.learn.target_update_freq update, reads: [policy]",
         "copy:      {every: $policy.learn.target_update_freq update, reads: [grad]", "grad",
         "copy has no free port under `reads` for 'grad' of type grad"),
        ("writes: [totals]", "writes: [totals], if: 1", "if",
         "unknown key of a step 'if': expected one of reads, writes, updates, every, first, when, counts"),
        ("sum:       {reads: [counters], writes: [totals]}", "sum:       {reads: [counters], writes: [counters]}",
         "counters", "sum names 'counters' more than once; only reads may share a value",
         "sum writes a global value, but 'counters' is shard"),
        ("sum:       {reads: [counters]", "sum:       {reads: [totals]", "totals",
         "sum combines shards, but 'totals' is global"),
        ("result@-$strategy", "result@$strategy", "@", "expected '@-' and a number of iterations, as in 'x@-1'"),
        ("updates: [replay]", "updates: [replay@-1]", "@-1]", "only a read may lag"),
        ("reads: [policy, target, batch, schedule]", "reads: [policy@-1, target, batch]", "@-1,",
         "a lag counts iterations: not inside a repeat"),
        (MEAN + "      - adam:      {reads: [mean_grad", "      - adam:      {reads: [mean_grad", "mean_grad",
         "no step writes 'mean_grad', which adam reads: a value of type grad has no content until one does"),
        (MEAN, "      - sum:       {reads: [grad], writes: [mean_grad]}\n", "sum:", "values of type grad ('grad') combine by mean, not by sum"),
        (SAMPLE + LEARN, LEARN + SAMPLE, "batch, schedule], updates",
         "'batch' has no content here in the first iteration, and loss_grad requires it: put it behind sample_replay at "
         "line 47"),
        ("  - sum:       {reads: [counters]", "  - push_replay: {reads: [transitions@-1], updates: [replay]}\n  - sum: {reads: [counters]",
         "transitions@", "'transitions@-1' has no content in iterations up to 1, and push_replay requires it: add `when: "
         "iteration > 1`"),
        (EVERY, "every: 3", "3", "every: expected a number and a counter, as in '100 update', found '3'"),
        (EVERY, "every: 3 updat", "updat", "unknown counter 'updat' (did you mean 'update'?)"),
        (EVERY, "every: 0 update", "0", "every: expected an integer in [1, 1e+15], found '0'"),
        (EVERY, "first: 0", "0", "`first` requires `every`"),
        ("    do:\n", "    doo:\n", "doo", "unknown key of a repeat 'doo' (did you mean 'do'?)"),
        ("when: replay.size >=", "when: replay.siz >=", "replay.siz",
         "unknown name 'replay.siz' (did you mean 'size'?)"),
        ("if: totals.env_step >=", "if: means.q >=", "means.q", "unknown name 'means.q'"),
        ("if: totals.env_step >= $max_env_step or update >= $max_train_iter, ", "", "stop",
         "stop needs a condition: `if:`"),
        (WHEN, "replay.size >= $policy.learn.batchsize", "$",
         "unknown number of the configuration '$policy.learn.batchsize' (did you mean 'policy.learn.batch_size'?)"),
        (WHEN, "replay.size =", "=", "expected an operator, found '='; equality is '=='"),
        (WHEN, "replay.size > 1 > 0", "> 0", "expected 'and' or 'or' between comparisons, found '>'"),
        (WHEN, "replay.size > cel(1)", "cel", "unknown function 'cel' (did you mean 'ceil'?)"),
        (WHEN, "replay.size > 1 / 0", "/", "a division by zero"),
        (WHEN, "replay.size > min(1)", ")", "expected ',' and a second argument, found ')'"),
        (WHEN, "replay.size >", "", "expected a number, a name or '(', but the expression ends"),
        (WHEN, "replay.size && 1", "&&", "expected an operator, found '&&'; it is spelled 'and'"),
        (WHEN, "replay.size > 1e999", "1e999", "a constant that is not a finite number"),
        (WHEN, "update > updte", "updte", "unknown name 'updte' (did you mean 'update'?)")],
}
# Run files that use the graphs.
USERS = {"graphs/dqn": DQN, "graphs/dqn_priority": PRIORITY, "graphs/ppo": PPO, "graphs/ppo_fast": PPO, "graphs/sac": SAC}


def model(layers, heads="{q: {type: dense}}"):
    return f"policy.model={{obs_shape: 4, action_shape: 2, layers: {layers}, heads: {heads}}}"


# A run file, keys that are set, and what is told.
SETS = [
    (DQN, model("[{dense: 8}, rellu]"),
     "--set:1:67: expected a layer (dense, conv, relu, tanh, gelu, max_pool, flatten, layer_norm, group_norm, "
     "batch_norm, embedding, gru, lstm, residual), found rellu (did you mean 'relu'?)"),
    (DQN, model("[{dense: 0}, {conv: {chanels: 4, kernel: 0}}, relu]"),
     "--set:1:63: expected an integer in [1, 1000000] for out of dense, found 0",
     "--set:1:75: conv has no field 'chanels' (it has channels, kernel, stride, padding)",
     "--set:1:95: expected an integer in [1, 1000000] for kernel of conv, found 0"),
    (DQN, model("[{dense: wide}]"), "--set:1:63: expected an integer in [1, 1000000] for out of dense, found wide"),
    (DQN, model("[{dense: 0}]"), "--set:1:63: expected an integer in [1, 1000000] for out of dense, found 0"),
    (DQN, model("[{dense: {width: 3}}]"), "--set:1:64: dense has no field 'width' (it has out)"),
    (DQN, model("[{conv: {channels: 3}}]"), "--set:1:56: conv needs its field kernel"),
    (DQN, model("[{relu: 3}]"), "--set:1:62: relu has no fields"),
    (DQN, model("[dense]"), "--set:1:55: dense needs its field out"),
    (DQN, model("[residual]"), "--set:1:55: residual needs a list of layers"),
    (DQN, model("[{dense: 3, relu: 4}]"),
     "--set:1:55: expected one layer with its fields ({conv: {channels: 32, kernel: 3}}), found a map"),
    (DQN, model("relu"), "--set:1:54: expected a list of layers, found relu"),
    (DQN, model("[{dense: 8}, {conv: {channels: 4, kernel: 3}}]"),
     "--set:1:68: conv takes [channels, height, width] of at least 3 x 3 pixels (kernel 3, padding 0); it gets [8] "
     "from dense"),
    (DQN, model("[tanh, {residual: [{dense: 5}]}]"),
     "--set:1:62: residual adds its input, [4], to the output of its layers, [5]; both shapes must be equal"),
    (DQN, "env.type=CartPole-v1",
     "--set:1:10: env.type: no environment 'CartPole-v1': one of Gymnasium is env.type: gymnasium with env.env_id: CartPole-v1 "
     "(scripts/gymnasium makes its Python)"),
    (DQN, "policy.model={obs_shape: 4, action_shape: 2, layers: [{dense: 8}]}",
     "--set:1:54: heads: a net of policy.type dqn needs a head q of type dense|dueling"),
    (DQN, model("[{dense: 8}]", "{policy: {type: categorical}}"),
     "--set:1:76: a net of policy.type dqn has no head 'policy'"),
    (DQN, model("[{dense: 8}]", "{q: {type: categorical}}"),
     "--set:1:86: heads.q: expected the type dense|dueling, found categorical"),
    (DQN, model("[{dense: 8}]", "{q: {type: dense, hidden: 3}}"),
     "--set:1:93: expected a head's keys type and layers, found hidden"),
    (DQN, "policy.model={obs_shape: 4, action_shape: 2, heads: {q: {type: dense}}}",
     "--set:1:53: policy.model.heads needs policy.model.layers"),
    (DQN, model("[{gru: 8}]"),
     "--set:1:56: a recurrent net learns from the sequences of a collect, which policy.type dqn does not"),
    (DQN, model("[{lstm: 8}]"),
     "--set:1:56: a recurrent net learns from the sequences of a collect, which policy.type dqn does not"),
    (SAC, "policy.critic={input: [obs], layers: [{dense: 8}, relu], heads: {value: {type: dense}}}",
     "--set:1:15: compute_targets: the net of 'target1' takes [3] and yields [1], but critics take [4], an "
     "observation of [3] joined with an action of [1] (input: [obs, action]), and yield [1]"),
    (SAC, "policy.critic={input: [obs, state], layers: [{dense: 8}], heads: {value: {type: dense}}}",
     "--set:1:29: expected action in [obs] or [obs, action]"),
    (SAC, "policy.critic={input: obs, layers: [{dense: 8}], heads: {value: {type: dense}}}",
     "--set:1:23: expected [obs] or [obs, action], found obs"),
    (SAC, "policy.critic={input: [obs, action], layers: [{dense: 8}, relu]}",
     "--set:1:46: heads: a net of policy.critic needs a head value of type dense"),
    (SAC, "policy.critic={input: [obs, action], layers: [{dense: 8}], heads: {q: {type: dense}}}",
     "--set:1:68: a net of policy.critic has no head 'q'"),
    (SAC,
     "policy.critic={input: [obs, action], layers: [{conv: {channels: 4, kernel: 3}}], heads: {value: {type: dense}}}",
     "--set:1:48: conv takes [channels, height, width] of at least 3 x 3 pixels (kernel 3, padding 0); it gets [4] "
     "from the observation"),
    (SAC,
     "policy.critic={input: [obs, action], layers: [{embedding: {values: 4, width: 2}}, flatten], heads: {value: "
     "{type: dense}}}",
     "--set:1:15: compute_targets: the net of 'target1' has an embedding or batch norm, but critics must be "
     "differentiable by actions, one row at a time"),
    (SAC, "policy.critic={inputs: [obs], layers: [relu]}",
     "--set:1:16: expected a net's keys input, layers and heads, found inputs"),
    (SAC, "policy.critic={input: [obs, action]}",
     "--set:1:15: policy.critic: a net needs a map with `layers` and `heads`"),
    (PRIORITY, "policy.priority=false",
     "configs/cartpole_dqn_priority.yaml:15:23: policy.priority_IS_weight: true needs policy.priority: true",
     "--set:1:17: policy.priority must be true: the step push_replay of this graph has a value for its port "
     "'priorities'"),
    (GRU, "env.env_id=CartPole-v7",
     "configs/cartpole_hidden_ppo_gru.yaml:9:9: env.type cartpole: env.env_id must be CartPole-v0 or CartPole-v1, not "
     "'CartPole-v7'"),
    (PPO, "policy.learn.lr_scheduler.type=kl",
     "configs/graphs/ppo.yaml:63:13: policy.learn.lr_scheduler.type kl needs the result of a step adapt_lr under "
     "`reads`"),
    (DQN, "policy.type=ppo",
     "configs/graphs/dqn.yaml:47:9: loss ppo takes a batch of type minibatch, but 'batch' is of type batch: it learns by "
     "graphs/ppo.yaml"),
    (DQN, "policy.learn.microbatch=5",
     "--set:1:25: policy.learn.microbatch: expected a divisor of the batch's 64 rows, found 5"),
    (A2C, "policy.type=dqn",
     "--set:1:13: collect_on_policy samples from the logits of an actor: policy.type must be a2c or ppo or vtrace, found dqn",
     "--set:1:13: loss a2c learns an actor and a critic: policy.type must be a2c, found dqn"),
    (SAC, "policy.type=dqn; policy.model.layers=[]; policy.model.heads={}; graph=graphs/dqn.yaml",
     "configs/pendulum_sac.yaml:15:19: policy.model.action_shape: policy.type dqn has an output for each action, so "
     "it cannot choose actions of 1 real number; policy.type ppo can, and sac"),
    (SAC, "env.type=cartpole; policy.action_space=discrete; policy.model.obs_shape=4; policy.model.action_shape=2",
     "--set:4:27: policy.model.action_shape: policy.type sac chooses real numbers (policy.action_space: continuous), "
     "not 2 actions"),
    (SAC, "policy.model.heads={}",
     "configs/pendulum_sac.yaml:16:13: heads: a net of policy.type sac needs a head policy of type squashed_gaussian"),
    (SAC, "policy.model.heads={policy: {type: categorical}}",
     "--set:1:36: heads.policy: expected the type squashed_gaussian, found categorical"),
    (SAC, "policy.critic.input=[obs]", "--set:1:15: policy.critic can only be set as a whole"),
    (PENDULUM, "policy.type=dqn; graph=graphs/dqn.yaml",
     "configs/pendulum_ppo.yaml:13:39: policy.model.action_shape: policy.type dqn has an output for each action, so "
     "it cannot choose actions of 1 real number; policy.type ppo can, and sac"),
    (PENDULUM, "policy.action_space=discrete",
     "configs/pendulum_ppo.yaml:13:39: policy.model.action_shape: env.type pendulum has actions of 1 real number, "
     "found 1 actions (policy.action_space: continuous)"),
    (PENDULUM, "policy.model.action_shape=3",
     "--set:1:27: policy.model.action_shape: env.type pendulum has actions of 1 real number, found actions of 3 real "
     "numbers"),
    (PENDULUM,
     "policy.model.layers=[{dense: 8}]; policy.model.heads={policy: {type: categorical}, value: {type: dense}}",
     "--set:2:36: categorical: expected gaussian, because policy.action_space is continuous"),
    (PENDULUM, "env.type=cartpole; policy.model.obs_shape=4",
     "configs/pendulum_ppo.yaml:13:39: policy.model.action_shape: env.type cartpole has 2 actions, found actions of 1 "
     "real number (policy.action_space: discrete)"),
    (PONG, "policy.model.norm=sync_batch_norm",
     "--set:1:19: norm: sync_batch_norm is for dense nets; convolutional ones (an obs_shape of three numbers) take "
     "none"),
    (DQN, "policy.model.norm=sync_batch_norm",
     "--set:1:19: norm: loss dqn takes a batch through its nets more than once, each time of other statistics; it "
     "needs nets without norms"),
    (DQN, "policy.model.heads.q.type=dense; policy.model.layers=[{dense: 8}, tanh]",
     "--set:1:20: policy.model.heads can only be set as a whole"),
    (CLONE, "policy.collect.data_path=''",
     "--set:1:26: policy.collect.data_path: no data set is given; `runner record` writes one"),
    (CLONE, "policy.model.norm=batch; policy.collect.data_path=/no",
     "--set:1:19: policy.model.norm: expected one of none, sync_batch_norm, found 'batch'"),
]
# What is no run file, or no YAML.
TEXTS = [
    ("", "the file holds no value"),
    ("a: 1\nb: 2\na: 3\n", "3:1: duplicate key 'a', first at 1:1"),
    ("[a, b]: 1\n", "1:1: a key that is a list or a map; expected a plain name"),
    ("{: 1}\n", "1:2: expected a value"),
    ("<<: {a: 1}\n", "1:1: merge keys ('<<') are not supported; write the keys out"),
    ("a: 1\n---\nb: 2\n", "2:1: a second document starts; expected one in a file"),
    ("a: *b\n", "1:4: no anchor '&b' stands before this alias"),
    ("a: &x [1, *x]\n", "1:11: the alias '*x' stands inside its own anchor"),
    ("a: !thing 1\n", "1:4: the tag '!thing' is not supported here; leave it out"),
    ("a: 1\n\tb: 2\n", "2:1: a tab; indent with spaces (while scanning a plain scalar that starts at 1:4)"),
    ("a: @x\n", "1:4: nothing can start with '@'; put the text in quotes"),
    ("a: b: c\n", "1:5: a ':' that starts a map where none can stand; check the indentation, or quote the text"),
    ("a: [1, 2\nb: 3\n", "2:2: expected ',' or ']' (while parsing a flow sequence that starts at 1:4)"),
    ("a: 'b\n", "2:1: the text ends inside quotes (while scanning a quoted scalar that starts at 1:4)"),
    ("a: \"\\q\"\n",
     "1:5: an unknown escape; use single quotes for plain '\\' (while parsing a quoted scalar that starts at 1:4)"),
    ("a:\n  b: 1\n c: 2\n",
     "3:2: expected a key at the indentation of its siblings (while parsing a block mapping that starts at 1:1)"),
    ("- a\nb: 1\n",
     "2:1: expected '- ' at the indentation of its siblings (while parsing a block collection that starts at 1:1)"),
    ("a: 1\nbc\nd: 2\n", "3:1: expected ':' after this key (while scanning a simple key that starts at 2:1)"),
    ("a: - b\n", "1:4: a '- ' where no list can start"),
    ("a: \x01\n", "1:4: the control character 0x01; expected text"),
    ("- seed: 1\n", "1:1: expected a map of keys, found a list"),
]


def expect(arguments, parts, cwd=ROOT):
    said = call(*arguments, cwd=cwd, expect=2).stderr
    check(said.count("error: ") == 1 and all(part in said for part in parts), f"{arguments}: {said}")


def refused(arguments, *lines):
    said = call("graph", *arguments, cwd=ROOT, expect=2).stderr
    for line in lines:
        check(f"error: {line}" in said.splitlines(), f"{arguments}: expected {line}\n{said}")


def check_file(path, name, old, new, at, *messages):
    """Mistakes in a copy of a file."""
    with open(os.path.join(ROOT, f"configs/{name}.yaml"), encoding="utf-8") as file:
        before, found, behind = file.read().partition(old)
    check(found, f"{name} has no {old}")
    text, where = before + new, ""
    if at is not None:
        offset = text.rindex(at)
        where = f"{path}:{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}: "
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub("(?m)^(graph|strategy): (?!{)", rf"\1: {ROOT}/configs/", text + behind))
    arguments = [USERS[name], "--set", f"graph={path}"] if name in USERS else [path]
    refused(arguments, *(where + message for message in messages))


def check_sentences(scratch):
    for name, rows in FILES.items():
        for row in rows:
            check_file(scratch("file.yaml"), name, *row)
    for config, keys, *messages in SETS:
        refused([config, *(word for key in keys.split("; ") for word in ("--set", key))], *messages)
    for text, message in TEXTS:
        with open(scratch("text.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        refused([scratch("text.yaml")], f"{scratch('text.yaml')}:{' ' * message.startswith('the')}{message}")


def check_reference():
    learn = call("keys", "policy.learn").stdout
    check("policy.learn.batch_size: 64\n" in learn and "policy.nstep" not in learn, learn)
    one = call("keys", "policy.learn.learning_rate").stdout
    check(one.startswith("policy.learn.learning_rate: 0.001\n") and one.count("\n") == 2, one)
    verb = call("verbs", "adam").stdout
    check(verb.startswith("adam\n") and "\nsave\n" not in verb, verb)
    for command in ("keys", "verbs"):
        check(call(command, "--help").stdout.startswith(f"usage: runner {command} ["), command)


def check_unused():
    for config, given, warning in UNUSED:
        said = call("graph", config, "--set", given, cwd=ROOT).stderr
        check(said.endswith(warning) and said.count("\n") == warning.count("\n"), f"{given}: {said}")
    for path in glob.glob("configs/*.yaml", root_dir=ROOT):
        said = call("graph", path, cwd=ROOT, expect=None).stderr
        check("not used" not in said, f"{path}: {said}")


def check_flow(scratch):
    """What a graph computes in vain, or reads ahead of time, is told once, whatever the number of ranks."""
    with open(os.path.join(ROOT, "configs/graphs/dqn.yaml"), encoding="utf-8") as file:
        text = file.read()
    path = scratch("graph.yaml")
    for old, new, warning in FLOW:
        check(text.count(old) == 1, f"dqn.yaml has not one {old}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        said = call("graph", CONFIG, "--set", f"graph={path}", cwd=ROOT).stderr
        check(said == f"warning: {warning}\n".replace("PATH", path), f"{new}: {said}")
    for command in (["run"], ["launch", "--nproc-per-node", "2"]):
        said = call(*command, CONFIG, "--dir", scratch("flow_" + command[0]), "--set", f"graph={path}", "--set", "max_train_iter=1", cwd=ROOT).stderr
        check(said.count(warning.replace("PATH", path)) == 1, said)


def check_memory(scratch):
    """At once and before anything is left behind; several ranks say it once."""
    hidden = "policy.model.encoder_hidden_size_list"
    for command in (["run"], ["launch", "--nproc-per-node", "2"]):
        for key, value, name in ((REPLAY, "1e9", "'replay' of type replay"), (hidden, "[1000000, 1000000]", "of type ")):
            expect([*command, CONFIG, "--dir", scratch("huge"), "--set", f"{key}={value}"],
                   ["no memory: ", " are free here", name, key])
    check(not os.path.exists(scratch("huge")), "a refused run left a directory")


def check_folder():
    said = call("run", CONFIG, cwd="/proc", expect=1).stderr
    check("the run directory /proc/cartpole_dqn_ddp cannot be made: " in said and "--dir names another" in said, said)


def check_columns():
    """Long names of values and types move no column of a plan."""
    values = call("graph", SAC, cwd=ROOT).stdout.partition("values\n")[2].partition("iteration\n")[0]
    placed = {match.start(1) for line in values.splitlines() for match in [re.search(r" (global|shard|rank0) ", line)]}
    check("transition_block" in values and len(placed) == 1, f"places begin at columns {placed}: {values}")


def main():
    check_folder()
    check_columns()
    check_reference()
    check_unused()
    for config, keys, message in CONTRADICTIONS:
        expect(["graph", config, *(word for key in keys for word in ("--set", key))], [message])
    for arguments, parts in COMMANDS:
        expect(arguments, parts)
    for arguments, parts in OPTIONS:
        expect(["graph", CONFIG, *arguments], parts)
    for name, key in ALIASES.items():
        expect(["graph", CONFIG, "--set", f"{name}=1"], ["--set:1:", f"did you mean '{key}'"])
    call("graph", "--rank", "0", "--", CONFIG)
    with Scratch() as scratch:
        check_sentences(scratch)
        check_flow(scratch)
        check_memory(scratch)
        call("launch", "--dir", scratch("run"), "--set", "max_train_iter=5", "--", CONFIG)


main()
