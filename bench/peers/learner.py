# SPDX-License-Identifier: Apache-2.0
"""Updates in PyTorch, each in every way that might be its fastest."""

import torch
from torch import nn
from torch.nn import functional

import net

NSTEP, GAMMA = 3, 0.99


class Learner:
    """Trains the first of some modules. `options`: channels_last, autocast (bf16 arithmetic, f32 weights),
    master (bf16 weights beside f32 ones that Adam updates), pure (bf16 weights and optimizer), compile,
    and foreach instead of the fused Adam, graph (on a GPU: the optimizer's step may be captured in a CUDA
    graph). `clip`: the longest gradient."""

    def __init__(self, modules, options, learning_rate=1e-4, eps=1e-8, clip=None, device="cpu"):
        self.device = device
        self.kind = torch.bfloat16 if {"pure", "master"} & set(options) else torch.float32
        self.layout = torch.channels_last if "channels_last" in options else torch.contiguous_format
        for module in modules:
            module.to(device=device, dtype=self.kind, memory_format=self.layout)
        self.online = self.trained = modules[0]  # what the gradient goes through
        self.autocast, self.clip = "autocast" in options, clip
        how = {"foreach": True} if "foreach" in options else {"fused": True}
        how |= {"capturable": True} if "graph" in options else {}
        self.weights = list(self.online.parameters())
        self.masters = [p.detach().float() for p in self.weights] if "master" in options else []
        self.adam = torch.optim.Adam(self.masters or self.weights, lr=learning_rate, eps=eps, **how)
        self.loss = torch.compile(self.compute_loss) if "compile" in options else self.compute_loss

    def scale(self, frames):
        return frames.to(dtype=self.kind, memory_format=self.layout).mul_(1 / 255)

    def update(self, batch, between=None):
        """`between` is called when the gradients stand, before they are used. Returns what the loss
        returned beside its value, if anything."""
        self.adam.zero_grad(set_to_none=True)
        loss = self.loss(*batch)
        loss, *more = loss if isinstance(loss, tuple) else (loss,)
        loss.backward()
        if between:
            between(self.online)
        for master, weight in zip(self.masters, self.weights):
            master.grad, weight.grad = weight.grad.float(), None
        if self.clip:
            nn.utils.clip_grad_norm_(self.masters or self.weights, self.clip)
        self.adam.step()
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
        return more


def random_frames(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (size, 4, 84, 84), generator=generator, dtype=torch.uint8), generator


class Dqn(Learner):
    """One DQN update as DI-engine defines it, on uint8 frames."""

    def __init__(self, name, options, device="cpu"):
        torch.manual_seed(0)
        self.discounts = torch.tensor([GAMMA**i for i in range(NSTEP)], device=device)
        online, self.target = net.QNet(net.DQN[name]), net.QNet(net.DQN[name])
        self.target.load_state_dict(online.state_dict())
        super().__init__([online, self.target], options, device=device)

    @staticmethod
    def make_batch(size, seed=0):
        """(obs, next_obs, action, reward [NSTEP][size], done, value_gamma)"""
        frames, generator = random_frames(2 * size, seed)
        action = torch.randint(0, net.ACTIONS, (size,), generator=generator)
        reward = torch.randint(-1, 2, (NSTEP, size), generator=generator).float()
        return (*frames.split(size), action, reward, torch.zeros(size),
                torch.full((size,), GAMMA**NSTEP))

    def compute_loss(self, obs, next_obs, action, reward, done, value_gamma):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            q = self.trained(self.scale(obs))
            with torch.no_grad():
                next_obs = self.scale(next_obs)
                best = self.online(next_obs).argmax(1)
                bootstrap = self.target(next_obs).gather(1, best[:, None])[:, 0].float()
        wanted = self.discounts @ reward + value_gamma * bootstrap * (1 - done)
        return functional.mse_loss(q.float().gather(1, action[:, None])[:, 0], wanted)


class Ppo(Learner):
    """One minibatch's update of PPO as DI-engine defines it, on uint8 frames: advantages standardised,
    ratio and value clipped, gradient clipped. Probabilities of the actions are those of the time when
    they were drawn."""

    RATIO, VALUE_WEIGHT, ENTROPY_WEIGHT = 0.2, 0.5, 0.001

    def __init__(self, name, options, initialise=None, learning_rate=3e-4, eps=1e-8, clip=0.5, device="cpu"):
        torch.manual_seed(0)
        module = net.ActorCritic(net.PPO[name])
        if initialise:
            initialise(module)
        super().__init__([module], options, learning_rate, eps, clip, device)

    @staticmethod
    def make_batch(size, seed=0):
        """(obs, action, log_p_old, value_old, advantage, wanted value)"""
        obs, generator = random_frames(size, seed)
        action = torch.randint(0, net.ACTIONS, (size,), generator=generator)
        noise = torch.randn(3, size, generator=generator)
        return obs, action, noise[0] * 0.1 - 1.8, noise[1] * 0.1, noise[2], noise[1] * 0.1 + noise[2]

    def compute_loss(self, obs, action, log_p_old, value_old, advantage, wanted):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            logits, value = self.trained(self.scale(obs))
        log_p, value = logits.float().log_softmax(1), value.float()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        change = log_p.gather(1, action[:, None])[:, 0] - log_p_old
        ratio = change.exp()
        clipped = ratio.clamp(1 - self.RATIO, 1 + self.RATIO)
        policy = -torch.min(ratio * advantage, clipped * advantage).mean()
        near = value_old + (value - value_old).clamp(-self.RATIO, self.RATIO)
        error = 0.5 * torch.max((wanted - value)**2, (wanted - near)**2).mean()
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        loss = policy + self.VALUE_WEIGHT * error - self.ENTROPY_WEIGHT * entropy
        return loss, (ratio - 1 - change).mean().detach()  # an estimate of the divergence


ALGORITHMS = {"dqn": Dqn, "ppo": Ppo}
