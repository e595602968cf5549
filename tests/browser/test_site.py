#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The site of the documents, by scripts/docs: links and headings that are not there are errors; pages ask no other host
for anything, draw their diagrams, and fit a phone; the reference has what the program has."""

import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import browser as driver  # noqa: E402
from runner import ROOT, Scratch, call, check, skip  # noqa: E402

VENV = os.path.join(ROOT, "build/docs/bin")
SITE = os.path.join(ROOT, "build/site")
DARK = "document.body.dataset.mdColorScheme === 'slate'"


def run(*command):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_mistakes(scratch):
    """The same site, elsewhere, with a page whose links lead nowhere."""
    run(f"{VENV}/python", "docs/site/pages.py", scratch("pages"))
    config = read(os.path.join(ROOT, "mkdocs.yml")).replace("docs/site/hooks.py", f"{ROOT}/docs/site/hooks.py")
    config = re.sub(r"^(docs|site)_dir: \S+", lambda line: f"{line[1]}_dir: {scratch('pages' if line[1] == 'docs' else 'site')}",
                    config, flags=re.M)
    for path, text in (("mkdocs.yml", config),
                       ("pages/page.md", "[a](docs/nosuch.md) [b](README.md#nosuch) ![c](docs/images/nosuch.png)\n")):
        with open(scratch(path), "w", encoding="utf-8") as file:
            file.write(text)
    code, said = run(f"{VENV}/mkdocs", "build", "--strict", "-f", scratch("mkdocs.yml"))
    found = [name for name in ("docs/nosuch.md", "#nosuch", "nosuch.png", "page.md") if name in said]
    check(code != 0 and len(found) == 4, f"exit code {code}, found {found}: {said}")


def open_page(browser, path, width, dark):
    browser.call("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url="file://" + path)
    browser.wait(f"location.href === 'file://{path}' && document.readyState === 'complete'")


def check_pages(browser):
    paths = sorted(glob.glob(os.path.join(SITE, "**/*.html"), recursive=True))
    paths.remove(os.path.join(SITE, "404.html"))  # which is for servers
    check(len(paths) > 25, f"{paths}")
    for number, path in enumerate(paths):
        open_page(browser, path, (390, 1280)[number % 2], dark=number % 3 == 0)
        diagrams = read(path).count('<pre class="mermaid">')
        # The theme puts what it has drawn in the place of the text.
        browser.wait(f"document.querySelectorAll('div.mermaid').length === {diagrams}")
        wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth")
        check(wide <= 0, f"{path} is {wide} pixels wider than the window")
        browser.wait(f"({DARK}) === {'true' if number % 3 == 0 else 'false'}")
        check(not browser.problems, f"{path}: {browser.problems}")


def check_reference(browser):
    asked = {"keys": re.findall(r"^([a-zA-Z][\w.]+): ", call("keys").stdout, re.M),
             "verbs": re.findall(r"^(\w+)$", call("verbs").stdout, re.M),
             "commands": re.findall(r"^  ([\w-]+) +\S", call("--help").stdout.partition("commands:")[2], re.M)}
    for name, expected in asked.items():
        open_page(browser, os.path.join(SITE, f"reference/{name}.html"), 1280, dark=False)
        text = browser.evaluate("document.querySelector('article').textContent")
        missing = [one for one in expected if one.split(".")[-1] not in text]
        check(len(expected) > 10 and not missing, f"{name} lack {missing}")


def main():
    path = driver.find()
    if path is None:
        skip("there is no browser (scripts/packages tests/browser/packages.txt)")
    if not os.path.exists(f"{VENV}/mkdocs"):
        skip("build/docs is missing; scripts/docs makes it")
    code, said = run("scripts/docs")
    check(code == 0, said)
    with Scratch() as scratch:
        check_mistakes(scratch)
    with driver.Browser(path) as browser:
        check_pages(browser)
        check_reference(browser)


main()
