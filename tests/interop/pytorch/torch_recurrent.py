# SPDX-License-Identifier: Apache-2.0
"""Recurrent policies under PyTorch: outputs of a net with gru or lstm layers for the steps of an episode, and PPO's
updates over sequences, written from the definitions and step by step."""

import json
import sys

import torch
from torch import nn

ENVS, STEPS, UNROLL, ACTIONS, OBS, UPDATES = 4, 6, 3, 2, 2, 3
CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT, GAMMA, LAMBDA, RATE, MAX_NORM = 0.2, 0.5, 0.01, 0.9, 0.95, 0.001, 0.5
DONES = {(0, 1), (1, 2), (2, 5), (3, 3), (3, 4)}  # (env, step)
CASES = {"gru": [{"dense": 8}, "tanh", {"gru": 6}], "lstm": [{"lstm": 5}]}


def fill(k, j):
    """docs/di-engine.md 9.1"""
    mask = (1 << 64) - 1
    z = ((k << 32) + j + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return ((z ^ z >> 31) >> 40) / 16777216


def filled(k, n, scale=1.0, shift=0.0):
    """Numbers of single precision."""
    numbers = torch.tensor([scale * (2 * fill(k, j) - 1) + shift for j in range(n)], dtype=torch.float64)
    return numbers.float().to(torch.get_default_dtype())


class Net(nn.Module):
    """One step for several sequences at once. A state is a list, by recurrent layer, of tensors [1][sequences][hidden]."""

    def __init__(self, obs, layers, heads):
        super().__init__()
        self.layers, self.heads = nn.ModuleList(), nn.ModuleDict()
        for layer in layers:
            name, size = (layer, None) if isinstance(layer, str) else next(iter(layer.items()))
            make = {"tanh": lambda _, __: nn.Tanh(), "dense": nn.Linear, "gru": nn.GRU, "lstm": nn.LSTM}[name]
            self.layers.append(make(obs, size))
            obs = size or obs
        for name, outputs in heads.items():
            self.heads[name] = nn.Linear(obs, outputs)
        self.recurrent = [layer for layer in self.layers if isinstance(layer, (nn.GRU, nn.LSTM))]

    def split(self, state):
        """A state of each recurrent layer, of [sequences][numbers]: h, in an LSTM then c."""
        parts = []
        for layer in self.recurrent:
            n = 2 if isinstance(layer, nn.LSTM) else 1
            here, state = state[:, :n * layer.hidden_size], state[:, n * layer.hidden_size:]
            parts.append([part.unsqueeze(0).contiguous() for part in here.chunk(n, 1)])
        return parts

    def count_state(self):
        return sum((2 if isinstance(layer, nn.LSTM) else 1) * layer.hidden_size for layer in self.recurrent)

    def forward(self, x, parts):
        after = []
        for layer in self.layers:
            if layer in self.recurrent:
                before = parts[len(after)]
                x, new = layer(x.unsqueeze(0), tuple(before) if len(before) > 1 else before[0])
                x = x.squeeze(0)
                after.append(list(new) if isinstance(new, tuple) else [new])
            else:
                x = layer(x)
        return {name: head(x) for name, head in self.heads.items()}, after

    def run(self, obs, state, begins):
        """Outputs of obs[sequences][steps][...]; begins[sequences][steps] says where the state is zero before a step."""
        parts, outputs = self.split(state), []
        for t in range(obs.shape[1]):
            goes_on = (1 - begins[:, t]).reshape(1, -1, 1)
            out, parts = self.forward(obs[:, t], [[part * goes_on for part in layer] for layer in parts])
            outputs.append(out)
        return {name: torch.stack([out[name] for out in outputs], 1) for name in self.heads}


def compute_outputs(task):
    """The outputs for the steps of one episode."""
    net = Net(task["obs_shape"], task["layers"], {name: len(task["weights"][f"heads.{name}.bias"])
                                                  for name in task["heads"]})
    net.load_state_dict({name: torch.tensor(values) for name, values in task["weights"].items()}, strict=True)
    obs = torch.tensor(task["obs"]).unsqueeze(0)
    with torch.no_grad():
        out = net.run(obs, torch.zeros(1, net.count_state()), torch.zeros(obs.shape[:2]))
    return torch.cat([out[name] for name in task["heads"]], 2)[0].tolist()


# -- Updates -----------------------------------------------------------------------------------------------------------

def make_net(layers):
    net = Net(OBS, layers, {"policy": ACTIONS, "value": 1})
    with torch.no_grad():
        for t, (name, tensor) in enumerate(net.named_parameters()):
            module = net.get_submodule(name.rpartition(".")[0])
            fan_in = module.hidden_size if isinstance(module, (nn.GRU, nn.LSTM)) else module.in_features
            tensor.copy_(filled(t, tensor.numel(), fan_in ** -0.5).reshape(tensor.shape))
    return net


def make_trajectories(count):
    """Observations before each step and after the last one, and what else the steps of a collect record."""
    steps = [(env, t) for env in range(ENVS) for t in range(STEPS)]
    data = {
        "obs": torch.stack([torch.stack([filled(1000 + 7 * env + t, OBS) for t in range(STEPS + 1)])
                            for env in range(ENVS)]),
        "logit": torch.stack([filled(2000 + i, ACTIONS, 0.5) for i in range(len(steps))]).reshape(ENVS, STEPS, ACTIONS),
        "state": torch.stack([filled(3000 + i, count, 0.5) for i in range(ENVS * STEPS // UNROLL)]),
        "action": torch.tensor([i % ACTIONS for i in range(len(steps))]).reshape(ENVS, STEPS),
        "reward": torch.tensor([-0.5 if i % 3 == 0 else 1.0 for i in range(len(steps))]).reshape(ENVS, STEPS),
        "done": torch.tensor([float(step in DONES) for step in steps]).reshape(ENVS, STEPS),
    }
    data["begins"] = torch.cat([torch.zeros(ENVS, 1), data["done"]], 1)  # before each step and after the last one
    for env, t in DONES:  # an episode that begins with a sequence
        if (t + 1) % UNROLL == 0 and t + 1 < STEPS:
            data["state"][env * STEPS // UNROLL + (t + 1) // UNROLL] = 0
    return data


def compute_advantages(net, data):
    with torch.no_grad():
        value = net.run(data["obs"], data["state"][::STEPS // UNROLL], data["begins"])["value"][..., 0]
    advantage = torch.zeros(ENVS, STEPS)
    for env in range(ENVS):
        last = 0.0
        for t in reversed(range(STEPS)):
            on = 1 - data["done"][env, t]
            error = data["reward"][env, t] + GAMMA * value[env, t + 1] * on - value[env, t]
            last = error + GAMMA * LAMBDA * on * last
            advantage[env, t] = last
    return value[:, :STEPS], advantage


def update(net, optimizer, data):
    cut = lambda x: x.reshape(ENVS * STEPS // UNROLL, UNROLL, *x.shape[2:])  # noqa: E731  # in sequences
    value_old, advantage = compute_advantages(net, data)
    target = value_old + advantage
    begins = cut(data["begins"][:, :STEPS]).clone()
    begins[:, 0] = 0
    out = net.run(cut(data["obs"][:, :STEPS].contiguous()), data["state"], begins)
    value, logit = out["value"][..., 0], out["policy"]
    advantage, value_old, target = cut(advantage), cut(value_old), cut(target)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_p, log_old = logit.log_softmax(-1), cut(data["logit"]).log_softmax(-1)
    action = cut(data["action"]).unsqueeze(-1)
    change = (log_p.gather(-1, action) - log_old.gather(-1, action))[..., 0]
    ratio = change.exp()
    policy = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
    clipped = value_old + (value - value_old).clamp(-CLIP, CLIP)
    value_loss = 0.5 * torch.max((target - value) ** 2, (target - clipped) ** 2).mean()
    entropy = -(log_p.exp() * log_p).sum(-1).mean()
    total = policy + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * entropy
    optimizer.zero_grad()
    total.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
    optimizer.step()
    return {"cur_lr": RATE, "total_loss": total, "policy_loss": policy, "value_loss": value_loss, "entropy_loss": entropy,
            "adv_max": advantage.max(), "adv_mean": advantage.mean(), "value_mean": value.mean(),
            "value_max": value.max(), "approx_kl": (-change).mean(),
            "clipfrac": ((ratio - 1).abs() > CLIP).double().mean(), "grad_norm": norm}


def compute_updates(layers, dtype=torch.float64):
    """What each update reports, and the parameters after the last one."""
    torch.set_default_dtype(dtype)
    net = make_net(layers)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    data = make_trajectories(net.count_state())
    reports = [{key: float(value) for key, value in update(net, optimizer, data).items()} for _ in range(UPDATES)]
    return reports, {name: tensor.detach().flatten().tolist() for name, tensor in net.named_parameters()}


def main():
    torch.set_num_threads(1)
    task = json.load(sys.stdin)
    if "weights" in task:
        answer = {}
        for name, dtype in ("double", torch.float64), ("single", torch.float32):
            torch.set_default_dtype(dtype)
            answer[name] = compute_outputs(task)
    else:
        answer = {name: compute_updates(layers) for name, layers in CASES.items()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
