// SPDX-License-Identifier: Apache-2.0
// The page of several runs, and what starts a page.

// What tells runs apart: their directories, without what all of them begin with.
function namesOf(runs) {
    const dirs = runs.map((run) => run.dir.replace(/\/+$/, "").split("/"));
    while (dirs.every((parts) => parts.length > 1 && parts[0] === dirs[0][0]))
        dirs.forEach((parts) => parts.shift());
    return dirs.map((parts) => parts.join("/"));
}

// More runs than colours: the same ones again, dashed.
const dashOf = (i) => (i < COLOURS ? null : i < 2 * COLOURS ? "6 4" : "2 4");

function overlaid(data, names, label, make_points, more) {
    return {
        label,
        height: 300,
        format: short,
        ...more,
        series: data.runs
                    .map((run, i) => ({
                             name: names[i],
                             colour: colour(i),
                             dash: dashOf(i),
                             points: make_points(run)
                         }))
                    .filter((line) => line.points.some((p) => known(p[1])))
    };
}

function comparedCurves(data, names) {
    const goals = new Set(data.runs.map(goalOf)),
          goal = goals.size === 1 ? goalOf(data.runs[0]) : null;
    const losses = [
        ...new Set(data.runs.flatMap(
            (run) => (run.tables.learner ? run.tables.learner.columns.slice(3) : [])))
    ].filter((name) => name !== "cur_lr_avg");
    const specs = (axis) =>
        [overlaid(
             data, names, "evaluation",
             (run) => points(run.tables.evaluator, axis, "eval_episode_return_mean"),
             {x: axisOf(axis), goal}),
         overlaid(
             data, names, "training episodes",
             (run) => points(run.tables.collector, axis, "reward_mean"),
             {x: axisOf(axis), height: 220}),
         ...losses.map(
             (name) => overlaid(
                 data, names, title(name), (run) => points(run.tables.learner, axis, name),
                 {x: axisOf(axis), height: 150}))];
    const charts = specs("env_step").map((spec) => new Chart(spec));
    const choose = (axis) => specs(axis).forEach((spec, i) => charts[i].set(spec));
    return section(
        "learning", "Learning",
        segments("horizontal axis", Object.values(AXES), "env_step", choose),
        make(
            "div", {class: "cards"}, card("", "Return of evaluations, mean", charts[0].element),
            card("", "Return of training episodes, mean", charts[1].element),
            losses.map((name, i) => card("third", title(name), charts[i + 2].element))));
}

function comparedRates(data, names) {
    const x = axisOf("s");
    const rate = (label, of) =>
        new Chart(overlaid(
                      data, names, label, (run) => (run.samples.rows.length > 1 ? of(run) : []),
                      {x, height: 180, zero: true}))
            .element;
    const samples = (run, name) => column(run.samples, name);
    return section(
        "throughput", "Throughput", null,
        make(
            "div", {class: "cards"},
            card(
                "half", "Updates per second",
                rate("updates per second", (run) => submissionRates(run))),
            card(
                "half", "Environment steps per second",
                rate(
                    "environment steps per second",
                    (run) => ratesOfChanges(samples(run, "s"), samples(run, "env_step"))))));
}

function agreement(data) {
    const hashes = data.runs.map((run) => run.outcome.param_hash);
    if (hashes.some((hash) => !hash)) return "Not every run has ended.";
    return new Set(hashes).size === 1 ? "All runs ended with the same parameters, bit by bit." :
                                        "The runs ended with different parameters.";
}

function outcomes(data, names) {
    const heads = [
        "Run", "Ended by", "Last", "Best", "Of update", "In training", "Updates", "Env steps",
        "Training", "Updates/s", "Env steps/s", "Goal after", "Ranks", "Shards", "param_hash"
    ];
    const rows = data.runs.map(
        ({outcome: o}, i) =>
            [named(swatch(colour(i)), names[i]), o.reason || "–",
             ...[o.last, o.best, o.best_update, o.train, o.updates, o.env_steps].map(short),
             duration(o.seconds), ...[o.updates / o.seconds, o.env_steps / o.seconds].map(short),
             known(o.goal_env_steps) ?
                 `${short(o.goal_env_steps)} steps, ${duration(o.goal_seconds)}` :
                 "–",
             short(o.ranks), short(o.shards), make("td", {class: "mono"}, o.param_hash || "–")]);
    return section(
        "outcomes", "Results", null, card("", null, lead(agreement(data)), list(heads, rows)));
}

function differences(data, names) {
    const mono = (text) => make("td", {class: "mono text"}, text === "" ? "–" : text);
    const rows = data.differences.map((texts) => texts.map(mono));
    return section(
        "differences", "Differences of the configs", null,
        card(
            "", null,
            rows.length ? list(["Key", ...names], rows) :
                          empty("The configs are the same but for names.")));
}

function comparePage(data) {
    const names = namesOf(data.runs);
    byId("page").append(
        heading(
            count(data.runs.length, "run"),
            [...new Set(data.runs.map((run) => run.name))].join(" · ")),
        outcomes(data, names), comparedCurves(data, names), comparedRates(data, names),
        differences(data, names), footer(data));
}

(function() {
const data = JSON.parse(byId("data").textContent);
({compare: comparePage, report: reportPage, simulation: simulationPage})[data.kind](data);
document.documentElement.dataset.ready = "yes";
})();
