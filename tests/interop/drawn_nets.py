# SPDX-License-Identifier: Apache-2.0
"""Run directories of policies that nobody trained, with drawn weights: nets that together have every layer and head."""

import json
import os

import numpy as np
from safetensors.numpy import save_file

CONV = {"conv": {"channels": 6, "kernel": 3, "padding": 1}}
NETS = {
    "vector": dict(
        policy=dict(type="dqn"), obs=9, actions=4, heads={"q": {"type": "dueling", "layers": [{"dense": 8}, "relu"]}},
        layers=[{"dense": 24}, "tanh", "layer_norm", {"residual": [{"dense": 24}, "gelu"]}, {"residual": ["relu"]},
                {"dense": 16}, "relu"]),
    "normed": dict(
        policy=dict(type="bc"), obs=7, actions=3, heads={"policy": {}},
        layers=[{"dense": 20}, "batch_norm", "tanh", {"residual": [{"dense": 20}, "batch_norm", "gelu"]}]),
    "embedding": dict(
        policy=dict(type="dqn"), obs=5, actions=3, integers=6, heads={"q": {"type": "dense"}},
        layers=[{"embedding": {"values": 6, "width": 5}}, "batch_norm", "layer_norm", "flatten", {"dense": 16}, "gelu"]),
    "image": dict(
        policy=dict(type="qrdqn"), obs=[3, 21, 18], actions=3, heads={"q": {"layers": [{"dense": 12}, "tanh"]}},
        layers=[{"conv": {"channels": 6, "kernel": 5, "stride": 3, "padding": 2}}, "gelu", "batch_norm",
                {"max_pool": {"kernel": 3, "stride": 2, "padding": 1}}, {"group_norm": 3}, "layer_norm",
                {"residual": [CONV, "tanh", {"residual": ["relu", {"conv": {"channels": 6, "kernel": 1}}]}]},
                {"max_pool": {"kernel": 2}}, "flatten", "relu", {"dense": 32}, "tanh"]),
    "recurrent": dict(
        policy=dict(type="ppo"), obs=3, actions=[3, 2, 4], heads={"policy": {}, "value": {"layers": ["tanh"]}},
        layers=[{"gru": 16}, "relu", {"lstm": 17}, {"dense": 12}, "tanh", {"gru": 9}]),
    "gaussian": dict(
        policy=dict(type="ppo", action_space="continuous", action_bounds={"low": [-1, "-.inf", 0], "high": [0.1, ".inf", 0.5]}),
        obs=6, actions=3, norm=True, heads={"policy": {}, "value": {}}, layers=[{"dense": 10}, "tanh"]),
    "squashed": dict(
        policy=dict(type="sac", action_space="continuous", action_bounds={"low": [-2, 0], "high": [2, 0.25]}),
        obs=6, actions=2, heads={"policy": {}}, layers=[{"dense": 10}, "relu"]),
    "parts": dict(
        policy=dict(type="dqn"), obs={"camera": [6, 9, 8], "state": 10}, actions=3, frames=2, heads={"q": {"type": "dueling"}},
        inputs={"image": {"obs": "camera", "layers": [CONV, "relu", {"max_pool": {"kernel": 2}}, "flatten"]},
                "vector": {"obs": "state", "layers": [{"dense": 7}, "layer_norm", "tanh"]}, "again": {"obs": "state"}},
        layers=[{"dense": 12}, "gelu"]),
}
QUANTILES = 32  # the default of num_quantiles


class Weights:
    """Tensors of layers as PyTorch names them; a weight is so large that activations stay near one."""

    def __init__(self):
        self.rng = np.random.default_rng(11)
        self.tensors = {}

    def add(self, name, *shape, scale=1.0, mean=0.0):
        self.tensors[name] = (mean + scale * self.rng.normal(size=shape)).astype(np.float32)

    def add_norm(self, module, shape):
        self.add(f"{module}.weight", *shape, scale=0.2, mean=1)
        self.add(f"{module}.bias", *shape, scale=0.2)

    def add_product(self, module, out, *inputs):
        self.add(f"{module}.weight", out, *inputs, scale=np.prod(inputs) ** -0.5)
        self.add(f"{module}.bias", out, scale=0.1)

    def add_recurrent(self, module, gates, hidden, width):
        for name, shape in (("weight_ih", (width,)), ("weight_hh", (hidden,)), ("bias_ih", ()), ("bias_hh", ())):
            self.add(f"{module}.{name}_l0", gates * hidden, *shape, scale=hidden ** -0.5)

    def add_batch_norm(self, module, shape):
        self.add_norm(module, shape[:1])
        self.add(f"{module}.running_mean", shape[0], scale=0.2)
        self.tensors[f"{module}.running_var"] = self.rng.uniform(0.5, 2, shape[0]).astype(np.float32)

    def add_layer(self, kind, given, module, shape):
        """Returns the shape of what the layer yields."""
        fields = given if isinstance(given, dict) else {}
        if kind == "dense":
            self.add_product(module, given, *shape)
            return (given,)
        if kind in ("conv", "max_pool"):
            kernel, padding = fields["kernel"], fields.get("padding", 0)
            stride = fields.get("stride", 1 if kind == "conv" else kernel)
            sides = [(side + 2 * padding - kernel) // stride + 1 for side in shape[1:]]
            if kind == "conv":
                self.add_product(module, fields["channels"], shape[0], kernel, kernel)
            return (fields.get("channels", shape[0]), *sides)
        if kind in ("gru", "lstm"):
            self.add_recurrent(module, 3 if kind == "gru" else 4, given, *shape)
            return (given,)
        if kind == "embedding":
            self.add(f"{module}.weight", fields["values"], fields["width"])
            return (*shape, fields["width"])
        if kind in ("layer_norm", "group_norm"):
            self.add_norm(module, shape if kind == "layer_norm" else shape[:1])
        if kind == "batch_norm":
            self.add_batch_norm(module, shape)
        if kind == "residual":
            self.add_layers(given, module, shape)
        return (int(np.prod(shape)),) if kind == "flatten" else shape

    def add_layers(self, layers, module, shape):
        for i, layer in enumerate(layers):
            [(kind, given)] = layer.items() if isinstance(layer, dict) else [(layer, None)]
            shape = self.add_layer(kind, given, f"{module}.{i}", shape)
        return shape

    def add_stream(self, head, module, shape, outputs):
        layers = head.get("layers", [])
        shape = self.add_layers(layers, module, shape)
        self.add_product(f"{module}.{len(layers)}" if layers else module, outputs, *shape)


def as_shape(obs):
    return tuple(obs) if isinstance(obs, list) else (obs,)


def add_heads(weights, net, shape):
    count, kind = int(np.sum(net["actions"])), net["policy"]["type"]
    for name, head in net["heads"].items():
        module = f"heads.{name}"
        if head.get("type") == "dueling":
            weights.add_stream(head, f"{module}.advantage", shape, count)
            weights.add_stream(head, f"{module}.value", shape, 1)
        elif name == "value":
            weights.add_stream(head, module, shape, 1)
        else:
            weights.add_stream(head, module, shape, count * {"qrdqn": QUANTILES, "sac": 2}.get(kind, 1))
    if kind == "ppo" and net["policy"].get("action_space") == "continuous":
        weights.add("heads.policy.log_std", count, scale=0.3)


def draw_tensors(net):
    weights = Weights()
    if "inputs" in net:
        ends = [weights.add_layers(part.get("layers", []), f"inputs.{name}", as_shape(net["obs"][part["obs"]]))
                for name, part in net["inputs"].items()]
        shape = (sum(end[0] for end in ends),)
    else:
        shape = as_shape(net["obs"])
    add_heads(weights, net, weights.add_layers(net["layers"], "layers", shape))
    if net.get("norm"):
        weights.add("obs_norm.scale", net["obs"], scale=0.5, mean=2)
        weights.add("obs_norm.shift", net["obs"])
    return weights.tensors


def write_run(directory, net):
    """Writes a run directory, whose config is JSON, which YAML takes."""
    model = dict(obs_shape=net["obs"], action_shape=net["actions"], layers=net["layers"], heads=net["heads"])
    model.update({"inputs": net["inputs"]} if "inputs" in net else {})
    config = dict(graph={}, env=dict(type="cartpole", frame_stack=net.get("frames", 1)),
                  policy=dict(net["policy"], model=model, collect=dict(clip_obs=3, segment_at_done=False, n_sample=64)))
    os.makedirs(os.path.join(directory, "ckpt/best"))
    with open(os.path.join(directory, "total_config.yaml"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    save_file(draw_tensors(net), os.path.join(directory, "ckpt/best/policy.safetensors"))
