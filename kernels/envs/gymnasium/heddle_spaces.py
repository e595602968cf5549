# SPDX-License-Identifier: Apache-2.0
"""Maps spaces of Gymnasium to what Heddle has, and back: observations to floats or bytes, numbers to actions. The table in
docs/howto/gymnasium.md lists every kind."""

import re

import numpy as np
from gymnasium import spaces

from heddle_shared import ACTION_DIMS, BOX, DIMS, DISCRETE, F32, MULTI_DISCRETE, PART_NAME, PARTS, U8

OBS_NUMBERS = 1000000
CHOICES = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary


def is_nested(space):
    return isinstance(space, (spaces.Dict, spaces.Tuple))


def list_leaves(space, name=""):
    """Yields the name and the space of each part of nested Dicts and Tuples, in the order of gymnasium.spaces.flatten."""
    if is_nested(space):
        items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in items:
            yield from list_leaves(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, space


def name_part(name):
    return f" (part {name})" if name else ""


# -- Observations -------------------------------------------------------------------------------------------------


def is_picture(space):
    return is_bytes(space) and 1 < len(space.shape) <= DIMS


def is_box(space):
    return isinstance(space, spaces.Box)


def is_bytes(space):
    """Whether an observation has to be of bytes."""
    return is_box(space) and space.dtype == np.uint8


def turns_picture(space):
    """Whether pictures come as height, width, channels: nets take channels first."""
    return len(space.shape) == 3 and space.shape[2] in (1, 3, 4) and space.shape[0] > 4


def check_leaf(name, space):
    if is_box(space):
        if space.dtype.kind not in "biuf":
            raise ValueError(f"observations{name_part(name)} are of {space.dtype}, which are no real numbers")
    elif not isinstance(space, CHOICES):
        minigrid = (", as minigrid.wrappers:ImgObsWrapper and minigrid.wrappers:FlatObsWrapper do"
                    if type(space).__module__.startswith("minigrid") else "")
        raise ValueError(f"observations{name_part(name)} of {type(space).__name__} have no fixed number of numbers; a "
                         f"wrapper can leave them out or encode them (env.options.wrappers){minigrid}")


def describe_array(space, description):
    shape = (spaces.flatdim(space),)
    if is_picture(space):
        shape = space.shape[2:] + space.shape[:2] if turns_picture(space) else space.shape
    elif not 0 < shape[0] <= OBS_NUMBERS:
        raise ValueError(f"an observation has {shape[0]} numbers; 1 to {OBS_NUMBERS} are possible")
    description.element, description.dims = U8 if is_picture(space) else F32, len(shape)
    description.shape[:len(shape)] = shape


def describe_parts(leaves, description):
    if len(leaves) > PARTS:
        raise ValueError(f"an observation has {len(leaves)} parts; up to {PARTS} are possible")
    for (name, leaf), part in zip(leaves, description.part):
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII) or len(name) >= PART_NAME:
            raise ValueError(f"a part of an observation is called {name!r}; names begin with a letter, have letters, "
                             f"digits, _, - and ., and fewer than {PART_NAME} of them (a wrapper can rename it)")
        part.name = name.encode()
        describe_array(leaf, part)
    description.n_parts = len(leaves)
    description.element, description.dims, description.shape[0] = U8, 1, make_parts_type(description).itemsize


def make_parts_type(description):
    """A frame as a record of its parts, each from a multiple of 4 bytes on."""
    names, formats, offsets, size = [], [], [], 0
    for part in description.part[:description.n_parts]:
        names.append(part.name.decode())
        formats.append((np.float32 if part.element == F32 else np.uint8, tuple(part.shape[:part.dims])))
        offsets.append(size)
        size += -(-np.dtype(formats[-1]).itemsize // 4) * 4
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def describe_obs(space, description, parts):
    leaves = list(list_leaves(space))
    for name, leaf in leaves:
        check_leaf(name, leaf)
    if parts and is_nested(space):
        describe_parts(leaves, description)
    else:
        describe_array(space, description)


def shape_row(space, row):
    """The view of a row of memory to which a Box's observations are copied as they come; of other spaces the row."""
    if is_picture(space):
        return np.moveaxis(row, 0, 2) if turns_picture(space) else row
    return row.reshape(space.shape) if is_box(space) else row


def check_obs(space, obs, name=""):
    """An observation, which numpy would otherwise spread, wrap or cut to fit, has what its space says. Bounds of a Box
    are not compared: many envs leave them."""
    what = f"the observation{name_part(name)}"
    if is_box(space):
        obs = np.asarray(obs)
        if obs.shape != space.shape:
            raise ValueError(f"{what} has shape {obs.shape}, but observation_space says {space.shape}")
        if obs.dtype.kind not in ("biu" if space.dtype == np.uint8 else "biuf"):
            raise ValueError(f"{what} is of {obs.dtype}, but observation_space of {space.dtype}")
        if space.dtype == np.uint8 and obs.dtype != np.uint8 and obs.size and not (obs.min() >= 0 and obs.max() <= 255):
            raise ValueError(f"{what} has numbers from {obs.min()} to {obs.max()}, which are no bytes")
    elif is_nested(space):
        is_dict = isinstance(space, spaces.Dict)
        keys = list(space.spaces) if is_dict else range(len(space.spaces))
        if not isinstance(obs, dict if is_dict else (tuple, list)) or len(obs) != len(keys) or (is_dict and set(obs) != set(keys)):
            found = sorted(map(str, obs)) if isinstance(obs, dict) else f"{type(obs).__name__} {str(obs)[:60]}"
            raise ValueError(f"{what} is {found}, but observation_space has {list(keys)}")
        for key in keys:
            check_obs(space.spaces[key], obs[key], f"{name}.{key}" if name else str(key))
    elif not space.contains(obs):
        raise ValueError(f"{what} is {str(obs)[:60]} ({type(obs).__name__}), which is not in {space}")


def list_values(space, obs):
    """Yields what list_leaves names."""
    if is_nested(space):
        for key in space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces)):
            yield from list_values(space.spaces[key], obs[key])
    else:
        yield obs


def copy_obs(space, row, obs):
    """Checks an observation and copies it to its row, which shape_row has shaped, or to the parts of its row."""
    check_obs(space, obs)
    if row.dtype.names:
        for (name, leaf), value in zip(list_leaves(space), list_values(space, obs)):
            shape_row(leaf, row[name])[...] = value if is_box(leaf) else spaces.flatten(leaf, value)
        return
    row[...] = obs if is_box(space) else spaces.flatten(space, obs)


# -- Actions ------------------------------------------------------------------------------------------------------


def list_choices(space):
    """How many choices each number of an action has."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.flat]
    return [2] * int(spaces.flatdim(space))


def check_actions(leaves):
    """The leaves of an action space are all choices, or all real numbers."""
    cure = "a gymnasium.ActionWrapper can translate"
    for name, leaf in leaves:
        part = name_part(name)
        if is_box(leaf) and leaf.dtype.kind != "f":
            raise ValueError(f"actions{part} are a Box of {leaf.dtype}: whole numbers are choices, which a MultiDiscrete "
                             f"space has ({cure})")
        if not isinstance(leaf, (spaces.Box, *CHOICES)):
            raise ValueError(f"actions{part} of {type(leaf).__name__} cannot be taken; they have to be Discrete, "
                             f"MultiDiscrete, MultiBinary or Box, or a Dict or Tuple of these ({cure})")
    if len({is_box(leaf) for _, leaf in leaves}) > 1:
        raise ValueError(f"actions have choices and real numbers ({', '.join(name for name, _ in leaves)}), but a policy "
                         f"has one of both ({cure})")


def describe_actions(space, description):
    leaves = list(list_leaves(space))
    check_actions(leaves)
    real = bool(leaves) and is_box(leaves[0][1])
    numbers = [0] * spaces.flatdim(space) if real else [n for _, leaf in leaves for n in list_choices(leaf)]
    if not 0 < len(numbers) <= ACTION_DIMS:
        raise ValueError(f"an action has {len(numbers)} numbers; 1 to {ACTION_DIMS} are possible")
    description.kind = BOX if real else DISCRETE if len(numbers) == 1 else MULTI_DISCRETE
    description.action_dims = len(numbers)
    description.n[:len(numbers)] = numbers
    if real:
        for side in ("low", "high"):
            bounds = [float(x) for _, leaf in leaves for x in getattr(leaf, side).flat]
            getattr(description, side)[:len(numbers)] = bounds


def read_leaf(space):
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        if start == 0:
            return lambda rows: rows[:, 0].tolist()
        return lambda rows: (rows[:, 0] + start).tolist()
    # Copies: an env may keep its action, while the next one is written to shared memory.
    if is_box(space):  # a normal distribution knows no bounds
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return lambda rows: list(np.clip(rows, low, high).astype(space.dtype).reshape(-1, *space.shape))
    offset = np.asarray(getattr(space, "start", 0)).reshape(-1)
    return lambda rows: list((rows + offset).astype(space.dtype).reshape(-1, *space.shape))


def count_numbers(space):
    return sum(leaf.low.size if is_box(leaf) else len(list_choices(leaf)) for _, leaf in list_leaves(space))


def make_action_reader(space):
    """How rows of numbers become what the env takes: one function of all rows."""
    if not is_nested(space):
        return read_leaf(space)
    parts = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
    keys = list(space.spaces) if isinstance(space, spaces.Dict) else None
    readers = [make_action_reader(part) for part in parts]
    ends = np.cumsum([0] + [count_numbers(part) for part in parts])

    def read(rows):
        actions = zip(*(reader(rows[:, a:b]) for reader, a, b in zip(readers, ends, ends[1:])))
        return [dict(zip(keys, action)) for action in actions] if keys else list(actions)

    return read


# -- What a run file declares -------------------------------------------------------------------------------------


def check_spaces(found, wanted):
    """What the run file declares has to be so."""
    def show(d):
        n = list(d.n[:d.action_dims])
        if d.kind == BOX:
            n = f"a box of {d.action_dims} with low {list(d.low[:d.action_dims])}, high {list(d.high[:d.action_dims])}"
        agents = f", agents {d.agents}" if d.agents else ""
        obs = {part.name.decode(): list(part.shape[:part.dims]) for part in d.part[:d.n_parts]} or list(d.shape[:d.dims])
        return f"obs_shape {obs}, actions {n}{agents}"
    if show(found) != show(wanted) or found.element != wanted.element:
        raise ValueError(f"env.options say {show(wanted)}, but the env has {show(found)}")
