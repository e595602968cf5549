# SPDX-License-Identifier: Apache-2.0
"""pages.py FOLDER: makes the folder from which the site is built: links to the documents and to all files that they link
to, at the places that they have in the tree, and pages of what the program says of its commands, keys and verbs."""

import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md", "bench/results", "docs")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
FREE = "anything"


def run(*arguments):
    return subprocess.run([os.path.join(ROOT, "build/runner"), *arguments], text=True, capture_output=True, check=True).stdout


def list_documents():
    for name in DOCUMENTS:
        path = os.path.join(ROOT, name)
        if name.endswith(".md"):
            yield name
        for folder, _, names in os.walk(path):
            yield from (os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith(".md"))


def list_linked(document):
    """The files that a document links to."""
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        for target in LINK.findall(file.read()):
            path = os.path.normpath(os.path.join(os.path.dirname(document), target))
            if os.path.isfile(os.path.join(ROOT, path)):
                yield path


def write(folder, name, text):
    path = os.path.join(folder, "reference", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_number(value):
    """Whole numbers are written out, but for those that stand for no limit."""
    return str(value) if isinstance(value, int) and value <= 2**53 else f"{value:g}"


def describe(schema):
    """What values a key takes."""
    if "anyOf" in schema:
        return " or ".join(filter(None, map(describe, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(word) if isinstance(word, bool) else word}`" for word in schema["enum"])
    kind = schema.get("type", FREE)
    if kind == "array":
        return "a list of these"
    if kind == ["object", "null"] or kind == "object":
        return "a map"
    if isinstance(kind, list):
        return "a text"
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{kind} in&nbsp;[{write_number(low)},&nbsp;{write_number(high)}]" if low is not None else kind


def list_keys(schema, path=""):
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from list_keys(inner, f"{path}{name}.")
        else:
            yield path, name, inner


def write_keys(folder):
    schema = json.loads(run("keys", "--json-schema"))
    sections = {}
    for path, name, inner in list_keys(schema):
        given = inner.get("default", "(required)")
        given = given if given and isinstance(given, str) else f"`{json.dumps(given)}`"
        row = [f"`{name}`", given, inner["description"], describe(inner)]
        sections.setdefault(path.rstrip("."), []).append("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |\n")
    parts = ["# Keys\n\nThe keys of run files, as `runner keys` prints them. [Configuration](../docs/configuration.md) tells "
             "more of them.\n"]
    for path, rows in sorted(sections.items()):
        title = f"`{path}`" if path else "Top level"
        parts.append(f"\n## {title}\n\n| key | default | meaning | values |\n|---|---|---|---|\n{''.join(rows)}")
    write(folder, "keys.md", "".join(parts))


def write_verbs(folder):
    parts = ["# Verbs\n\nThe verbs of graphs, as `runner verbs` prints them.\n"]
    for verb in re.findall(r"^(\w+)\n((?:    .*\n)+)", run("verbs"), re.M):
        name, lines = verb[0], [line.strip() for line in verb[1].splitlines()]
        parts.append(f"\n## `{name}`\n\n{lines[0]}\n\n" + "".join(f"- {line}\n" for line in lines[1:]))
    write(folder, "verbs.md", "".join(parts))


def write_commands(folder):
    parts = [f"# Commands\n\n```\n{run('--help')}```\n"]
    for name in re.findall(r"^  ([\w-]+) +\S", run("--help").partition("commands:")[2], re.M):
        parts.append(f"\n## `runner {name}`\n\n```\n{run(name, '--help')}```\n")
    write(folder, "commands.md", "".join(parts))


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    documents = list(list_documents())
    places = {path: path for path in [*documents, *(linked for one in documents for linked in list_linked(one))]}
    for place, path in {**places, "assets/site.css": "docs/site/site.css"}.items():
        os.makedirs(os.path.dirname(os.path.join(folder, place)), exist_ok=True)
        os.symlink(os.path.join(ROOT, path), os.path.join(folder, place))
    write_keys(folder)
    write_verbs(folder)
    write_commands(folder)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
