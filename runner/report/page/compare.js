// SPDX-License-Identifier: Apache-2.0
// The page of several runs, and what starts a page.

// What tells runs apart: their directories, without what all of them begin with.
function namesOf(runs) {
    const dirs = runs.map((run) => run.dir.replace(/\/+$/, "").split("/"));
    while (dirs.every((parts) => parts.length > 1 && parts[0] === dirs[0][0]))
        dirs.forEach((parts) => parts.shift());
    return dirs.map((parts) => parts.join("/"));
}

// More lines than colours: the same ones again, dashed.
const dashOf = (i) => (i < COLOURS ? null : i < 2 * COLOURS ? "6 4" : "2 4");

// What has a line in each chart: a run, or the runs of a group, on a page of runs that go on all of
// them.
function linesOf(data, names) {
    const others = (group) => (data.live ? group.left_out.map(([run]) => run) : []);
    const lines = data.grouping ?
        data.grouping.groups.map(
            (group) => ({name: nameOf(group), runs: [...group.runs, ...others(group)]})) :
        names.map((name, i) => ({name, runs: [i]}));
    return lines.map((line, i) => ({...line, colour: colour(i), dash: dashOf(i)}));
}

// -- Curves --------------------------------------------------------------------------------------

function overlaid(data, lines, label, make_points, more) {
    const pointsOf = (runs) =>
        (runs.length === 1 ? make_points(data.runs[runs[0]]) :
                             meanOf(runs.map((r) => make_points(data.runs[r]))));
    return {
        label,
        height: 300,
        format: short,
        ...more,
        series: lines.map((line) => ({...line, points: pointsOf(line.runs)}))
                    .filter((line) => line.points.some((p) => known(p[1])))
    };
}

const BANDS =
    "A line is the mean of a group's runs, and a band 1.96 standard errors to each side. " +
    "Values between two that were logged are interpolated; after its last value, a run counts with " +
    "that.";

function comparedCurves(data, lines, legend) {
    const goals = new Set(data.runs.map(goalOf)),
          goal = goals.size === 1 ? goalOf(data.runs[0]) : null;
    const losses = [...new Set(data.runs.flatMap((run) => learnerNames(run.tables)))].filter(
        (name) => name !== "cur_lr_avg" && data.runs.some((run) => hasCurve(run, name)));
    const specs = (view) => {
        const spec = (label, height, of, more) =>
            overlaid(data, lines, label, of, {x: axisOf(view.axis), height, ...view, ...more});
        const logged = (table, name) => (run) => points(run.tables[table], view.axis, name);
        return [
            spec("evaluation", 300, (run) => evaluationsOf(run, view.axis), {goal}),
            spec("training episodes", 220, logged("collector", "reward_mean")),
            ...losses.map((name) => spec(title(name), 150, logged("learner", name)))
        ];
    };
    const charts = specs({axis: "env_step"}).map((spec) => new Chart(spec, legend));
    const change = (view) => specs(view).forEach((spec, i) => charts[i].set(spec));
    return section(
        "learning", "Learning", viewControls(data.runs, Object.values(AXES), "env_step", change),
        data.grouping ? lead(BANDS) : null,
        make(
            "div", {class: "cards"}, card("", "Return of evaluations, mean", charts[0].element),
            card("", "Return of training episodes, mean", charts[1].element),
            losses.map((name, i) => card("third", title(name), charts[i + 2].element))));
}

function comparedRates(data, lines, legend) {
    const rate = (label, of) => {
        const points = (run) => (run.samples.rows.length > 1 ? of(run) : []);
        const spec =
            overlaid(data, lines, label, points, {x: axisOf("s"), height: 180, zero: true});
        return card("half", label, new Chart(spec, legend).element);
    };
    const samples = (run, name) => column(run.samples, name);
    return section(
        "throughput", "Throughput", null,
        make(
            "div", {class: "cards"}, rate("Updates per second", submissionRates),
            rate(
                "Environment steps per second",
                (run) => ratesOfChanges(samples(run, "s"), samples(run, "env_step")))));
}

// -- Tables --------------------------------------------------------------------------------------

function agreement(data) {
    const hashes = data.runs.map((run) => run.outcome.param_hash);
    if (hashes.some((hash) => !hash)) return "Not every run has ended.";
    return new Set(hashes).size === 1 ? "All runs ended with the same parameters, bit by bit." :
                                        "The runs ended with different parameters.";
}

function outcomeRow(name, paint, o) {
    return [
        named(swatch(paint), name), o.reason || "–",
        ...[o.last, o.best, o.best_update, o.train, o.updates, o.env_steps].map(short),
        duration(o.seconds), ...[o.updates / o.seconds, o.env_steps / o.seconds].map(short),
        known(o.goal_env_steps) ? `${short(o.goal_env_steps)} steps, ${duration(o.goal_seconds)}` :
                                  "–",
        short(o.ranks), short(o.shards), make("td", {class: "mono"}, o.param_hash || "–")
    ];
}

function outcomes(data, names) {
    const heads = [
        "Run", "Ended by", explained("Last", "Mean return of the last evaluation"),
        explained("Best", "Mean return of the best weights that the run leaves"),
        explained("Of update", "Updates that the best weights had"),
        explained(
            "In training", "Mean return of training episodes in the last tenth of the env steps"),
        "Updates", "Env steps", "Training", "Updates/s", "Env steps/s",
        explained("Goal after", "When an evaluation first reached env.stop_value"), "Ranks",
        "Shards", explained("param_hash", "Hash of the final parameters")
    ];
    const row = (r, paint) => outcomeRow(names[r], paint, data.runs[r].outcome);
    const all = ({runs, left_out}) => [...runs, ...left_out.map(([r]) => r)];
    const rows = data.grouping ?
        data.grouping.groups.flatMap(
            (group, i) => [nameOf(group), ...all(group).map((r) => row(r, colour(i)))]) :
        data.runs.map((_, r) => row(r, colour(r)));
    return section(
        "outcomes", "Results", null, card("", null, lead(agreement(data)), list(heads, rows)));
}

// Runs are rows where there are many of them and few keys.
function differences(data, names) {
    const mono = (text) => make("td", {class: "mono text"}, text === "" ? "–" : text);
    const keys = data.differences.map(([key]) => key);
    const turned = data.runs.length > 4 && keys.length <= 6;
    const rows = turned ?
        names.map(
            (name, r) => [mono(name), ...data.differences.map((texts) => mono(texts[r + 1]))]) :
        data.differences.map((texts) => texts.map(mono));
    return section(
        "differences", "Differences of the configs", null,
        card(
            "", null,
            keys.length ?
                folded(
                    turned ? ["Run", ...keys] : ["Key", ...names], rows, turned ? "runs" : "keys") :
                empty("The configs are the same but for names.")));
}

function comparePage(data) {
    const names = namesOf(data.runs), lines = linesOf(data, names), legend = new Legend();
    const runs = count(data.runs.length, "run"), {grouping} = data;
    legend.set(lines);
    legend.element.classList.add("shared");
    const results = outcomes(data, names);
    const parts = [
        heading(
            grouping ? `${count(grouping.groups.length, "group")} of ${runs}` : runs,
            [...new Set(data.runs.map((run) => run.name))].filter(Boolean).join(" · ")),
        grouping ? [groupDifferences(grouping), groupResults(grouping, names)] :
                   [differences(data, names), results],
        legend.element, grouping ? profiles(grouping, lines, legend) : [],
        comparedCurves(data, lines, legend), comparedRates(data, lines, legend),
        grouping ? results : [], footer(data)
    ];
    byId("page").append(...parts.flat());
}

// A page of runs that go on is served by the program, which sends what is new.
function follow(show) {
    const source = new EventSource("events");
    source.onmessage = (event) => {
        const at = scrollY;
        show(JSON.parse(event.data));
        scrollTo(0, at);
    };
    source.onerror = () => {
        source.close();
        byId("page").prepend(
            make("p", {class: "sub"}, "The program has ended; this is what it showed last."));
    };
}

(function() {
const data = JSON.parse(byId("data").textContent);
const pages = {
    bench: benchPage,
    compare: comparePage,
    report: reportPage,
    simulation: simulationPage
};
const show = (shown) => {
    redraws.length = 0;
    byId("page").replaceChildren();
    pages[shown.kind](shown);
};
show(data);
if (data.live) follow(show);
document.documentElement.dataset.ready = "yes";
})();
