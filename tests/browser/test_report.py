#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports in a real browser: no error, no request to anywhere, what should be there is there, and answers
to the pointer. HD_SHOTS=DIR keeps pictures of what it saw."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from browser import Browser, find  # noqa: E402
from runner import CONFIG, RUNNER, Scratch, call, check, sets, skip, train, write_run  # noqa: E402

# What ends a script, starts one, and would be an entity.
NAME = "</script><script>document.title='owned'</script>&lt;<!--<b>"
SECTIONS = ["learning", "throughput", "graph", "timeline", "times", "memory", "run"]
SHORT = {"env__stop_value": "1e9", "max_train_iter": 300}
TRACED = {**SHORT, "max_train_iter": 3000}


def shoot(browser, name):
    if "HD_SHOTS" in os.environ:
        os.makedirs(os.environ["HD_SHOTS"], exist_ok=True)
        browser.screenshot(os.path.join(os.environ["HD_SHOTS"], name + ".png"))


def no_problems(browser, where):
    check(not browser.problems, f"{where}: {browser.problems}")


def colours_in(browser, canvas):
    """How many different colours a canvas shows."""
    return browser.evaluate(f"""(() => {{ const c = document.querySelector("{canvas}");
        const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(pixels).size; }})()""")


def check_content(browser):
    check(browser.evaluate("document.title") == NAME, "the name is not shown as it is")
    check(browser.evaluate("document.querySelector('h1').textContent") == NAME, "nor in the heading")
    check(browser.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)") == SECTIONS,
          "sections")
    check(browser.evaluate("document.querySelectorAll('.figure').length") == 7, "figures")
    lines = browser.evaluate("[...document.querySelectorAll('path.line')].map((p) => p.getAttribute('d'))")
    # returns of two kinds, four of the learner, two rates, two shares, memory
    check(len(lines) == 11 and all(len(line) > 8 and "NaN" not in line for line in lines),
          f"{len(lines)} lines: {lines}")
    steps = browser.evaluate("[...document.querySelectorAll('#times tbody td:first-child')].map((e) => e.textContent)")
    check({"loss_grad", "adam", "collect", "mean(grad)", "Waiting for other ranks"} <= set(steps), f"{steps}")
    rows = browser.evaluate("[...document.querySelectorAll('#graph .row')].map((row) => [row.querySelector('title').textContent, "
                            "row.querySelectorAll('circle[r=\"5\"]').length])")
    plan = call("graph", CONFIG, "--ranks", "2", *sets(**TRACED)).stdout
    lines = [line.strip() for line in re.search(r"^iteration\n((?: .*\n)+)", plan, re.M)[1].splitlines()]
    check([title for title, _ in rows] == lines, f"the graph's rows: {rows}")
    marks = {title.split(" ")[0]: n for title, n in rows}
    check(marks["collect"] == 6 and marks["adam"] == 3 and marks["repeat"] == 0, f"marks of the graph: {marks}")
    values = browser.evaluate("[...document.querySelectorAll('#memory tbody td:first-child')].map((e) => e.textContent)")
    check(values[0] == "replay" and "policy" in values, f"memory: {values}")
    run = browser.evaluate("document.getElementById('run').textContent")
    for word in ("param_hash", "limit", "StarPU", "subnormals=", "Processor", "update_per_collect: 5"):
        check(word in run, f"the run does not tell {word}")


def check_pointer(browser):
    def tip():
        return browser.evaluate("(() => { const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent; })()")

    browser.hover("#learning svg", 0.5, 0.4)
    check("env step" in tip() and "training episodes" in tip(), f"tip of a curve: {tip()!r}")
    marks = "[...document.querySelectorAll('#learning svg text')].map((t) => t.textContent).join()"
    before = browser.evaluate(marks)
    browser.drag("#learning svg", (0.3, 0.5), (0.6, 0.5))
    check(browser.evaluate(marks) != before, "a drag does not zoom")
    place = browser.place("#learning svg", 0.5, 0.5)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            browser.mouse(kind, place, button="left", buttons=1, clickCount=count)
    check(browser.evaluate(marks) == before, "a double click does not go back")
    browser.click("#learning .segments button:nth-child(3)")
    check(" s" in browser.evaluate(marks), "the axis of time has no seconds")
    browser.click("#learning .legend button")
    check(browser.evaluate("document.querySelectorAll('#learning svg')[0].querySelectorAll('path.line').length") == 1,
          "a click on a name does not hide its line")

    check(colours_in(browser, "canvas.lanes") > 5, "the timeline is empty")
    picture = "document.querySelector('canvas.lanes').toDataURL()"
    whole = browser.evaluate(picture)
    browser.click("#timeline .segments button:nth-child(2)")
    zoomed = browser.evaluate(picture)
    check(zoomed != whole, "the timeline does not zoom")
    browser.drag("canvas.lanes", (0.6, 0.5), (0.4, 0.5))
    check(browser.evaluate(picture) != zoomed, "the timeline does not move")
    for _ in range(6):
        browser.click("#timeline .segments button:nth-child(2)")
    tips = {}
    for row in (0.1, 0.3, 0.5):
        for step in range(40):
            place = (0.2 + step / 60, row)
            browser.hover("canvas.lanes", *place)
            tips[place] = tip()
    found = [place for place, text in tips.items() if "waited for" in text and "then came" in text]
    check(found and all("iteration" in tips[place] and "took" in tips[place] for place in found), f"tips: {tips}")
    plain = browser.evaluate(picture)
    browser.drag("canvas.lanes", found[0], found[0])
    check(browser.evaluate(picture) != plain, "a click on a task shows no arrows")
    shoot(browser, "arrows")
    bounds = browser.evaluate("[...document.querySelectorAll('#timeline tbody td:first-child')].map((e) => e.textContent)")
    check(len(bounds) == 2 and sum(", which binds" in name for name in bounds) == 1, f"bounds: {bounds}")
    browser.hover("h1")
    check(tip() == "", "the tip stays")


def check_colours(browser, page):
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    light = browser.evaluate(ground)
    shoot(browser, "light")
    browser.open(page, dark=True)
    dark = browser.evaluate(ground)
    check(light != dark, "dark is not dark")
    shoot(browser, "dark")
    browser.click("#theme")
    check(browser.evaluate(ground) == light, "the button does not change colours")
    for width in (360, 700, 1100, 1800):
        browser.open(page, width=width)
        shoot(browser, f"wide{width}")
        check(browser.evaluate("document.documentElement.scrollWidth") <= width, f"wider than {width}")


def check_report(browser, scratch):
    # long enough for several samples of rates: four a second at first
    train(scratch("traced"), "--trace", ranks=2, exp_name=NAME, **TRACED)
    page = scratch("traced/report.html")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    check("</script><script>document" not in text, "a name ends the page's script")
    check(text.count("<script") == 2 and "http://" not in text.replace("http://www.w3.org/2000/svg", "")
          and "https://" not in text, "the page refers to something outside")
    browser.open(page)
    no_problems(browser, "report")
    check_content(browser)
    check_pointer(browser)
    check_colours(browser, page)
    no_problems(browser, "report, used")


def check_trace_alone(browser, scratch):
    call("report", scratch("traced/trace.json"), "--out", scratch("trace.html"))
    browser.open(scratch("trace.html"))
    check(browser.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)") == ["timeline", "times"],
          "sections of a trace alone")
    check(colours_in(browser, "canvas.lanes") > 5, "the timeline of a trace alone is empty")
    shoot(browser, "trace")
    no_problems(browser, "a trace alone")


def check_others(browser, scratch):
    train(scratch("plain"), **SHORT)
    train(scratch("other"), "--seed", "4", **SHORT)
    browser.open(scratch("plain/report.html"))
    check("--trace" in browser.evaluate("document.getElementById('timeline').textContent"), "how to get a timeline")
    check(browser.evaluate("document.querySelectorAll('#times tbody tr').length") > 8, "totals by verb")
    os.remove(scratch("plain/log/metrics.jsonl"))
    os.remove(scratch("plain/result.json"))
    call("report", scratch("plain"), "--out", scratch("less.html"))
    browser.open(scratch("less.html"))
    check(browser.evaluate("document.querySelectorAll('path.line').length") >= 6, "curves of an older run")
    no_problems(browser, "untraced run")
    call("compare", scratch("traced"), scratch("plain"), scratch("other"), "--out", scratch("all.html"))
    browser.open(scratch("all.html"))
    shoot(browser, "compare")
    check(browser.evaluate("document.querySelectorAll('#outcomes tbody tr').length") == 3, "rows of runs")
    check(browser.evaluate("document.querySelectorAll('#learning svg')[0].querySelectorAll('path.line').length") == 3,
          "a line for each run")
    check("exp_name" not in browser.evaluate("document.getElementById('differences').textContent"), "a name differs")
    no_problems(browser, "comparison")


PATHS = "[...document.querySelectorAll('{}')].map((p) => p.getAttribute('d'))"


def check_view(browser, scratch):
    """Smoothing, the logarithmic axis, and the table of all numbers."""
    browser.open(scratch("traced/report.html"))
    lines, button = PATHS.format("#learning path.line"), "#learning .segments:nth-of-type({}) button:nth-child({})"
    rough = browser.evaluate(lines)
    browser.click(button.format(2, 3))
    smooth = browser.evaluate(lines)
    check(len(smooth) == len(rough) and all(a != b for a, b in zip(rough[2:4], smooth[2:4])), "smoothing changes nothing")
    check(rough[2] in browser.evaluate(PATHS.format("#learning path")), "the values themselves have gone")
    browser.click(button.format(2, 1))
    check(browser.evaluate(lines) == rough, "smoothing stays")
    browser.click(button.format(3, 2))
    logarithmic = browser.evaluate(lines)
    check(all("NaN" not in line and "Infinity" not in line for line in logarithmic) and logarithmic[0] != rough[0],
          f"log axis: {logarithmic}")
    check("[1,10,100,1000]" == browser.evaluate("JSON.stringify(logTicks(0, 3.1, 5))") and
          "[0.5,1,2,5]" == browser.evaluate("JSON.stringify(logTicks(-0.5, 0.9, 5))"), "ticks of a log axis")
    check(browser.evaluate("JSON.stringify(smoothed([[0, 2, null], [1, null, 5], [2, 8, 4]], 0.5))") ==
          "[[0,2,null],[1,null,5],[2,6,2.6666666666666665]]", "moving averages")
    rows = browser.evaluate("csvOf(JSON.parse(byId('data').textContent).runs)").splitlines()
    check(rows[0] == "run,component,update,env_step,seconds,name,value" and len(rows) > 100 and
          any(',evaluator,0,' in row and ',"eval_episode_return_mean",' in row for row in rows), rows[:3])
    browser.click("#learning .csv")
    no_problems(browser, "views")


def check_short(browser, scratch):
    train(scratch("short"), max_train_iter=16, env__stop_value=5000)
    browser.open(scratch("short/report.html"))
    shoot(browser, "short")
    lines = browser.evaluate(PATHS.format("path.line"))
    check(lines and all("L" in line for line in lines), f"charts of one dot: {lines}")
    check("↑ goal 5,000" in browser.evaluate("document.querySelector('#learning svg').textContent"), "a goal out of sight")
    run = browser.evaluate("document.getElementById('run').textContent")
    check(run.count(" UTC") == 2 and "runner run" in run, f"dates and command: {run}")
    no_problems(browser, "short run")


def check_groups(browser, scratch):
    """Two groups of runs that have trained, and more of runs that are made up."""
    dirs = [scratch(name) for name in ("traced", "plain", "other")]
    call("compare", *dirs, "--group-by", "env.stop_value", "--out", scratch("one.html"))
    browser.open(scratch("one.html"))
    check(browser.evaluate("document.querySelectorAll('#learning svg')[0].querySelectorAll('path.line').length") == 1,
          "one line for a group")
    for group in range(12):
        for seed in range(3):
            write_run(scratch(f"g{group}s{seed}"), {"seed": seed, "rate": group, "size": max(group, 10)},
                      last_value=group * 3 + seed, best_value=40, param_hash=f"{group}{seed // 2}")
            dirs.append(scratch(f"g{group}s{seed}"))
    write_run(scratch("killed"), {"seed": 0, "rate": 5})
    call("compare", *dirs, scratch("killed"), "--group-by", "rate", "--out", scratch("groups.html"))
    for width, dark in ((1200, False), (1200, True), (390, False)):
        browser.open(scratch("groups.html"), width=width, dark=dark)
        shoot(browser, f"groups{width}{'dark' if dark else ''}")
        check(browser.evaluate("document.documentElement.scrollWidth") <= width, f"groups are wider than {width}")
        colours = browser.evaluate("[...Array(12).keys()].map((i) => styleOf(`--c${i}`))")
        check(len(set(colours)) == 12 and all(colours), f"colours repeat: {colours}")
    check(browser.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)") ==
          ["differences", "groups", "profiles", "learning", "throughput", "outcomes"], "sections of groups")
    check(browser.evaluate("document.querySelectorAll('.legend:not([hidden])').length") == 1, "a legend in each chart")
    check(browser.evaluate("document.querySelectorAll('#groups tbody tr').length") == 13, "rows of groups")
    check(browser.evaluate("document.querySelectorAll('#outcomes tbody tr').length") == 13 + len(dirs) + 1, "rows of runs")
    groups = browser.evaluate("document.getElementById('groups').textContent")
    for words in ("killed is left out: it has not ended", "g3s1 ended in the parameters of g3s0", "no repeats", "[3, 5]",
                  "2,000 draws"):
        check(words in groups, f"groups do not tell {words}: {groups}")
    check("10 or –" in browser.evaluate("document.getElementById('differences').textContent"), "values of one group")
    lines = "[...document.querySelectorAll('section')].map((s) => s.querySelectorAll('path.line').length)"
    before = browser.evaluate(lines)
    check(before[2] == 13, f"profiles: {before}")
    browser.click(".legend button:nth-child(1)")
    after = browser.evaluate(lines)
    check(after[2] == 12 and after[3] < before[3] and after[4] < before[4], f"a name hides: {before}, {after}")
    mean = browser.evaluate("JSON.stringify([meanOf([[[0, 1], [10, 3]], [[4, 7], [5, 7]]])].map((m) => [m[0], m[119]]))")
    # (1.8 + 7) / 2 at 4; at 10 the second line still counts; bands of 1.96 * |difference| / 2
    low, high = ((4.4 - 1.96 * 2.6, 4.4 + 1.96 * 2.6), (5 - 1.96 * 2, 5 + 1.96 * 2))
    found = json.loads(mean)[0]
    expected = [[4, 4.4, *low], [10, 5, *high]]
    check(all(abs(a - b) < 1e-9 for p, q in zip(found, expected) for a, b in zip(p, q)), f"mean of lines: {mean}")
    no_problems(browser, "groups")


def check_simulation(browser, scratch):
    if not os.path.exists(os.path.join(os.path.dirname(RUNNER), "plugins", "heddle_simgrid.so")):
        print("no page of simulations: built without SimGrid (libsimgrid-dev)")
        return
    arguments = ("--strategies", "serial,bucketed")
    call("calibrate", CONFIG, *arguments, "--quiet", "--out", scratch("calibration.json"))
    call("simulate", CONFIG, *arguments, "--calibration", scratch("calibration.json"), "--nodes", "4",
         "--page", scratch("simulation.html"))
    browser.open(scratch("simulation.html"))
    shoot(browser, "simulation")
    check(browser.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)") ==
          ["rates", "path", "results", "from"], "sections of a simulation")
    lines = "[...document.querySelectorAll('#{} path.line')].map((p) => p.getAttribute('d'))"
    rates = browser.evaluate(lines.format("rates"))
    check(len(rates) == 8 and all("NaN" not in line and line.count("L") == 2 for line in rates), f"{rates}")
    path = lines.format("path")
    before = browser.evaluate(path)
    check(len(before) >= 3, f"names of the critical path: {before}")
    browser.click("#path .segments button:nth-child(2)")
    check(browser.evaluate(path) != before, "the other strategy has the same path")
    check(browser.evaluate("document.querySelectorAll('#results tbody tr').length") == 6, "results")
    source = browser.evaluate("document.getElementById('from').textContent")
    for word in ("cartpole_dqn_ddp.yaml", "10Gbit,20us", "runs of 200 updates", "Not simulated"):
        check(word in source, f"the page does not tell {word}")
    no_problems(browser, "simulation")


def main():
    path = find()
    if not path:
        skip("no browser; scripts/packages tests/browser/packages.txt installs one")
    with Scratch() as scratch, Browser(path) as browser:
        check_report(browser, scratch)
        check_trace_alone(browser, scratch)
        check_others(browser, scratch)
        check_view(browser, scratch)
        check_short(browser, scratch)
        check_groups(browser, scratch)
        check_simulation(browser, scratch)
        print(browser.call("Browser.getVersion")["product"])


main()
