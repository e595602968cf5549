# SPDX-License-Identifier: Apache-2.0
"""Whole updates of every algorithm under PyTorch, from the weights that a run began with and from what its environments
saw and were given. Written from docs/di-engine.md (sections are named below), docs/determinism.md and the papers, apart
from the program. Reads a list of cases, and prints for each the weights after its updates in double precision, those in
single precision, and those of each variant of the case, in double."""

import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Independent, Normal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../golden"))
from golden import MASK, philox  # noqa: E402

# What verbs draw from: their stream_id and the ordinal of the step.
SHUFFLE, SAMPLE_REPLAY = (0xAF9FE1A0D95842C4, 0), (0x06A58212247C13BB, 0)
COMPUTE_TARGETS, POLICY_LOSS = (0x51C7A3F09BE2D846, 0), (0x8D40DA7ACAA4AD77, 2)
ENV_SEEDS = 0x67706867FA500DA4


# -- Random numbers (docs/determinism.md) --------------------------------------------------------------------------------


def mix(value, other):
    """XXH3 of these two numbers' bytes."""
    low, high = value ^ 0x6782737BEA4239B9, other ^ 0xAF56BC3B0996523A
    product = low * high
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    mixed = 16 + swapped + high + (product & MASK ^ product >> 64) & MASK
    mixed = (mixed ^ mixed >> 37) * 0x165667919E3779F9 & MASK
    return mixed ^ mixed >> 32


class Draws:
    """The generator of a stream in one shard, iteration and repeat."""

    def __init__(self, seed, stream, shard, iteration, repeat):
        key = mix(seed, stream if isinstance(stream, int) else mix(*stream))
        self.key, self.rest = (key & 0xFFFFFFFF, key >> 32), (repeat, iteration, shard)

    def words(self, item):
        return philox((item, *self.rest), self.key)

    def bits(self, item):
        words = self.words(item)
        return words[1] << 32 | words[0]

    def uniform(self, item):
        return (self.bits(item) >> 11) / 2**53

    def below(self, item, n):
        return self.bits(item) * n >> 64

    def normal(self, item):
        """By Box and Muller."""
        a, b, c, d = self.words(item)
        return math.sqrt(-2 * math.log(((a << 32) + b + 1) / 2**64)) * math.cos(2 * math.pi * ((c << 32) + d) / 2**64)


def order_books(case):
    """The books of the shards, which are named by the seed of the first episode of a shard's first environment."""
    return [case["books"][str(Draws(case["seed"], ENV_SEEDS, shard, 0, 0).bits(0))] for shard in range(case["shards"])]


# -- Nets: functions of their weights, by the names of the file ------------------------------------------------------------


def dense(p, name, x):
    return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])


def run_list(p, layers, x, state=None):
    """The outputs of a list of layers, and the state of its gru."""
    for i, layer in enumerate(layers):
        if layer == "gru":
            state = x = torch.gru_cell(x, state, *(p[f"layers.{i}.{kind}_{side}_l0"] for kind in ("weight", "bias")
                                                   for side in ("ih", "hh")))
        else:
            x = dense(p, f"layers.{i}", x) if layer == "dense" else getattr(torch, layer)(x)
    return x, state


def encode(p, x):
    """FCEncoder (2.1)."""
    x, i = dense(p, "encoder.init", x).relu(), 0
    while f"encoder.main.{i}.weight" in p:
        x, i = dense(p, f"encoder.main.{i}", x).relu(), i + 2
    return x


def run_head(p, name, x):
    return dense(p, f"{name}.1.0", dense(p, f"{name}.0.0", x).relu())


def find_q(case, p, obs):
    if "layers" in case:
        return dense(p, "heads.q", run_list(p, case["layers"], obs)[0])
    x = encode(p, obs)
    if not case["dueling"]:
        return run_head(p, "head.Q", x)
    advantage = run_head(p, "head.A", x)
    return advantage - advantage.mean(1, keepdim=True) + run_head(p, "head.V", x)


def find_logits(case, p, obs, state=None):
    """What an actor and critic yield: logits or means, the value, the next state (3.1)."""
    if "layers" in case:
        x, state = run_list(p, case["layers"], obs, state)
        return dense(p, "heads.policy", x), dense(p, "heads.value", x).squeeze(1), state
    x = encode(p, obs)
    value = dense(p, "critic_head.last", dense(p, "critic_head.main.0", x).relu()).squeeze(1)
    return run_head(p, "actor_head.Q", x), value, state


def make_policy(p, logits):
    """The distribution of actions."""
    if "actor_head.log_std" not in p:
        return Categorical(logits=logits)
    return Independent(Normal(logits, p["actor_head.log_std"].clamp(-20, 2).exp().expand_as(logits)), 1)


def find_critic(case, p, obs, action):
    return dense(p, "heads.value", run_list(p, case["critic_layers"], torch.cat([obs, action], 1))[0]).squeeze(1)


def step(adam, loss, params, clip=None):
    adam.zero_grad()
    loss.backward()
    if clip:
        torch.nn.utils.clip_grad_norm_(params, clip)
    adam.step()


def make_adam(case, params, rate="learning_rate"):
    return torch.optim.Adam(params, case[rate], eps=case["adam_eps"])


def average(case, shards):
    """The mean of the rows of all shards; or a planted mistake: the sum of their means, or the mean of the first alone."""
    mistakes = {"sum": lambda: sum(rows.mean() for rows in shards), "first": lambda: shards[0].mean()}
    return mistakes.get(case.get("mean"), lambda: torch.cat(shards).mean())()


def copy(net):
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in net.items()}


class Together:
    """A net that learns by the mean gradient of all shards."""

    def __init__(self, case, net):
        self.case, self.nets, self.made = case, [net] * case["shards"], 0
        self.adams = [make_adam(case, list(net.values()))]

    def step(self, losses, clip=None):
        """By each shard's losses of rows."""
        step(self.adams[0], average(self.case, losses), list(self.nets[0].values()), clip)
        self.made += 1


class Apart(Together):
    """A net of each shard's own, for rounds of updates. Then the net that stands for them moves to their mean by DiLoCo's
    outer optimizer (Douillard et al. 2023, algorithm 1), and they go on from there."""

    def __init__(self, case, net):
        self.case, self.net, self.nets, self.made = case, net, [copy(net) for _ in range(case["shards"])], 0
        self.adams = [make_adam(case, list(net.values())) for net in self.nets]
        momentum = case["outer_momentum"]
        self.outer = torch.optim.SGD(net.values(), case["outer_rate"], momentum, nesterov=momentum > 0 and "heavy" not in case)

    def step(self, losses, clip=None):
        for adam, rows, net in zip(self.adams, losses, self.nets):
            step(adam, rows.mean(), list(net.values()), clip)
        self.made += 1
        if self.made % self.case["local_updates"]:
            return
        for name, tensor in self.net.items():
            shards = torch.stack([net[name].detach() for net in self.nets])
            tensor.grad = tensor.detach() - (shards[0] if self.case.get("mean") == "first" else shards.mean(0))
        self.outer.step()
        for net in self.nets:
            for name, tensor in net.items():
                tensor.data.copy_(self.net[name])


def make_learner(case, net):
    return Apart(case, net) if "local_updates" in case else Together(case, net)


# -- Behaviour cloning ---------------------------------------------------------------------------------------------------


def deal(case, shard):
    """A shard's list of an epoch, of a data set that is not shuffled (6.8)."""
    n, shards = len(case["action"]), case["shards"]
    length = {"pad": -(-n // shards), "drop_last": n // shards, "uneven": len(range(shard, n, shards))}[case["tail"]]
    return [(i * shards + shard) % n for i in range(length)]


def learn_bc(case, p):
    obs, action = torch.tensor(case["obs"]), torch.tensor(case["action"])
    params = list(p["policy"].values())
    adam, size = make_adam(case, params), case["batch_size"] * case["accumulate"]
    lists = [deal(case, shard) for shard in range(case["shards"])]
    batches = -(-max(map(len, lists)) // size)
    for update in range(case["updates"]):
        begin = update % batches * size
        rows = [torch.tensor(order[begin:begin + size], dtype=torch.long) for order in lists]
        logits = [run_head(p["policy"], "head.Q", encode(p["policy"], obs[r])) for r in rows if len(r)]
        losses = [F.cross_entropy(out, action[r], reduction="none") for out, r in zip(logits, filter(len, rows))]
        step(adam, average(case, losses), params)


# -- What environments saw -------------------------------------------------------------------------------------------------


class Log:
    """A shard's environments, which step together: arrays are [step][env]."""

    def __init__(self, steps):
        self.obs, self.action, self.reward, self.done, self.truncated, self.next_obs, self.begins = (
            torch.tensor(part) for part in zip(*(zip(*step) for step in steps)))
        self.envs, self.played, self.samples = len(steps[0]), 0, 0
        self.pending = [[] for _ in range(self.envs)]

    def check_played(self):
        if self.played != len(self.obs):
            sys.exit(f"failed: {self.played} steps were expected, {len(self.obs)} were played")


# -- Off-policy ------------------------------------------------------------------------------------------------------------


def assemble(case, log, fragment, bootstraps):
    """n-step transitions of a fragment (2.4): where from, rewards, where to, done, the factor of what follows."""
    gamma, n, made = case["discount_factor"], case["nstep"], []
    for i, (t, env) in enumerate(fragment):
        left = len(fragment) - i
        whole = i < len(fragment) - n or n == 1
        last = fragment[i + n - 1] if whole else fragment[-1]
        taken = fragment[i:i + n]
        factor = gamma**n if whole else gamma ** (left - (case["nstep_tail"] == "di_engine"))
        done = log.done[last] and not (bootstraps and log.truncated[last])
        made.append(((t, env), sum(gamma**j * log.reward[place] for j, place in enumerate(taken)), last, float(done),
                     factor))
    return made


def collect(case, log, bootstraps):
    """The samples of one call (4); lists that are unfinished wait in the log."""
    length, samples = -(-case["n_sample"] // log.envs), []
    while len(samples) < case["n_sample"]:
        for env in range(log.envs):
            log.pending[env].append((log.played, env))
            if log.done[log.played, env] or len(log.pending[env]) == length:
                samples += assemble(case, log, log.pending[env], bootstraps)
                log.pending[env] = []
        log.played += 1
    return samples[:case["n_sample"]]


class Batch:
    """Rows of a shard's replay."""

    def __init__(self, log, rows):
        places, rewards, lasts, dones, factors = zip(*rows)
        at, to = tuple(zip(*places)), tuple(zip(*lasts))
        self.obs, self.action, self.next_obs = log.obs[at], log.action[at], log.next_obs[to]
        self.reward, self.done, self.factor = torch.stack(rewards), torch.tensor(dones), torch.tensor(factors)


def learn_off_policy(case, update, bootstraps=False, least=0):
    """Calls update(batches, iteration, repeat) for each batch of all shards, after their collects and draws (2.8).
    Rings are maps from positions."""
    logs, rings, made, iteration = [Log(steps) for steps in order_books(case)], [{} for _ in case["books"]], 0, -1
    size = case["batch_size"] * case["accumulate"]
    while made < case["updates"]:
        iteration += 1
        for ring, log in zip(rings, logs):
            for sample in collect(case, log, bootstraps):
                ring[log.samples % case["replay_buffer_size"]] = sample
                log.samples += 1
        for repeat in range(case["update_per_collect"] if len(rings[0]) >= max(size, least) else 0):
            batches = []
            for shard, (ring, log) in enumerate(zip(rings, logs)):
                draws = Draws(case["draws"], SAMPLE_REPLAY, shard, iteration, repeat)
                batches.append(Batch(log, [ring[int((i + draws.uniform(i)) * len(ring) / size)] for i in range(size)]))
            update(batches, iteration, repeat)
            made += 1
    for log in logs:
        log.check_played()


def learn_dqn(case, p):
    """2.2; the target net is copied by 2.6."""
    learner = make_learner(case, p["policy"])
    targets = [copy(net) for net in learner.nets]

    def update(batches, iteration, repeat):
        losses = []
        for b, p, target in zip(batches, learner.nets, targets):
            with torch.no_grad():
                best = find_q(case, target if case.get("double") is False else p, b.next_obs).argmax(1, keepdim=True)
                y = b.reward + b.factor * (1 - b.done) * find_q(case, target, b.next_obs).gather(1, best).squeeze(1)
            losses.append((find_q(case, p, b.obs).gather(1, b.action.unsqueeze(1)).squeeze(1) - y) ** 2)
        learner.step(losses)
        if learner.made % case["target_update_freq"] == 0:
            targets[:] = [copy(net) for net in learner.nets]

    learn_off_policy(case, update)


def find_smaller(case, critics, obs, action):
    """The smallest value of critics."""
    return torch.stack([find_critic(case, critic, obs, action) for critic in critics]).amin(0)


def draw_squashed(case, p, obs, draws):
    """Actions of the squashed policy and their log probabilities (Haarnoja et al. 2018, appendix C)."""
    mean, log_std = dense(p, "heads.policy", run_list(p, case["layers"], obs)[0]).chunk(2, 1)
    noise = torch.tensor([draws.normal(i) for i in range(mean.numel())]).reshape(mean.shape)
    policy = Normal(mean, log_std.clamp(-20, 2).exp())
    x = policy.mean + policy.stddev * noise
    by_tanh = 2 * (math.log(2) - x - F.softplus(-2 * x))  # the logarithm of tanh's slope
    return x.tanh(), (policy.log_prob(x) - by_tanh).sum(1)


def learn_sac(case, p):
    """Soft actor-critic: critics, then the policy, the temperature, and the targets of the critics."""
    policy, critics = p["policy"], [p["critic1"], p["critic2"]]
    targets = [{name: tensor.detach().clone() for name, tensor in critic.items()} for critic in critics]
    log_alpha = torch.tensor(math.log(case["alpha"])).requires_grad_()
    adams = [make_adam(case, list(critic.values()), "learning_rate_q") for critic in critics]
    policy_adam = make_adam(case, list(policy.values()))
    alpha_adam = make_adam(case, [log_alpha], "learning_rate_alpha")

    def update(batches, iteration, repeat):
        alpha, wanted, losses, probs = log_alpha.exp().detach(), [], [], []
        for shard, b in enumerate(batches):
            with torch.no_grad():
                draws = Draws(case["draws"], COMPUTE_TARGETS, shard, iteration, repeat)
                action, log_prob = draw_squashed(case, policy, b.next_obs, draws)
                q = find_smaller(case, targets[:case.get("critics", 2)], b.next_obs, action)
                wanted.append(b.reward + b.factor * (1 - b.done) * (q - alpha * log_prob))
        for critic, adam in zip(critics, adams):
            errors = [(find_critic(case, critic, b.obs, b.action) - y) ** 2 for b, y in zip(batches, wanted)]
            step(adam, average(case, errors), list(critic.values()))
        for shard, b in enumerate(batches):
            draws = Draws(case["draws"], POLICY_LOSS, shard, iteration, repeat)
            action, log_prob = draw_squashed(case, policy, b.obs, draws)
            probs.append(log_prob.detach())
            losses.append(alpha * log_prob - find_smaller(case, critics, b.obs, action))
        step(policy_adam, average(case, losses), list(policy.values()))
        entropy = case["target_entropy_per_dim"] * b.action.shape[1]
        if case["auto_alpha"]:
            step(alpha_adam, -(log_alpha.exp() * (average(case, probs) + entropy)), [log_alpha])
        for target, critic in zip(targets, critics):
            for name, tensor in critic.items():
                target[name] += case["target_theta"] * (tensor.detach() - target[name])

    learn_off_policy(case, update, case["truncation"] != "terminal", case["random_collect_size"])


# -- On-policy -------------------------------------------------------------------------------------------------------------


def from_importance_weights(log_rhos, discounts, rewards, values, bootstrap_value, rho_bar, c_bar, lambda_):
    """V-trace of one trajectory, in the steps of the code that IMPALA's authors published under this name (scalable_agent),
    whose c_bar and lambda_ are 1."""
    rhos = torch.exp(log_rhos)
    clipped_rhos = torch.clamp(rhos, max=rho_bar)
    cs = lambda_ * torch.clamp(rhos, max=c_bar)
    values_t_plus_1 = torch.cat([values[1:], bootstrap_value.unsqueeze(0)])
    deltas = clipped_rhos * (rewards + discounts * values_t_plus_1 - values)
    acc, vs_minus_v_xs = torch.zeros_like(bootstrap_value), []
    for t in reversed(range(len(deltas))):
        acc = deltas[t] + discounts[t] * cs[t] * acc
        vs_minus_v_xs.insert(0, acc)
    vs = torch.stack(vs_minus_v_xs) + values
    vs_t_plus_1 = torch.cat([vs[1:], bootstrap_value.unsqueeze(0)])
    return vs, clipped_rhos * (rewards + discounts * vs_t_plus_1 - values)


class Samples:
    """What one collect of a shard makes (3.3, 4): places (step, env) in the order of finished fragments, and `ends`,
    beyond which advantages do not go."""

    def __init__(self, case, log):
        n, length, self.log, self.first = case["n_sample"], -(-case["n_sample"] // log.envs), log, log.played
        self.places, self.ends, pending = [], [], [[] for _ in range(log.envs)]
        while len(self.places) < n:
            for env in range(log.envs):
                done = bool(log.done[log.played, env])
                pending[env].append((log.played, env))
                if len(pending[env]) == length or done and case["segment_at_done"]:
                    fragment, pending[env] = pending[env][:n - len(self.places)], []
                    self.places += fragment
                    self.ends += [bool(log.done[place]) or place == fragment[-1] for place in fragment]
            log.played += 1
        at = tuple(zip(*self.places))
        self.obs, self.action, self.reward = log.obs[at], log.action[at], log.reward[at]
        self.done, self.next_obs, self.at = log.done[at].to(self.obs.dtype), log.next_obs[at], at

    def act(self, case, p):
        """The policy that drew the actions; of a recurrent net also the states before all steps."""
        with torch.no_grad():
            if "hidden" not in case:
                self.old = make_policy(p, find_logits(case, p, self.obs)[0]).log_prob(self.action)
                return
            log, logits, self.states = self.log, [], []
            for t in range(self.first, log.played):
                log.state = log.state * (1 - log.begins[t]).unsqueeze(1)
                self.states.append(log.state)
                out, _, log.state = find_logits(case, p, log.obs[t], log.state)
                logits.append(out)
            steps = tuple(torch.tensor(part) for part in self.at)
            self.old = make_policy(p, torch.stack(logits)[steps[0] - self.first, steps[1]]).log_prob(self.action)

    def find_values(self, case, p):
        """V of the observations before and after each sample's step, and the logits at the first."""
        with torch.no_grad():
            if "hidden" not in case:
                logits, before, _ = find_logits(case, p, self.obs)
                return before, find_logits(case, p, self.next_obs)[1], logits
            log, state, steps = self.log, self.states[0], []
            for t in range(self.first, log.played):
                state = state * (1 - log.begins[t]).unsqueeze(1) if t > self.first else state
                logits, value, state = find_logits(case, p, log.obs[t], state)
                steps.append((value, find_logits(case, p, log.next_obs[t], state)[1], logits))
            at = tuple(torch.tensor(part) for part in self.at)
            return tuple(torch.stack(part)[at[0] - self.first, at[1]] for part in zip(*steps))

    def find_vtrace(self, case, p):
        """IMPALA's targets and advantages, fragment by fragment."""
        before, after, logits = self.find_values(case, p)
        ratios = make_policy(p, logits).log_prob(self.action) - self.old
        discounts, begin, parts = case["discount_factor"] * (1 - self.done), 0, []
        for i in range(len(before)):
            if i + 1 == len(before) or self.ends[i]:
                part = slice(begin, i + 1)
                parts.append(from_importance_weights(ratios[part], discounts[part], self.reward[part], before[part], after[i],
                                                     case["rho_clip_ratio"], case["c_clip_ratio"], case["gae_lambda"]))
                begin = i + 1
        self.target, self.advantage = (torch.cat(part) for part in zip(*parts))
        self.value_old, self.returns = before, self.target

    def find_advantages(self, case, p, scale):
        """3.4, with the unit of values."""
        if case["type"] == "vtrace":
            self.find_vtrace(case, p)
            return
        before, after = (value * scale for value in self.find_values(case, p)[:2])
        errors = self.reward + case["discount_factor"] * after * (1 - self.done) - before
        self.advantage, last = torch.zeros_like(before), 0.0
        for i in reversed(range(len(errors))):
            last = errors[i] + (0 if self.ends[i] else case["discount_factor"] * case["gae_lambda"] * last)
            self.advantage[i] = last
        self.returns = before + self.advantage
        self.value_old, self.target = before / scale, self.returns / scale

    def run(self, case, p, rows):
        """Logits and values of samples; of a recurrent net, rows are whole sequences, which are played step by step."""
        if "hidden" not in case:
            return find_logits(case, p, self.obs[rows])[:2]
        length, log = case["unroll_len"], self.log
        heads = [self.places[row] for row in rows[::length].tolist()]
        state = torch.stack([self.states[t - self.first][env] for t, env in heads])
        logits, values = [], []
        for i in range(length):
            t, env = torch.tensor([t + i for t, _ in heads]), torch.tensor([env for _, env in heads])
            state = state * (1 - log.begins[t, env]).unsqueeze(1) if i else state
            out, value, state = find_logits(case, p, log.obs[t, env], state)
            logits.append(out)
            values.append(value)
        return torch.stack(logits, 1).flatten(0, 1), torch.stack(values, 1).flatten()


class Moments:
    """Running statistics of returns (3.4)."""

    def __init__(self):
        self.count, self.mean, self.variance = 1e-4, 0.0, 1.0

    def add(self, x):
        n, d = self.count + len(x), float(x.mean()) - self.mean
        spread = self.variance * self.count + float(x.var(unbiased=False)) * len(x) + d**2 * self.count * len(x) / n
        self.count, self.mean, self.variance = n, self.mean + d * len(x) / n, spread / n


def split(case, shard, iteration, repeat):
    """Minibatches of one shard's samples, from a permutation of its sequences (3.5)."""
    n, size, length = case["n_sample"], case["batch_size"] * case["accumulate"], max(1, case["unroll_len"])
    draws, order = Draws(case["draws"], SHUFFLE, shard, iteration, repeat), list(range(n // length))
    for i in range(len(order) - 1, 0, -1):
        j = draws.below(i, i + 1)
        order[i], order[j] = order[j], order[i]
    order = torch.tensor([first * length + i for first in order for i in range(length)])
    begins = list(range(0, n, size))
    if case["minibatch_tail"] == "overlap" and n > size:
        begins[-1] = n - size
    return [order[begin:begin + size] for begin in begins]


def find_ppo_losses(case, p, samples, rows):
    """The losses of rows (3.6)."""
    logits, value = samples.run(case, p, rows)
    policy, advantage, clip = make_policy(p, logits), samples.advantage[rows], case["clip_ratio"]
    if case["adv_norm"]:
        spread = advantage.std() if len(rows) > 1 else 0
        advantage = (advantage - advantage.mean()) / (spread + 1e-8)
    log_prob, target, old = policy.log_prob(samples.action[rows]), samples.target[rows], samples.value_old[rows]
    if case["type"] in ("a2c", "vtrace"):
        return -log_prob * advantage + case["value_weight"] * (target - value) ** 2 - case["entropy_weight"] * policy.entropy()
    ratio = (log_prob - samples.old[rows]).exp()
    losses = (target - value) ** 2
    if case["value_clip"]:
        losses = torch.max(losses, (target - old - (value - old).clamp(-clip, clip)) ** 2)
    gain = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    return case["value_weight"] * losses / 2 - gain - case["entropy_weight"] * policy.entropy()


def learn_on_policy(case, p):
    learner, logs, returns, iteration = make_learner(case, p["policy"]), [Log(steps) for steps in order_books(case)], Moments(), 0
    for log in logs:
        log.state = torch.zeros(log.envs, case.get("hidden", 0))
    acted = []
    while learner.made < case["updates"]:
        acted.append([copy(net) for net in learner.nets])
        shards = [Samples(case, log) for log in logs]
        for samples, net in zip(shards, acted[max(0, iteration - case.get("policy_lag", 0))]):
            samples.act(case, net)
        for epoch in range(case["epoch_per_collect"]):
            if epoch == 0 or case["recompute_adv"]:
                scale = math.sqrt(returns.variance + 1e-8) if case["value_norm"] else 1
                for samples, net in zip(shards, learner.nets):
                    samples.find_advantages(case, net, scale)
                returns.add(torch.cat([samples.returns for samples in shards[:case.get("pooled", len(shards))]]))
            batches = zip(*(split(case, shard, iteration, epoch) for shard in range(len(shards))))
            for rows in batches:
                learner.step([find_ppo_losses(case, *one) for one in zip(learner.nets, shards, rows)], case["grad_clip_value"])
        iteration += 1
    for log in logs:
        log.check_played()


LEARN = {"bc": learn_bc, "dqn": learn_dqn, "sac": learn_sac, "ppo": learn_on_policy, "a2c": learn_on_policy,
         "vtrace": learn_on_policy}


def learn(case, dtype, **changes):
    torch.set_default_dtype(dtype)
    case = {**case, **changes}
    p = {net: {name: torch.tensor(values).requires_grad_() for name, values in weights.items()}
         for net, weights in case["weights"].items()}
    try:
        LEARN[case["type"]](case, p)
    except IndexError as error:
        sys.exit(f"failed: {case['name']}: {error}: not so many steps were played")
    return {f"{net}: {name}": tensor.flatten().tolist() for net, weights in p.items() for name, tensor in weights.items()}


def main():
    torch.set_num_threads(1)
    print(json.dumps([{"double": learn(case, torch.float64), "single": learn(case, torch.float32),
                       "unlike": [learn(case, torch.float64, **{key: value}) for key, value in case["unlike"].items()]}
                      for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
