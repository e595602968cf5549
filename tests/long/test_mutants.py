#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the program's own code: mutants.json has lines of C that are each changed once (test_mutations.py
changes inputs, not code). One mutant at a time is planted in a copy of the tree; the tests of its folder run, and where
none fails, the quick suite without the checks of sources. The test fails when fewer mutants are found than mutants.json
records.

test_mutants.py [--tree DIR] [--results FILE] [--only REGEX] [--record]
  --tree     the checkout to judge (this one); only a copy of it is changed
  --results  a file with a line for each finished mutant; a campaign that was stopped goes on from it
  --only     mutants of files that match
  --record   writes the number that was found to mutants.json
test_mutants.py --draw SEED [--tree DIR]
  writes a new mutants.json, without that number. Code that is not run without a GPU, or for AMX where that cannot be
  emulated, is left out, and so are mutants that do not compile or have the object code of the original."""

import argparse
import collections
import glob
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, environment  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants.json")
AREAS = {"kernels": (8, r"kernels/(?!envs/(?:gymnasium|atari)/)"),
         "engine": (8, r"runtime/engine/|graph/(?:plan|execute)/|runtime/comm/comm_(?:shm|segment)\.c"),
         "tasks": (7, r"tasks/"),
         "runner": (7, r"(?:graph/)?runner/")}
FOR_GPUS = re.compile(r"cuda|gpu|nccl")
TRIES = 20  # mutants drawn of a file before another file is taken
CONTEXT = 4  # lines kept before and after the changed one
JOBS = "-j2"
SECONDS = 300  # for a test; one that hangs has found its mutant
MEMORY = 8 << 30  # bytes of a process: a mutant may want more than there is

# -- The code of a C file ------------------------------------------------------------------------------

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
GPU_CODE = re.compile(r"^#if HD_CUDA.*?^#(?:else|endif)", re.S | re.M)
MESSAGE = re.compile(r"\b(?:hd_log|hd_log_show_\w+|hd_diag_\w+|(?:\w+_)?(?:fail|refuse|reject)|\w*printf|perror|_Static_assert|assert)\(")


def blank(text, start, end):
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def find_closing(code, start):
    """The place behind the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(code)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place + 1
    return len(code)


def mask(text):
    """The text with blanks for all but code in bodies of functions, at the same places. Messages are no code."""
    for pattern in (GPU_CODE, NO_CODE):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in MESSAGE.finditer(text):
        text = blank(text, found.start(), find_closing(text, found.end() - 1))
    kept, place = 0, 0
    while (start := text.find("{", place)) >= 0:
        place = find_closing(text, start)
        if text[:start].rstrip().endswith(")"):
            text = blank(text, kept, start + 1)
            kept = place - 1
    return blank(text, kept, len(text))


# -- Operators: each yields (start, end, replacements) in a line -------------------------------------

RELATIONS = ("<", "<=", ">", ">=", "==", "!=")
ARITHMETIC = {"+": "-*", "-": "+*", "*": "/+", "/": "*-", "%": "/*"}
NOTHING = ("0", "HD_OK", "false", "NULL")


def replace_relation(code, _):
    for found in re.finditer(r"(?<= )(?:[<>=!]=|[<>])(?= |$)", code):
        yield found.start(), found.end(), [other for other in RELATIONS if other != found[0]]


def replace_arithmetic(code, _):
    for found in re.finditer(r"(?<=[\w)\]] )[-+*/%](?==? |=?$)", code):
        yield found.start(), found.end(), list(ARITHMETIC[found[0]])
    for found in re.finditer(r"\+\+|--", code):
        yield found.start(), found.end(), ["--" if found[0] == "++" else "++"]


def swap_logical(code, _):
    for found in re.finditer(r"&&|\|\|", code):
        yield found.start(), found.end(), ["||" if found[0] == "&&" else "&&"]


def change_constant(code, _):
    for found in re.finditer(r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)[uUlLfF]*(?![\w.])", code):
        yield found.start(), found.end(), [f"({found[0]} + 1)", f"({found[0]} - 1)"]


def negate_condition(code, _):
    for found in re.finditer(r"\b(?:if|while) (?=\()", code):
        end = find_closing(code, found.end())
        if code[end - 1:end] == ")" and code[found.end() + 1:end - 1].strip():
            yield found.end(), end, [f"(!{code[found.end():end]})"]


def delete_statement(code, before):
    start = len(code) - len(code.lstrip())
    if re.match(r"[\w*(+-].*;$", code[start:]) and code.count("(") == code.count(")") and re.search(r"(?:[;{}:)]|else)$", before):
        yield start, len(code), [";"]


def change_return(code, _):
    for found in re.finditer(r"\breturn ([^;]*[^; ]);", code):
        value = found[1].strip()
        yield found.start(1), found.end(1), ["1", "-1"] if value in NOTHING else ["0", f"({value}) + 1"]


OPERATORS = (replace_relation, replace_arithmetic, swap_logical, change_constant, negate_condition, delete_statement, change_return)


def list_mutants(text):
    """{operator: [(line, its mutated text)]} of a file; lines count from 0."""
    lines, found, before = text.split("\n"), collections.defaultdict(list), ""
    for number, code in enumerate(mask(text).split("\n")):
        code = code.rstrip()
        if not code:
            continue
        for operator in OPERATORS:
            for start, end, replacements in operator(code, before):
                if code[start:end] == lines[number][start:end]:
                    found[operator.__name__] += [(number, lines[number][:start] + other + lines[number][end:]) for other in replacements]
        before = code
    return found


# -- Where a mutant is, though lines and files have moved since the draw -----------------------------

def count_like(lines, number, mutant):
    """How many of the mutant's lines around the changed one are around this one; None where it is another line."""
    at, kept = mutant["at"], [line.strip() for line in mutant["lines"]]
    if lines[number].strip() != kept[at]:
        return None
    there = {offset: lines[number + offset].strip() for offset in range(-at, len(kept) - at) if 0 <= number + offset < len(lines)}
    return sum(there.get(place - at) == line for place, line in enumerate(kept) if place != at and len(line) > 2)


def find_place(sources, mutant):
    """(path, line) of the mutant in {path: text}, looked for in its own file, in files of its name, and in all; None where
    half of the lines around it are gone."""
    around = sum(len(line.strip()) > 2 for place, line in enumerate(mutant["lines"]) if place != mutant["at"])
    for is_near in (lambda path: path == mutant["file"],
                    lambda path: os.path.basename(path) == os.path.basename(mutant["file"]),
                    lambda path: True):
        places = []
        for path, text in sources.items():
            lines = text.split("\n") if is_near(path) else []
            places += [(like, path, number) for number in range(len(lines)) if (like := count_like(lines, number, mutant)) is not None]
        places.sort(reverse=True)
        if places and 2 * places[0][0] >= around and [place[0] for place in places].count(places[0][0]) == 1:
            return places[0][1:]
    return None


# -- A copy of the tree -----------------------------------------------------------------------------

def limit():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


class Copy:
    def __init__(self, tree, scratch):
        self.path, self.build, self.temporary = scratch("tree"), scratch("tree/build"), scratch("tmp")
        shutil.copytree(tree, self.path, symlinks=True, ignore=lambda folder, names: [
            name for name in names if folder == tree and name.startswith(("build", ".venv"))])
        os.mkdir(self.build)
        for made in ("starpu", "venv", "plugins"):  # by scripts of the project, where they ran
            if os.path.isdir(os.path.join(tree, "build", made)):
                shutil.copytree(os.path.join(tree, "build", made), os.path.join(self.build, made), symlinks=True)
        self.call("cmake", "--preset", "release")
        self.sources = {}
        for path in glob.glob(self.path + "/*/**/*.c", recursive=True):
            name = os.path.relpath(path, self.path)
            if not name.startswith(("build/", "tests/")):
                with open(path, encoding="utf-8") as file:
                    self.sources[name] = file.read()

    def run(self, *command):
        kept = {name: value for name, value in environment(TMPDIR=self.temporary).items() if not name.startswith("HD_")}
        os.makedirs(self.temporary, exist_ok=True)
        return subprocess.run(command, cwd=self.build if command[0] != "cmake" else self.path, env=kept, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=limit, check=False)

    def call(self, *command):
        done = self.run(*command)
        check(done.returncode == 0, f"{' '.join(command)[:200]}\n{done.stdout[-3000:]}")
        return done.stdout

    def compile(self, *targets):
        return self.run("ninja", JOBS, *targets).returncode == 0

    def write(self, path, text):
        with open(os.path.join(self.path, path), "w", encoding="utf-8") as file:
            file.write(text)

    def plant(self, place, mutated):
        path, number = place
        lines = self.sources[path].split("\n")
        lines[number] = mutated
        self.write(path, "\n".join(lines))

    def restore(self, place):
        self.write(place[0], self.sources[place[0]])

    def limit_tests(self):
        """Gives the guard of every test less time. ctest's --timeout does not count where a test has its own."""
        count = 0
        for path in glob.glob(self.build + "/**/CTestTestfile.cmake", recursive=True):
            with open(path, encoding="utf-8") as file:
                text, found = re.subn(r'(/guard" )"(\d+)"', lambda limits: f'{limits[1]}"{min(int(limits[2]), SECONDS)}"', file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            count += found
        check(count > 0, "no test runs under a guard")

    def list_tests(self, *selection):
        """{name: the files of the build folder that it names}."""
        listed, known = json.loads(self.call("ctest", "--show-only=json-v1", *selection)), self.list_targets()
        words = {test["name"]: [*test["command"], *(value.rpartition("=")[2] for entry in test["properties"]
                                                    if entry["name"] in ("ENVIRONMENT", "REQUIRED_FILES")
                                                    for value in entry["value"] if "EMULATED" not in value)]
                 for test in listed["tests"]}
        return {name: {os.path.relpath(word, self.build) for word in named if word.startswith(self.build + "/")} & known
                for name, named in words.items()}

    def list_targets(self):
        return {line.partition(":")[0] for line in self.call("ninja", "-t", "targets", "all").split("\n")}

    def find_failing(self, *selection):
        """Builds what the tests need and runs them up to the first that fails: (its name, its last line), or None."""
        targets = set().union(*self.list_tests(*selection).values())
        if targets and not self.compile(*targets):
            return None, "does not build"
        report = os.path.join(self.temporary, "tests.xml")
        done = self.run("ctest", JOBS, "--stop-on-failure", "--output-junit", report, *selection)
        failed = [(case.get("name"), case.findtext("system-out", "").strip().rpartition("\n")[2][:200])
                  for case in xml.etree.ElementTree.parse(report).iter("testcase") if case.get("status") == "fail"]
        check(bool(failed) == (done.returncode != 0), done.stdout[-3000:])
        shutil.rmtree(self.temporary)
        return failed[0] if failed else None

    def find_folder(self, path):
        """The folder of a source, or the next above it, that has tests; "" without any."""
        folder = os.path.dirname(path)
        while folder and not self.list_tests(*select(folder)):
            folder = os.path.dirname(folder)
        return folder


def select(*folders):
    """ctest's options for the tests of these folders. (More than some thirty pairs of brackets it does not read.)"""
    return "-R", f"^({'|'.join(folders)})(/|$)"


QUICK = ("-L", "^quick$", "-E", "^lint/")

# -- The draw ---------------------------------------------------------------------------------------


def list_objects(copy):
    """{source: its object}, of what the program is linked from; for AMX, of what its emulation is."""
    with open(os.path.join(copy.build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in sorted(entries, key=lambda entry: ("heddle-infer" in entry["command"]) - ("amx_emulated" in entry["command"])):
        output = re.search(r" -o (\S+)", entry["command"])[1]
        found.setdefault(os.path.relpath(entry["file"], copy.path), output)
    return found


def read_code(copy, built):
    """The object's code and data without its lines; None where it does not compile."""
    if not copy.compile(built):
        return None
    stripped = os.path.join(copy.build, "stripped.o")
    copy.call("objcopy", "--strip-debug", built, stripped)
    with open(stripped, "rb") as file:
        return file.read()


def draw_of_file(copy, path, built, draw):
    """A mutant of the file, or None."""
    mutants, original = list_mutants(copy.sources[path]), read_code(copy, built)
    lines = copy.sources[path].split("\n")
    for _ in range(TRIES if mutants and original else 0):
        operator = draw.choice(sorted(mutants))
        number, mutated = draw.choice(mutants[operator])
        first = max(number - CONTEXT, 0)
        mutant = dict(file=path, operator=operator, lines=lines[first:number + CONTEXT + 1], at=number - first, mutated=mutated)
        if find_place(copy.sources, mutant) != (path, number):
            continue
        copy.plant((path, number), mutated)
        code = read_code(copy, built)
        copy.restore((path, number))
        if code and code != original:
            return mutant
    return None


def draw_mutants(copy, seed):
    objects, drawn = list_objects(copy), []
    left_out = FOR_GPUS if any("amx_emulated" in built for built in objects.values()) else re.compile(FOR_GPUS.pattern + "|amx")
    for area, (count, pattern) in AREAS.items():
        draw = random.Random(f"{seed} {area}")
        paths = sorted(path for path in objects if path in copy.sources and re.match(pattern, path) and not left_out.search(path))
        found = []
        for path in draw.sample(paths, len(paths)):
            if len(found) < count and (mutant := draw_of_file(copy, path, objects[path], draw)):
                found.append(mutant)
                print(f"{path}: {mutant['operator']}: {mutant['mutated'].strip()}", flush=True)
        check(len(found) == count, f"{area}: {len(found)} mutants, not {count}")
        drawn += found
    return drawn


# -- The campaign -------------------------------------------------------------------------------------

def judge(copy, mutant):
    """What finds the mutant: {by, test, why}."""
    place = find_place(copy.sources, mutant)
    if not place:
        return dict(by="gone", test=None, why="its line is no longer there: draw mutants anew")
    folder = copy.find_folder(place[0])
    copy.plant(place, mutant["mutated"])
    try:
        for by, selection in (("folder", select(folder)), ("quick", QUICK)):
            if (folder or by == "quick") and (failing := copy.find_failing(*selection)):
                return dict(by=by if failing[0] else "gone", test=failing[0], why=failing[1])
    finally:
        copy.restore(place)
    return dict(by="survived", test=None, why=None)


def check_unchanged(copy, mutants):
    """The tests have to pass without a mutant, or they find nothing."""
    places = filter(None, (find_place(copy.sources, mutant) for mutant in mutants))
    folders = sorted({copy.find_folder(path) for path, _ in places} - {""})
    for selection in (select(*folders), QUICK) if mutants else ():
        failing = copy.find_failing(*selection)
        check(not failing, f"without any mutant: {failing}")


def read_results(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    return {(result["file"], result["mutated"]): result for result in results}


def run_campaign(copy, mutants, path):
    results = read_results(path)
    left = [mutant for mutant in mutants if (mutant["file"], mutant["mutated"]) not in results]
    check_unchanged(copy, left)
    for mutant in left:
        start = time.monotonic()
        result = {name: mutant[name] for name in ("file", "operator", "mutated")}
        result.update(judge(copy, mutant), seconds=round(time.monotonic() - start))
        results[mutant["file"], mutant["mutated"]] = result
        print(json.dumps(result), flush=True)
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
    return [results[mutant["file"], mutant["mutated"]] for mutant in mutants]


def print_table(results):
    for result in results:
        print(f"{result['by']:9}{result['file']:45}{result['operator']:20}{result['test'] or '-'} {result['why'] or ''}")
    print(", ".join(f"{count} {by}" for by, count in sorted(collections.Counter(result["by"] for result in results).items())))


def write_data(seed, found, mutants):
    lines = ",\n".join(json.dumps(mutant, ensure_ascii=False) for mutant in mutants)
    with open(DATA, "w", encoding="utf-8") as file:
        file.write(f'{{"seed": {seed}, "found": {json.dumps(found)}, "mutants": [\n{lines}\n]}}\n')


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tree", default=ROOT, type=os.path.abspath)
    parser.add_argument("--results", type=os.path.abspath)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--draw", type=int, metavar="SEED")
    return parser.parse_args()


def main():
    options = parse()
    with Scratch() as scratch:
        copy = Copy(options.tree, scratch)
        if options.draw is not None:
            write_data(options.draw, None, draw_mutants(copy, options.draw))
            return
        with open(DATA, encoding="utf-8") as file:
            data = json.load(file)
        copy.limit_tests()
        results = run_campaign(copy, [mutant for mutant in data["mutants"] if re.search(options.only, mutant["file"])], options.results)
    print_table(results)
    found = sum(result["by"] in ("folder", "quick") for result in results)
    if options.record and not options.only:
        write_data(data["seed"], found, data["mutants"])
    elif not options.only:
        check(data["found"] is not None, "mutants.json records no number yet (--record)")
        check(found >= data["found"], f"{found} of {len(results)} mutants found, not {data['found']}")


if __name__ == "__main__":
    main()
