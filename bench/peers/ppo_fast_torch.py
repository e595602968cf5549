# SPDX-License-Identifier: Apache-2.0
"""usage: ppo_fast_torch.py SETTING …                 a worker: {iterations} -> env steps per second
       ppo_fast_torch.py --train STEPS SETTING …    trains and prints how it gets on

Pong with PPO in PyTorch, written like CleanRL's scripts: the net and the recipe of
configs/pong_ppo_fast.yaml on all cores that the process may use. Settings, beside those of learner.py:

  envpool  EnvPool steps the envs, not ALE's vector env
  ranks    a process of one thread per core and gradients averaged over gloo, not one process of many threads
  overlap  half of the envs step while the net looks at the others
  keep     observations are normalised once, when they are collected, and kept so; else at each use
"""

import os
import socket
import sys
import time
from collections import deque

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from learner import Ppo
from worker import serve

ENVS, STEPS, MINIBATCHES, EPOCHS = 24, 128, 4, 4
GAMMA, LAMBDA = 0.99, 0.95
KL, FACTOR = (0.005, 0.02), 1.5
SEEN_EVERY = 12  # observations enter the statistics: 256 an iteration
OBS = (4, 84, 84)


def sum_over_ranks(tensor):
    if dist.is_initialized():
        dist.all_reduce(tensor)
    return tensor


def average_gradients(module):
    if not dist.is_initialized():
        return
    grads = [p.grad for p in module.parameters()]
    flat = sum_over_ranks(torch.cat([g.reshape(-1) for g in grads]).float()) / dist.get_world_size()
    torch._foreach_copy_(grads, [part.view_as(g) for part, g in
                                 zip(flat.split([g.numel() for g in grads]), grads)])


class Running:
    """Mean and variance of all that was seen on all ranks (Chan, Golub & LeVeque 1979)."""

    def __init__(self, shape=()):
        self.count, self.mean, self.var = 1e-4, torch.zeros(shape), torch.ones(shape)

    def update(self, x):
        sums = torch.stack([x.sum(0), (x * x).sum(0), torch.full_like(x[0], len(x))]).double()
        total, squares, n = sum_over_ranks(sums)
        mean = total / n
        delta, n = mean - self.mean, n.reshape(-1)[0].item()
        both = self.count + n
        var = (squares / n - mean**2).clamp(min=0)
        self.var = (self.var * self.count + var * n + delta**2 * self.count * n / both) / both
        self.mean, self.count = self.mean + delta * n / both, both


class Fast(Ppo):
    """Its frames are normalised pixel by pixel."""

    VALUE_WEIGHT, ENTROPY_WEIGHT, LIMIT = 1, 0.01, 5

    def __init__(self, options):
        self.rate, self.running = 3e-4, Running(OBS)
        self.factor, self.shift = torch.full(OBS, 1 / 255), torch.zeros(OBS)
        super().__init__("ppo_fast", options, self.initialise, self.rate, 1e-5, 1)
        self.entering = torch.bfloat16 if self.autocast else self.kind
        self.look = torch.compile(self.compute_look) if "compile" in options else self.compute_look

    @staticmethod
    def initialise(module):
        for name, p in module.named_parameters():
            if p.dim() == 1:
                torch.nn.init.zeros_(p)
            else:
                torch.nn.init.orthogonal_(p, {"actor.2.weight": 0.01, "critic.2.weight": 1}.get(name, 2**0.5))

    def scale(self, frames):
        if frames.dtype != torch.uint8:
            return frames
        x = frames.float().mul_(self.factor).add_(self.shift).clamp_(-self.LIMIT, self.LIMIT)
        return x.to(self.entering).contiguous(memory_format=self.layout)

    def compute_look(self, frames):
        """What enters, log probabilities and values."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            x = self.scale(frames)
            logits, value = self.online(x)
        return x, logits.float().log_softmax(1), value.float()

    def see(self, frames):
        self.running.update(frames.float())
        factor = (self.running.var + 1e-8).rsqrt()
        self.factor.copy_(factor)
        self.shift.copy_(-self.running.mean * factor)

    def adapt_lr(self, kl):
        if not KL[0] <= kl <= KL[1]:
            self.rate = min(max(self.rate * FACTOR**(1 if kl < KL[0] else -1), 1e-6), 1e-2)
            self.adam.param_groups[0]["lr"] = self.rate


class Envs:
    """A group of envs, of which `last` is what they showed, earned and whether an episode ended."""

    def __init__(self, library, n, threads, seed):
        common = {"num_envs": n, "num_threads": threads, "noop_max": 30, "repeat_action_probability": 0.0}
        if library == "envpool":
            import envpool
            self.envs = envpool.make("Pong-v5", env_type="gymnasium", seed=seed, stack_num=4, frame_skip=4,
                                     reward_clip=True, **common)
            self.last = self.envs.reset()[0], None, None
        else:
            from ale_py.vector_env import AtariVectorEnv
            self.envs = AtariVectorEnv("pong", **common)
            self.last = self.envs.reset(seed=seed)[0], None, None
        self.kind = np.int32 if library == "envpool" else np.int64
        self.ids, self.sums, self.returns = np.arange(n, dtype=np.int32), np.zeros(n), deque(maxlen=20)

    def send(self, actions):
        actions = actions.numpy().astype(self.kind)
        self.envs.send(*((actions, self.ids) if self.kind == np.int32 else (actions,)))

    def receive(self):
        obs, reward, ended, cut, _ = self.envs.recv()
        done = ended | cut
        self.sums += reward
        self.returns.extend(self.sums[done])
        self.sums[done] = 0
        self.last = obs, reward, done


class Trainer:
    def __init__(self, settings, rank, ranks, threads):
        self.n, self.rank = ENVS // ranks, rank
        self.learner, self.keep = Fast(settings), "keep" in settings
        torch.manual_seed(1 + rank)
        groups = 2 if "overlap" in settings else 1
        library = "envpool" if "envpool" in settings else "ale"
        self.groups = [Envs(library, self.n // groups, threads, seed=100 * rank + 10 * i)
                       for i in range(groups)]
        self.values = Running()
        rows = STEPS * self.n
        if self.keep:
            self.obs = torch.empty(rows, *OBS, dtype=self.learner.entering,
                                   memory_format=self.learner.layout)
        else:
            self.obs = torch.empty(rows, *OBS, dtype=torch.uint8)
        self.seen = torch.empty(rows // SEEN_EVERY, *OBS, dtype=torch.uint8)
        self.action = torch.empty(STEPS, self.n, dtype=torch.int64)
        self.log_p, self.reward, self.done = (torch.empty(STEPS, self.n) for _ in range(3))
        self.value = torch.empty(STEPS + 1, self.n)

    def draw(self, t, lo, hi, frames):
        x, log_p, value = self.learner.look(frames)
        self.value[t, lo:hi] = value
        if t == STEPS:
            return
        action = torch.multinomial(log_p.exp(), 1)
        self.obs[t * self.n + lo:t * self.n + hi] = x if self.keep else frames
        self.seen[(t * self.n + lo) // SEEN_EVERY:(t * self.n + hi) // SEEN_EVERY] = \
            frames[t % SEEN_EVERY::SEEN_EVERY]
        self.action[t, lo:hi] = action[:, 0]
        self.log_p[t, lo:hi] = log_p.gather(1, action)[:, 0]

    @torch.no_grad()
    def collect(self):
        size = self.n // len(self.groups)
        for t in range(STEPS + 1):
            for i, group in enumerate(self.groups):
                lo, hi = i * size, (i + 1) * size
                if t > 0:
                    group.receive()
                    self.reward[t - 1, lo:hi] = torch.from_numpy(group.last[1])
                    self.done[t - 1, lo:hi] = torch.from_numpy(group.last[2])
                self.draw(t, lo, hi, torch.from_numpy(group.last[0]))
                if t < STEPS:
                    group.send(self.action[t, lo:hi])

    def targets(self):
        """Values that were expected, advantages, values that are wanted; as rows."""
        unit = float((self.values.var + 1e-8)**0.5)
        value, advantage, after = self.value * unit, torch.empty_like(self.reward), 0
        for t in reversed(range(STEPS)):
            going = 1 - self.done[t]
            error = self.reward[t] + GAMMA * value[t + 1] * going - value[t]
            advantage[t] = after = error + GAMMA * LAMBDA * going * after
        returns = (advantage + value[:-1]).reshape(-1)
        self.values.update(returns)
        return self.value[:-1].reshape(-1), advantage.reshape(-1), returns / unit

    def pick(self, rows):
        """Rows of the observations, in their layout."""
        if self.obs.is_contiguous():
            return self.obs.view(len(self.obs), -1).index_select(0, rows).view(-1, *OBS)
        nhwc = self.obs.permute(0, 2, 3, 1)
        picked = nhwc.reshape(len(nhwc), -1).index_select(0, rows)
        return picked.view(-1, *nhwc.shape[1:]).permute(0, 3, 1, 2)

    def learn(self):
        columns = [self.action.view(-1), self.log_p.view(-1), *self.targets()]
        kl, updates = torch.zeros(()), 0
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(self.obs)).chunk(MINIBATCHES):
                batch = (self.pick(rows), *(column[rows] for column in columns))
                kl, updates = kl + self.learner.update(batch, average_gradients)[0], updates + 1
        return sum_over_ranks(torch.stack([kl / updates, torch.ones(())]))

    def iterate(self):
        """Returns the divergence of the new policy from the old one."""
        self.collect()
        kl, ranks = self.learn()
        self.learner.adapt_lr(kl / ranks)
        self.learner.see(self.seen)
        return float(kl / ranks)


def rate(trainer, iterations):
    if dist.is_initialized():
        dist.barrier()
    begin = time.perf_counter()
    for _ in range(iterations):
        trainer.iterate()
    if dist.is_initialized():
        dist.barrier()
    return iterations * ENVS * STEPS / (time.perf_counter() - begin)


def train(trainer, steps):
    begin = time.perf_counter()
    for i in range(1, steps // (ENVS * STEPS) + 1):
        kl = trainer.iterate()
        returns = [x for group in trainer.groups for x in group.returns]
        if trainer.rank == 0 and i % 5 == 0:
            print(f"{i * ENVS * STEPS:9d} env steps {time.perf_counter() - begin:7.1f} s   return "
                  f"{np.mean(returns) if returns else np.nan:6.2f}   divergence {kl:.4f}   "
                  f"rate {trainer.learner.rate:.2g}", flush=True)


def work(rank, cores, settings, port, steps):
    ranks = len(cores) if "ranks" in settings else 1
    threads = len(cores) // ranks
    if ranks > 1:
        os.sched_setaffinity(0, {cores[rank]})
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    trainer = Trainer(settings, rank, ranks, threads)
    if steps:
        train(trainer, steps)
        return

    def answer(request):
        if ranks > 1:
            dist.broadcast_object_list([request])
        return rate(trainer, request["iterations"])

    if rank == 0:
        serve(answer)
        if ranks > 1:
            dist.broadcast_object_list([None])
        return
    request = [None]
    dist.broadcast_object_list(request)
    while request[0]:
        rate(trainer, request[0]["iterations"])
        dist.broadcast_object_list(request)


def main():
    settings, steps = sys.argv[1:], 0
    if settings[:1] == ["--train"]:
        steps, settings = int(settings[1]), settings[2:]
    cores = sorted(os.sched_getaffinity(0))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    others = [processes.get_context("spawn").Process(
        target=work, args=(rank, cores, settings, port, steps), daemon=True)
        for rank in range(1, len(cores) if "ranks" in settings else 1)]
    for other in others:
        other.start()
    work(0, cores, settings, port, steps)
    for other in others:
        other.join()


if __name__ == "__main__":
    main()
