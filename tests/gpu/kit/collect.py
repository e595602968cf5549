# SPDX-License-Identifier: Apache-2.0
"""collect.py OUT [--to FOLDER]: what a bundle's `run` has measured, as lines of bench/results/<gpu>.jsonl: of
each result the last one, with date, GPU and commit. OUT holds results*.tar.gz. What was not run on a GPU is
refused."""

import argparse
import glob
import json
import os
import re
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs import NO_GPU, NO_TIME, ROOT, SKIPPED  # noqa: E402

LEFT_OUT = (NO_GPU, NO_TIME, SKIPPED)
DROPPED = ("cases_passed", "places", "what")  # long, or said by other fields
HOME = os.path.dirname(os.path.dirname(ROOT))


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


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out")
    parser.add_argument("--to", default=os.path.join(HOME, "bench/results"))
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
