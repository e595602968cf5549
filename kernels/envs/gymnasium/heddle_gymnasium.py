#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of the Gymnasium bridge: makes a slice of a group's envs and does what the plug-in orders through
shared memory (heddle_shared.py). The plug-in starts it with the descriptors of the memory and of a
pipe, the worker's number (-1: describe an env), env.env_id, and env.options as name=value."""

import ctypes
import os
import sys
import warnings

# Each worker is one of many processes: threads of their own would only take each other's cores.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are arrays, never windows
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

from heddle_shared import (BOX, CALLS_BYTES, CLOSE, CODE, F32, LOAD, REPLAY, RESET, SAVE, STEP, TEXT,  # noqa: E402
                           Control, Description, Header, Input, Result)


def read_options(words):
    """env.options of the run file: maps and lists come as JSON."""
    import json
    options = {"kwargs": {}}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if name.startswith("kwargs."):
            options["kwargs"][name.partition(".")[2]] = value
        elif name == "kwargs":
            options["kwargs"].update(value)
        else:
            options[name] = value
    return options


# -- Envs ---------------------------------------------------------------------------------------------------------


def find_object(name, home):
    """The object `name` of the module `home`, or of its own: my_module:Name."""
    import importlib
    module, colon, attribute = name.rpartition(":")
    if not colon and home is None:
        raise ValueError(f"env.options.wrappers: {name} wraps single agents; a wrapper of a parallel env is named with "
                         f"its module, such as supersuit:pad_observations_v0")
    module = importlib.import_module(module) if colon else home
    if not hasattr(module, attribute):
        raise ValueError(f"env.options.wrappers: there is no {attribute} in {module.__name__}")
    return getattr(module, attribute)


def list_wrappers(entries):
    """Yields names and arguments: Name, {Name: {argument: value}} or a list of these."""
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            yield from ((name, arguments or {}) for name, arguments in entry.items())
        else:
            yield entry, {}


def is_parallel(env):
    """Whether several agents act at a time, by PettingZoo's interface."""
    return hasattr(env, "possible_agents")


def make_class(env_id, options):
    """An env that was not registered: my_module:MyEnv names its class, or a function that makes one."""
    import importlib
    import gymnasium
    module, colon, name = env_id.partition(":")
    make = getattr(importlib.import_module(module), name, None) if colon else None
    if make is None:
        return None
    env = make(**options["kwargs"])
    limit = options.get("max_episode_steps")
    return gymnasium.wrappers.TimeLimit(env, limit) if limit and not is_parallel(env) else env


# Gymnasium's wrappers whose statistics go on over episodes, and what does the same in the run.
REMEMBERING = {"NormalizeObservation": "policy.collect.normalize_obs",
               "NormalizeReward": "policy.collect.normalize_reward"}


def check_memory(wrapper, options):
    """Statistics inside an env are no part of the weights, and each env has its own."""
    for name, key in REMEMBERING.items():
        if options.get("save") != "pickle" and any(kind.__name__ == name for kind in type(wrapper).__mro__):
            raise ValueError(f"env.options.wrappers: {name} remembers what earlier episodes gave, so that neither a "
                             f"checkpoint nor the weights would hold what the policy saw; {key}: true does the same "
                             f"by statistics of all shards, which are saved with the weights (save: pickle keeps the "
                             f"wrapper; evaluations then have statistics of their own)")


def make_tuple(value):
    """A list of a run file, with those within, as a tuple: wrappers want shapes as such."""
    return tuple(map(make_tuple, value)) if isinstance(value, list) else value


def make_env(env_id, options):
    import gymnasium
    arguments = dict(options["kwargs"])
    if options.get("render"):
        arguments["render_mode"] = "rgb_array"
    env = make_class(env_id, {**options, "kwargs": arguments})
    if env is None:
        if options.get("max_episode_steps"):
            arguments["max_episode_steps"] = options["max_episode_steps"]
        env = gymnasium.make(env_id, disable_env_checker=True, **arguments)
    for name, arguments in list_wrappers(options.get("wrappers", [])):
        arguments = {key: make_tuple(value) for key, value in arguments.items()}
        env = find_object(name, None if is_parallel(env) else gymnasium.wrappers)(env, **arguments)
        check_memory(env, options)
    return env


def find_limit(env, options):
    spec = getattr(env, "spec", None)
    return options.get("max_episode_steps") or getattr(spec, "max_episode_steps", None) or 0


def find_common(names, find, kind):
    """The space that all agents have."""
    space = find(names[0])
    for name in names:
        if find(name) != space:
            raise ValueError(f"{kind} spaces differ, {space} of {names[0]} and {find(name)} of {name}, but all agents "
                             f"share one policy; SuperSuit can pad them: env.options.wrappers: "
                             f"[supersuit:pad_observations_v0, supersuit:pad_action_space_v0]")
    return space


def find_spaces(env):
    """Observation and action space of an env, or of each agent of a parallel env."""
    if hasattr(env, "agent_iter"):
        raise ValueError("its agents act one after the other; name its parallel_env, or a function that calls "
                         "pettingzoo.utils.aec_to_parallel")
    if not is_parallel(env):
        return env.observation_space, env.action_space
    names = env.possible_agents
    if not names:
        raise ValueError("possible_agents is empty")
    return (find_common(names, env.observation_space, "observation"), find_common(names, env.action_space, "action"))


def count_agents(env, options):
    agents = len(env.possible_agents) if is_parallel(env) else 0
    if agents == 0 and (options.get("agents") or options.get("black_death")):
        raise ValueError("env.options.agents and black_death are for parallel envs of PettingZoo, which this is not")
    if options.get("agents", agents) != agents:
        raise ValueError(f"env.options.agents is {options['agents']}, but the env has {agents}: "
                         f"{', '.join(map(str, env.possible_agents))}")
    return agents


def check_picture(picture):
    """What `render` returns, as pixels of red, green and blue."""
    import numpy as np
    picture = np.asarray(picture)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"render returned {picture.dtype} of shape {picture.shape} in place of uint8 "
                         f"[height, width, 3]")
    return picture


def identify_code():
    """What this process has loaded: a hash of modules that are neither Python's nor of installed packages, by name and
    content, and of the versions of packages; one without a version counts by content."""
    import gymnasium
    import hashlib
    import sysconfig
    paths, digest = sysconfig.get_paths(), hashlib.sha256(sys.version.encode())
    standard, packages = (tuple(os.path.realpath(paths[name]) + os.sep for name in names)
                          for names in (("stdlib", "platstdlib"), ("purelib", "platlib")))
    for name, module in sorted(sys.modules.items()):
        path = os.path.realpath(getattr(module, "__file__", None) or "")
        version = getattr(sys.modules.get(name.partition(".")[0]), "__version__", None)
        if path.startswith(packages) and isinstance(version, str):
            digest.update(f"{name} {version}".encode())
        elif os.path.isfile(path) and (path.startswith(packages) or not path.startswith(standard)):
            with open(path, "rb") as file:
                digest.update(name.encode() + file.read())
    return f"code {digest.hexdigest()[:16]}, gymnasium {gymnasium.__version__}".encode()[:CODE - 1]


def describe(env, options):
    from heddle_spaces import describe_actions, describe_obs
    description = Description()
    description.agents = count_agents(env, options)
    obs, actions = find_spaces(env)
    describe_obs(obs, description, options.get("parts"))
    describe_actions(actions, description)
    description.limit = find_limit(env, options)
    if options.get("render"):
        env.reset(seed=0)
        description.height, description.width = check_picture(env.render()).shape[:2]
    return description


# -- The worker ---------------------------------------------------------------------------------------------------

ENDED_EARLY = ("the episode ended after {} of {} steps when it was played again: the env is no function of seed and "
               "actions (env.options.save: pickle may help)")


def describe_result(result):
    """What a function of an env returned, in words."""
    return f"{len(result)} values" if isinstance(result, tuple) else f"a value of type {type(result).__name__}"


def check_flags(*flags):
    for flag in flags:
        if type(flag) is not bool and type(flag).__name__ not in ("bool_", "bool"):
            raise ValueError(f"terminated and truncated have to be booleans, found {str(flag)[:60]} "
                             f"({type(flag).__name__})")


def find_controls(memory, header):
    """A worker's controls: one, or one of each group that shares it."""
    return [Control.from_buffer(memory, header.control + i * ctypes.sizeof(Control)) for i in range(header.controls)]


class Worker:
    """Steps envs of Gymnasium."""

    def __init__(self, memory, header, env_id, options):
        import heddle_spaces
        self.memory, self.header, self.options = memory, header, options
        self.where = ""  # of an error, if that is not the step
        self.seed_mask = (1 << options.get("seed_bits", 64)) - 1
        self.agents = max(1, header.description.agents)
        self.first, self.slots = header.first, header.envs
        self.controls = find_controls(memory, header)
        self.ats = [memoryview(memory)[header.control + i * ctypes.sizeof(Control) + Control.at.offset:][:4].cast("i")
                    for i in range(header.controls)]
        self.number, self.control, self.at = 0, self.controls[0], self.ats[0]
        self.envs = [make_env(env_id, options) for _ in range(0, self.slots, self.agents)]
        self.steppers = [env.step for env in self.envs]
        heddle_spaces.check_spaces(describe(self.envs[0], {"parts": options.get("parts")}), header.description)
        self.copy_obs = heddle_spaces.copy_obs
        self.lay_out(memory, heddle_spaces)

    def lay_out(self, memory, mapping):
        """Results are kept in memory of this process until a command is done (publish)."""
        import numpy as np
        header, n, spaces = self.header, self.slots, self.header.description
        shape = tuple(spaces.shape[:spaces.dims])
        element = np.float32 if spaces.element == F32 else np.uint8
        if spaces.n_parts:
            shape, element = (), mapping.make_parts_type(spaces)
        number = np.float32 if spaces.kind == BOX else np.int32
        dims, results = spaces.action_dims, bytearray(n * header.result_bytes)
        self.results = memoryview(results)
        self.given = memoryview(memory)[header.result:][:len(results)]

        def frames(k):
            start = ctypes.sizeof(Result) + k * header.frame_bytes
            return [mapping.shape_row(self.space, np.ndarray(shape, element, results, start + i * header.result_bytes))
                    for i in range(n)]

        def read(field, kind):
            return memoryview(np.ndarray(n, kind, memory, header.input + field.offset, header.input_bytes))

        def write(field, kind):
            return memoryview(np.ndarray(n, kind, results, field.offset, header.result_bytes))

        self.space, action_space = find_spaces(self.envs[0])
        self.obs, self.next_obs = frames(0), frames(1)
        self.announced, self.next_seed = read(Input.announced, np.int64), read(Input.next_seed, np.uint64)
        # Observations of a Box that need no second look.
        self.array, self.shape = np.ndarray, self.space.shape if mapping.is_box(self.space) else None
        self.dtype = self.space.dtype
        self.kinds = {np.dtype(code) for code in ("B" if mapping.is_bytes(self.space) else "?bBhHiIlLfd")}
        self.actions = np.ndarray((n, dims), number, memory, header.input + ctypes.sizeof(Input), (header.input_bytes, 4))
        self.taken = np.ndarray((n, dims), number, results, ctypes.sizeof(Result) + 2 * header.frame_bytes,
                                (header.result_bytes, 4))
        self.started, self.reward = write(Result.started, np.int64), write(Result.reward, np.float32)
        self.done, self.truncated = write(Result.done, np.bool_), write(Result.truncated, np.bool_)
        bodies = self.agents * header.body_bytes
        self.bodies = [memoryview(memory)[header.body + i * bodies:][:bodies] for i in range(header.controls)]
        if header.pickle_bytes == 0:
            self.histories = [np.frombuffer(body, number).reshape(self.agents, -1, dims) for body in self.bodies]
        self.read_actions = mapping.make_action_reader(action_space)

    def publish(self, begin, end):
        """Gives the results of slots to the plug-in."""
        size = self.header.result_bytes
        self.given[begin * size:end * size] = self.results[begin * size:end * size]

    def take(self, begin, end):
        """Actions for slots of one of several groups: the copy tells the plug-in what was taken."""
        self.taken[begin:end] = self.actions[begin:end]
        return self.taken

    def show(self, row, obs):
        self.copy_obs(self.space, row, obs)

    def reset(self, env, seed):
        result = env.reset(seed=seed & self.seed_mask)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(f"reset returned {describe_result(result)} in place of (observation, info)")
        return result[0]

    @staticmethod
    def read_step(result):
        """Observation, reward, and whether the episode ended and was cut."""
        if not isinstance(result, tuple) or len(result) != 5:
            raise ValueError(f"step returned {describe_result(result)} in place of (observation, reward, terminated, "
                             f"truncated, info)")
        return result[:4]

    def give(self, k, reward):
        try:
            self.reward[k] = reward
        except (TypeError, ValueError):
            raise ValueError(f"the reward is {str(reward)[:60]} ({type(reward).__name__}), which is no number"
                             ) from None

    def start(self, i, seed):
        self.show(self.obs[i], self.reset(self.envs[i], seed))

    def start_next(self, i):
        """Starts the next episode in the step that ends one, whose last observation stays."""
        self.where = f" in the reset from seed {self.next_seed[i]}"
        self.show(self.next_obs[i], self.reset(self.envs[i], self.next_seed[i]))
        self.started[i], self.where = self.announced[i], ""

    def step(self, begin=0, end=None):
        """Steps all envs, or those from `begin` on before `end`. What is right is found right without a call; what is
        not is looked at by the functions above."""
        at, rows, done, truncations, shape, kinds = self.at, self.obs, self.done, self.truncated, self.shape, self.kinds
        i, array, dtype, rewards = self.first, self.array, self.dtype, self.reward
        steppers, actions = self.steppers, self.actions
        if end is not None:
            steppers, actions = steppers[begin:end], self.take(begin, end)[begin:end]
        for k, (step, action) in enumerate(zip(steppers, self.read_actions(actions)), begin):
            at[0] = i + k
            result = step(action)
            try:
                obs, rewards[k], terminated, truncated, _ = result
            except (TypeError, ValueError):
                obs, reward, terminated, truncated = self.read_step(result)
                self.give(k, reward)
            if type(obs) is array and obs.shape == shape and (obs.dtype is dtype or obs.dtype in kinds):
                rows[k][...] = obs
            else:
                self.show(rows[k], obs)
            if not (terminated is False or terminated is True) or not (truncated is False or truncated is True):
                check_flags(terminated, truncated)
            done[k] = terminated or truncated
            truncations[k] = truncated and not terminated
            if done[k] and self.announced[k]:
                self.start_next(k)

    def replay(self, i, seed, count):
        """Plays an episode again; the sum of its rewards is left in the place of a reward."""
        self.start(i, seed)
        total = 0.0
        for n, action in enumerate(self.read_actions(self.histories[self.number][0, :count])):
            obs, reward, terminated, truncated = self.read_step(self.steppers[i](action))
            self.give(i, reward)
            total += self.reward[i]
            if (terminated or truncated) and n + 1 < count:
                raise ValueError(ENDED_EARLY.format(n + 1, count))
        if count > 0:
            self.show(self.obs[i], obs)
        self.give(i, total)

    def save(self, i):
        import pickle
        self.write_pickle(pickle.dumps((self.envs[i], self.obs[i].copy()), protocol=4))

    def write_pickle(self, data):
        if len(data) > self.header.pickle_bytes:
            raise ValueError(f"a pickle of the env has {len(data)} bytes: set env.options.pickle_bytes")
        self.bodies[self.number][:len(data)] = data
        self.control.count = len(data)

    def load(self, i, count):
        import pickle
        self.envs[i], obs = pickle.loads(self.bodies[self.number][:count])
        self.steppers[i] = self.envs[i].step
        self.obs[i][...] = obs

    def render(self, i):
        import numpy as np
        spaces = self.header.description
        size = spaces.height * spaces.width * 3
        picture = np.frombuffer(self.memory, np.uint8, size, self.header.picture + self.number * size)
        drawn = check_picture(self.envs[i].render())
        if drawn.shape != (spaces.height, spaces.width, 3):
            raise ValueError(f"render returned a picture of {drawn.shape[:2]}, but the first one had "
                             f"{(spaces.height, spaces.width)}")
        picture.reshape(drawn.shape)[...] = drawn

    def obey(self, number, command):
        """Executes the command of a control."""
        control = self.control = self.controls[number]
        self.at, self.number = self.ats[number], number
        if command == STEP and control.count == 0:
            self.step()
            self.given[:] = self.results
            return
        i, count = control.env - self.first, control.count
        if command == STEP:
            self.step(i, i + count)
            return self.publish(i, i + count)
        self.at[0] = control.env
        if command == RESET:
            self.start(i, control.seed)
        elif command == REPLAY:
            self.replay(i, control.seed, count)
        elif command == LOAD:
            self.load(i, count)
        else:
            return self.save(i) if command == SAVE else self.render(i)
        return self.publish(i - i % self.agents, i - i % self.agents + self.agents)

    def close(self):
        for env in self.envs:
            env.close()


class ParallelWorker(Worker):
    """Steps parallel envs of PettingZoo. Agent k of parallel env e is env e * agents + k of the group: its slot.
    All agents end in the same step. One that ends before the others is refused, or with black_death keeps its slot,
    which shows zeros and gives no reward, as SuperSuit's wrapper of this name has it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.names = list(self.envs[0].possible_agents)
        self.limit = self.options.get("max_episode_steps")
        self.steps = [0] * len(self.envs)

    def get_slots(self, e):
        """The agents of parallel env e with their slots."""
        return enumerate(self.names, e * self.agents)

    def show_agent(self, i, name, obs, living):
        if name in obs and name in living:
            return self.show(self.obs[i], obs[name])
        if not self.options.get("black_death"):
            self.at[0] = self.first + i
            raise ValueError(f"agent {name} does not play while others do; env.options.black_death: true keeps its "
                             f"place, where it sees zeros and gets no reward")
        self.obs[i][...] = 0

    def start(self, i, seed):
        e = i // self.agents
        obs = self.reset(self.envs[e], seed)
        self.steps[e] = 0
        for slot, name in self.get_slots(e):
            self.show_agent(slot, name, obs, self.envs[e].agents)

    def step(self, begin=0, end=None):
        actions, n = self.read_actions(self.actions if end is None else self.take(begin, end)), self.agents
        for e in range(begin // n, len(self.envs) if end is None else end // n):
            self.at[0] = self.first + e * n
            self.step_one(e, actions[e * n:e * n + n])

    def step_one(self, e, actions):
        """Steps a parallel env by an action of each of its slots."""
        env = self.envs[e]
        before = list(env.agents)
        taken = {name: action for name, action in zip(self.names, actions) if name in before}
        obs, rewards, terminations, truncations = self.read_step(env.step(taken))
        self.steps[e] += 1
        living = [name for name in env.agents if not (terminations.get(name) or truncations.get(name))]
        cut = self.steps[e] == self.limit
        over = cut or not living
        for i, name in self.get_slots(e):
            self.show_agent(i, name, obs, before if over else living)
            self.give(i, rewards.get(name, 0) if name in before else 0)
            check_flags(terminations.get(name, False), truncations.get(name, False))
            self.done[i] = over
            self.truncated[i] = over and name in before and not terminations.get(name) and bool(
                cut or truncations.get(name))

    def replay(self, i, seed, count):
        self.start(i, seed)
        slots = range(i, i + self.agents)
        totals = [0.0] * self.agents
        for n in range(count):
            self.step_one(i // self.agents, self.read_actions(self.histories[self.number][:, n]))
            totals = [total + self.reward[slot] for total, slot in zip(totals, slots)]
            if self.done[i] and n + 1 < count:
                raise ValueError(ENDED_EARLY.format(n + 1, count))
        for slot, total in zip(slots, totals):
            self.give(slot, total)

    def save(self, i):
        import pickle
        e, rows = i // self.agents, self.obs[i:i + self.agents]
        self.write_pickle(pickle.dumps((self.envs[e], self.steps[e], [row.copy() for row in rows]), protocol=4))

    def load(self, i, count):
        import pickle
        e = i // self.agents
        self.envs[e], self.steps[e], rows = pickle.loads(self.bodies[self.number][:count])
        for k, obs in enumerate(rows):
            self.obs[i + k][...] = obs

    def render(self, i):
        super().render(i // self.agents)


def make_printable(text):
    """Without what a terminal would take for commands."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def tell(control, error, where=""):
    """Writes the traceback to stderr, and a sentence for the plug-in's message."""
    import traceback
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    sys.stderr.write(make_printable("".join(traceback.format_exception(type(error), error, error.__traceback__))))
    sys.stderr.flush()
    text = make_printable(" ".join(str(error).split()))  # last, as a long message is cut
    control.error = f"Python raised {type(error).__name__}{place}{where}: {text}".encode()[:TEXT - 1]
    control.failed = 1


def prepare(pipe, number, options):
    """A worker ends with the program that started it (its keeper stays in this process), and tells where it is when it is
    asked (SIGUSR1)."""
    import faulthandler
    import signal
    sys.path.append(sys.path.pop(0))  # what an env imports is looked for elsewhere first
    library = ctypes.CDLL(os.path.join(sys.path[-1], "heddle_gymnasium_turn.so"))
    # The thread that started this process may be bound to one core; the program may use more.
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
    library.hd_gymnasium_keep(os.fork(), pipe)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if number >= 0:  # the process that described the env has warned already
        warnings.simplefilter("ignore", DeprecationWarning)
    if options.get("path"):
        sys.path.insert(0, options["path"])
    return library


def work(next_command, memory, number, env_id, options):
    header = Header.from_buffer_copy(memory)
    controls, worker, at = find_controls(memory, header), None, 0
    try:
        if number < 0:
            description = describe(make_env(env_id, options), options)
            description.code = identify_code()
            Header.from_buffer(memory).description = description
        else:
            worker = (ParallelWorker if header.description.agents else Worker)(memory, header, env_id, options)
    except Exception as error:  # whatever an env raises is the plug-in's to tell
        tell(controls[0], error)
    calls = (ctypes.c_char * CALLS_BYTES).from_buffer(memory, header.calls)
    words = ctypes.byref(calls), ctypes.byref(controls[0]), len(controls)
    while (command := controls[at := next_command(*words, at)].command) != CLOSE:
        try:
            worker.obey(at, command)
        except Exception as error:
            tell(controls[at], error, worker.where)
    if worker:
        worker.close()
    next_command(*words, at)


def main(descriptor, pipe, number, env_id, *words):
    import mmap
    options = read_options(words)
    library = prepare(int(pipe), int(number), options)
    memory = mmap.mmap(int(descriptor), 0)
    os.close(int(descriptor))
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        sys.stderr.write(f"{sys.executable} has no package gymnasium: install it there, or name a Python that has it by "
                         "env.options.python\n")
    work(library.hd_gymnasium_next, memory, int(number), env_id, options)


if __name__ == "__main__":
    main(*sys.argv[1:])
