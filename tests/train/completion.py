# SPDX-License-Identifier: Apache-2.0
"""What a shell has to complete: from the help texts of the program, and in a folder of files."""

import os
import re

from runner import ROOT, call, check

SHOWN = re.compile(r"^  (--[\w-]+)", re.M)


def list_commands():
    return re.findall(r"^  ([\w-]+) +\S", call("--help").stdout.partition("commands:")[2], re.M)


def list_keys():
    return re.findall(r"^([a-zA-Z][\w.]+): ", call("keys").stdout, re.M)


def list_verbs():
    return re.findall(r"^(\w+)$", call("verbs").stdout, re.M)


def make_folder(scratch):
    """A folder to complete in, with configs and a run directory that are called alike."""
    os.mkdir(scratch("there"))
    os.symlink(os.path.join(ROOT, "configs"), scratch("there/configs"))
    os.mkdir(scratch("there/config_of_run"))
    return scratch("there")


def list_lines():
    """(what is typed, the words that are offered for the last of it) """
    yield "runner ", [*list_commands(), "--help", "--version"]
    yield "runner check", ["check-env"]
    for command in list_commands():
        options = SHOWN.findall(call(command, "--help").stdout)
        yield f"runner {command} --", [option for option in options if option != "--version"]
    yield "runner run --set ", [f"{key}=" for key in list_keys()]
    yield "runner run configs/cartpole_dqn_ddp.yaml --set policy.learn.lr_sch", [
        f"policy.learn.lr_scheduler.{name}=" for name in ("type", "kl_low", "kl_high", "factor", "min", "max")]
    yield "runner run --set policy.learn.lr_scheduler.type=", [f"policy.learn.lr_scheduler.type={t}" for t in ("none", "kl")]
    yield "runner run --set=policy.cuda=", [f"--set=policy.cuda={word}" for word in ("true", "false", "auto")]
    yield "runner run --set policy.priority=t", ["policy.priority=true"]
    yield "runner run --set policy.nstep=", []
    yield "runner run configs/cartpole_d", ["configs/cartpole_dqn_ddp.yaml", "configs/cartpole_dqn_priority.yaml"]
    yield "runner run configs/cartpole_dqn_ddp.yaml --strategy ", ["serial", "bucketed", "pipelined", "bf16", "int8"]
    yield "runner run --seed ", []
    yield "runner run --trace --quiet conf", ["configs", "config_of_run"]
    yield "runner run --dir config_", ["config_of_run"]
    yield "runner run --dir=config_", ["--dir=config_of_run"]
    yield "runner run --resume --di", ["--dir"]
    yield "runner report configs/st", ["configs/strategies"]
    yield "runner compare configs conf", ["configs", "config_of_run"]
    yield "runner keys ", list_keys()
    yield "runner compare --group-by policy.ty", ["policy.type"]
    yield "runner verbs ", list_verbs()
    yield "runner completion ", ["bash", "zsh"]
    yield "runner doctor ", []


def compare(line, offered, expected):
    check(sorted(offered) == sorted(expected), f"{line!r}: offered {sorted(offered)}, not {sorted(expected)}")
