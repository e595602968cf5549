# SPDX-License-Identifier: Apache-2.0
"""collect.py OUT [--to FOLDER] [--page FILE]: what a bundle's `run` has measured, as lines of
bench/results/<gpu>.jsonl: of each result the last one, with date, GPU and commit; and the table of docs/performance.md
of all that these files have. OUT holds results*.tar.gz. What was not run on a GPU is refused."""

import argparse
import glob
import json
import os
import re
import statistics
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs import NO_GPU, NO_TIME, ROOT, SKIPPED  # noqa: E402

LEFT_OUT = (NO_GPU, NO_TIME, SKIPPED)
DROPPED = ("cases_passed", "places", "what")  # long, or said by other fields
HOME = os.path.dirname(os.path.dirname(ROOT))
BEGIN, END = "<!-- scripts/gpu-check record: begin -->\n", "<!-- end -->\n"
UPDATE = re.compile(r"peers/((?:ppo )?update) (\w+) (\w+), batch (\d+), 1 GPU/(\w+)[^,]*(, runs)?")
GAME = re.compile(r"games/(.+?)( seed \d+)?$")


def collect(lines):
    """{step: its last result}, each with where and when it was had."""
    found, where = {}, None
    for line in lines:
        if "machine" in line:
            where = {"gpu": line["machine"], "date": line["date"], "commit": line["commit"]}
            if line["emulated"]:
                where["gpu"] = None
        elif line["outcome"] not in LEFT_OUT and where and where["gpu"]:
            kept = {name: value for name, value in line.items() if name not in DROPPED}
            found[line["step"]] = {"case": kept.pop("step"), **kept, **where}
    return found


def read_packed(path):
    """The lines of an archive's results.jsonl."""
    with tarfile.open(path) as archive, archive.extractfile("results.jsonl") as file:
        return [json.loads(line) for line in file]


def read_measured(folder):
    """{(gpu, case): its last line}"""
    lines = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "gpu" in line and line.get("outcome") == "measured":
                    lines[line["gpu"], line["case"]] = line
    return lines


def list_updates(lines):
    """Rows of updates, beside the fastest of PyTorch's; ours are without StarPU."""
    theirs, ours = {}, {}
    for (gpu, case), line in lines.items():
        found = UPDATE.match(case)
        if not found or found[6]:
            continue
        key = (gpu, *found.groups()[:4])
        if found[5] == "Heddle":
            ours[key] = line
        elif key not in theirs or line["value"] < theirs[key]["value"]:
            theirs[key] = line
    for key, their in sorted(theirs.items()):
        gpu, what, net, precision, batch = key
        our = ours.get(key) or lines.get((gpu, f"kernels/{net} {batch} {precision}"))
        if our:
            yield (gpu, f"{what}, {net}, batch {batch}, ms", precision, f"{our['value']:.3g}", f"{their['value']:.3g}",
                   f"{their['value'] / our['value']:.2f}", our["commit"])


def list_games(lines):
    """Rows of run files that were trained until they were solved."""
    games = {}
    for (gpu, case), line in lines.items():
        if found := GAME.match(case):
            games.setdefault((gpu, found[1], line["commit"]), []).append(line["value"])
    for (gpu, name, commit), seconds in sorted(games.items()):
        yield (gpu, f"{name} until solved, s, {len(seconds)} run{'s' * (len(seconds) > 1)}", "", f"{statistics.median(seconds):.3g}", "", "", commit)


def write_table(page, lines):
    rows = [("GPU", "work", "precision", "Heddle", "PyTorch's best", "times faster", "commit"), ("---",) * 7,
            *list_updates(lines), *list_games(lines)]
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    with open(page, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + table + END + rest.split(END, 1)[1])
    print(f"{len(rows) - 2} rows in {os.path.relpath(page)}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out")
    parser.add_argument("--to", default=os.path.join(HOME, "bench/results"))
    parser.add_argument("--page", default=os.path.join(HOME, "docs/performance.md"))
    given = parser.parse_args()
    archives = sorted(glob.glob(os.path.join(given.out, "results*.tar.gz")), key=os.path.getmtime)
    if not archives:
        print(f"gpu-check: there is no results*.tar.gz in {given.out}", file=sys.stderr)
        return 2
    found = collect([line for path in archives for line in read_packed(path)])
    if not found:
        print(f"gpu-check: nothing in {given.out} was run on a GPU", file=sys.stderr)
        return 1
    by_gpu = {}
    for line in found.values():
        by_gpu.setdefault(line["gpu"], []).append(line)
    for gpu, lines in by_gpu.items():
        target = os.path.join(given.to, re.sub(r"\W+", "_", gpu).strip("_").lower() + ".jsonl")
        with open(target, "a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")
        print(f"{len(lines)} lines added to {os.path.relpath(target)}")
    write_table(given.page, read_measured(given.to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
