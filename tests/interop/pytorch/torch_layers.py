# SPDX-License-Identifier: Apache-2.0
"""The gradient of behaviour cloning and the outputs of a net that a list of layers describes, under PyTorch, in double
and in single precision. The names of docs/configuration.md are those of the modules here."""

import json
import sys

import torch
from torch import nn


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class LayerNorm(nn.LayerNorm):
    """Over all elements of a sample."""

    def __init__(self, shape):
        super().__init__(list(shape))


def batch_norm(shape):
    return {1: nn.BatchNorm1d, 3: nn.BatchNorm2d}[len(shape)](shape[0])


def make_layer(name, fields, shape):
    """One layer, given the shape of its input."""
    if name == "residual":
        return Residual(*sequence(fields, shape)[0])
    plain = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "flatten": nn.Flatten}
    if name in plain:
        return plain[name]()
    if name == "layer_norm":
        return LayerNorm(shape)
    if name == "group_norm":
        return nn.GroupNorm(fields["groups"] if isinstance(fields, dict) else fields, shape[0])
    if name == "batch_norm":
        return batch_norm(shape)
    if name == "dense":
        return nn.Linear(shape[0], fields["out"] if isinstance(fields, dict) else fields)
    if name == "conv":
        return nn.Conv2d(shape[0], fields["channels"], fields["kernel"], fields.get("stride", 1), fields.get("padding", 0))
    if name == "max_pool":
        return nn.MaxPool2d(fields["kernel"], fields.get("stride") or None, fields.get("padding", 0))
    assert name == "embedding", name
    return nn.Embedding(fields["values"], fields["width"])


def sequence(layers, shape):
    """Modules of a list, and the shape of their output."""
    modules = []
    for layer in layers:
        name, fields = (layer, None) if isinstance(layer, str) else next(iter(layer.items()))
        modules.append(make_layer(name, fields, shape))
        dtype = torch.long if name == "embedding" else torch.get_default_dtype()
        shape = modules[-1].eval()(torch.zeros(1, *shape, dtype=dtype)).shape[1:]
    return modules, shape


class Net(nn.Module):
    def __init__(self, obs_shape, layers, actions, inputs):
        super().__init__()
        if inputs:
            self.inputs = nn.ModuleDict()
            widths = []
            for name, own in inputs.items():
                modules, [width] = sequence(own, obs_shape[name])
                self.inputs[name] = nn.Sequential(*modules)
                widths.append(width)
            obs_shape = [sum(widths)]
        modules, shape = sequence(layers, obs_shape)
        self.layers = nn.Sequential(*modules)
        self.heads = nn.ModuleDict({"policy": nn.Linear(shape[0], actions)})
        self.embeds = isinstance(modules[0], nn.Embedding)

    def forward(self, x):
        if isinstance(x, dict):
            x = torch.cat([own(x[name]) for name, own in self.inputs.items()], 1)
        return self.heads["policy"](self.layers(x.long() if self.embeds else x))


def make_obs(values):
    return {name: torch.tensor(part) for name, part in values.items()} if isinstance(values, dict) else torch.tensor(values)


def run(task, dtype):
    torch.set_default_dtype(dtype)
    net = Net(task["obs_shape"], task["layers"], task["actions"], task.get("inputs"))
    state = {name: torch.tensor(values) for name, values in task["weights"].items()}
    net.load_state_dict(state, strict=True)
    net.eval()
    with torch.no_grad():
        outputs = net(make_obs(task["eval_obs"])).tolist()
    net.train()
    obs = make_obs(task["obs"])
    loss = nn.functional.cross_entropy(net(obs), torch.tensor(task["action"]))
    loss.backward()
    gradient = {name: p.grad.flatten().tolist() for name, p in net.named_parameters()}
    return {"gradient": gradient, "outputs": outputs}


def main():
    torch.set_num_threads(1)
    task = json.load(sys.stdin)
    print(json.dumps({"double": run(task, torch.float64), "single": run(task, torch.float32)}))


main()
