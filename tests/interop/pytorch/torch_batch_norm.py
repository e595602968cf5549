# SPDX-License-Identifier: Apache-2.0
"""One rank of training with synchronised batch norm under PyTorch, in double: DistributedDataParallel, a
DistributedSampler, Adam. torch.nn.SyncBatchNorm itself refuses tensors on CPUs, so its definition stands here in its
place, over the group's all_reduce; and rank 0 trains a second net with plain torch.nn.BatchNorm1d on the batches of all
ranks put together, which must come out the same, and a third like it in single precision, to show what that costs."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.set_default_dtype(torch.float64)


class Normalise(torch.autograd.Function):
    """As torch/nn/modules/_functions.py has it: statistics of all ranks forward, two sums of all ranks back."""

    @staticmethod
    def forward(context, x, weight, bias, eps, running_mean, running_var, momentum):
        sums = torch.cat([torch.tensor([float(len(x))]), x.sum(0), (x * x).sum(0)])
        dist.all_reduce(sums)
        count, mean = sums[0], sums[1:1 + x.shape[1]] / sums[0]
        variance = sums[1 + x.shape[1]:] / count - mean ** 2
        running_mean.mul_(1 - momentum).add_(momentum * mean)
        running_var.mul_(1 - momentum).add_(momentum * variance * count / (count - 1))
        invstd = (variance + eps).rsqrt()
        context.save_for_backward(x, weight, mean, invstd, count)
        return (x - mean) * invstd * weight + bias

    @staticmethod
    def backward(context, dy):
        x, weight, mean, invstd, count = context.saved_tensors
        xhat = (x - mean) * invstd
        own = torch.stack([dy.sum(0), (dy * xhat).sum(0)])
        sums = own.clone()
        dist.all_reduce(sums)
        dx = weight * invstd * (dy - sums[0] / count - xhat * sums[1] / count)
        return dx, own[1], own[0], None, None, None, None


class SyncBatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        self.num_batches_tracked += 1
        return Normalise.apply(x, self.weight, self.bias, self.eps, self.running_mean, self.running_var, self.momentum)


def block(inputs, outputs, norm):
    """DI-engine's fc_block: x -> fc -> norm -> act."""
    return [nn.Linear(inputs, outputs), norm(outputs), nn.ReLU()]


class Net(nn.Module):
    """Encoder and head of DI-engine's DQN, of such blocks."""

    def __init__(self, obs, hidden, actions, norm):
        super().__init__()
        main = [module for pair in zip(hidden, hidden[1:]) for module in block(*pair, norm)]
        self.encoder = nn.ModuleDict({"init": nn.Sequential(*block(obs, hidden[0], norm)),
                                      "main": nn.Sequential(*main)})
        self.head = nn.ModuleDict({"Q": nn.Sequential(nn.Sequential(*block(hidden[-1], hidden[-1], norm)),
                                                      nn.Sequential(nn.Linear(hidden[-1], actions)))})

    def forward(self, x):
        return self.head["Q"](self.encoder["main"](self.encoder["init"](x)))


def make(task, norm):
    net = Net(task["obs"], task["hidden"], task["actions"], norm)
    state = {name: torch.tensor(values) for name, values in task["weights"].items()}
    net.load_state_dict(state, strict=True)
    return net


def batches_of(task, data, sampler, batch):
    """Of as many epochs as the updates take; a batch at an epoch's end may be short."""
    left = task["updates"]
    while left > 0:
        for rows in DataLoader(data, batch_size=batch, sampler=sampler):
            if left == 0:
                return
            left -= 1
            yield rows


def step(model, optimizer, rows):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(rows[0]), rows[1]).backward()
    gradient = {name.replace("module.", ""): p.grad.flatten().tolist() for name, p in model.named_parameters()}
    optimizer.step()
    return gradient


def train(task, net, model, data, sampler, batch):
    optimizer = torch.optim.Adam(model.parameters(), lr=task["learning_rate"], eps=task["adam_eps"])
    gradients = [step(model, optimizer, rows) for rows in batches_of(task, data, sampler, batch)]
    net.eval()
    with torch.no_grad():
        outputs = net(torch.tensor(task["eval_obs"], dtype=data.tensors[0].dtype)).tolist()
    state = {name: values.flatten().tolist() for name, values in net.state_dict().items()}
    return {"gradient": gradients[0], "state": state, "outputs": outputs}


def main():
    dist.init_process_group("gloo")
    task = json.load(sys.stdin)
    data = TensorDataset(torch.tensor(task["data_obs"]), torch.tensor(task["data_action"]))
    net = make(task, SyncBatchNorm)
    sampler = DistributedSampler(data, shuffle=False)
    answer = {"sync": train(task, net, DistributedDataParallel(net), data, sampler, task["batch"])}
    # Sample i is rank i % ranks' sample i / ranks: batches of all ranks are batches of the data in order.
    batch = task["batch"] * dist.get_world_size()
    if dist.get_rank() == 0:
        net = make(task, nn.BatchNorm1d)
        answer["plain"] = train(task, net, net, data, None, batch)
        net = make(task, nn.BatchNorm1d).float()
        data = TensorDataset(data.tensors[0].float(), data.tensors[1])
        answer["single"] = train(task, net, net, data, None, batch)
    refused = False
    try:
        nn.SyncBatchNorm(2)(torch.ones(4, 2))
    except (RuntimeError, ValueError):
        refused = True
    answer["refused"] = refused
    print(json.dumps(answer))
    dist.destroy_process_group()


main()
