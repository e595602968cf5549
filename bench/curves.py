#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: bench/curves.py FILE CONFIG ...

Draws the learning curves of run files in configs/ that bench/results/learning.jsonl has, with their own settings, as an
SVG: a panel for each, a line for each seed, the return at which a run counts as solved dashed. docs/images/learning.svg:
bench/curves.py docs/images/learning.svg pendulum_ppo pendulum_sac cartpole_hidden_ppo_gru mountain_car_continuous_sac"""

import json
import os
import re
import sys

from machine import ROOT

WIDTH, HEIGHT, LEFT, TOP, GAP = 196, 130, 46, 30, 56
COLOURS = ["#1f77b4", "#d2691e", "#2e8b57", "#9467bd", "#b22222"]


def read(config):
    """{seed: [(env steps, return)]} of the runs with the settings of the file: the mean returns of evaluations."""
    path = os.path.join(ROOT, "bench/results/learning.jsonl")
    with open(path, encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    wanted = re.compile(rf"build/runner run configs/{config}\.yaml --seed (\d+)")
    return {run["seed"]: [(point["env_step"], point["return"]) for point in run["curve"]]
            for run in runs if wanted.fullmatch(run["command"]) and len(run["curve"]) > 1}


def stop_value(config):
    with open(os.path.join(ROOT, f"configs/{config}.yaml"), encoding="utf-8") as file:
        return float(re.search(r"stop_value: (-?[\d.]+)", file.read())[1])


def short(number):
    return f"{number / 1000:g}k" if abs(number) >= 1000 and number % 100 == 0 else f"{number:g}"


def panel(x0, config, runs):
    goal = stop_value(config)
    points = [point for run in runs.values() for point in run]
    right = max(step for step, _ in points)
    low, high = min(value for _, value in points), max([goal, *(value for _, value in points)])

    def at(step, value):
        return f"{x0 + WIDTH * step / right:.1f},{TOP + HEIGHT * (high - value) / (high - low):.1f}"

    yield f'<text x="{x0}" y="{TOP - 12}" class="title">{config}</text>'
    yield f'<path d="M{x0},{TOP} V{TOP + HEIGHT} H{x0 + WIDTH}" class="axis"/>'
    yield f'<path d="M{at(0, goal)} L{at(right, goal)}" class="goal"/>'
    for value in {low, goal}:
        yield f'<text x="{x0 - 5}" y="{at(0, value).split(",")[1]}" dy="4" text-anchor="end">{short(round(value))}</text>'
    yield f'<text x="{x0 + WIDTH}" y="{TOP + HEIGHT + 16}" text-anchor="end">{short(round(right, -2))} env steps</text>'
    for colour, run in zip(COLOURS, runs.values()):
        yield f'<path d="M{" L".join(at(*point) for point in run)}" stroke="{colour}" class="run"/>'


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    out, configs = sys.argv[1], sys.argv[2:]
    parts = [part for i, config in enumerate(configs)
             for part in panel(LEFT + i * (WIDTH + GAP), config, read(config))]
    style = ("text{font:11px sans-serif;fill:#333}.title{font-weight:bold}path{fill:none}.axis{stroke:#888}"
             ".goal{stroke:#555;stroke-dasharray:5 4}.run{stroke-width:1.4}")
    width, height = LEFT + len(configs) * (WIDTH + GAP) - GAP + 12, TOP + HEIGHT + 28
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
                   f'<style>{style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts)
                   + "\n</svg>\n")
    return 0


sys.exit(main())
