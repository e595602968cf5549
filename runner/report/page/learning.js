// SPDX-License-Identifier: Apache-2.0
// What a run learned, and how fast.

const AXES = {
    env_step: ["env_step", "Env steps"],
    update: ["update", "Updates"],
    s: ["s", "Time"]
};

function axisOf(name) {
    const time = name === "s";
    return {
        name: {env_step: "env step", update: "update", s: "after"}[name],
        format: time ? duration : (x) => digits(x, 0),
        mark: time ? timeMark : markText
    };
}

// -- Learning ------------------------------------------------------------------------------------

// [[x, y, low, high], …] of a table, by the names of its columns.
function points(table, x, y, low, high) {
    const [xs, ys, lows, highs] = [x, y, low, high].map((name) => name && column(table, name));
    if (!xs || !ys) return [];
    return xs.map((at, i) => [at, ys[i], lows ? lows[i] : null, highs ? highs[i] : null])
        .filter((p) => known(p[0]))
        .sort((a, b) => a[0] - b[0]);
}

// A stop value out of reach says that there is no goal.
const goalOf = (run) =>
    (known(run.stop_value) && Math.abs(run.stop_value) < 1e8 ? run.stop_value : null);

// Those that were logged, and that of the last weights, which a run that ends at a limit plays when
// it is over.
function evaluationsOf(run, axis, ...range) {
    const list = points(run.tables.evaluator, axis, "eval_episode_return_mean", ...range);
    const {last_value, train_iter, env_step} = run.result || {}, times = column(run.samples, "s");
    const at = {env_step, update: train_iter, s: times[times.length - 1]}[axis];
    return known(last_value) && known(at) ? [...list, [at, last_value, null, null]] : list;
}

function returnsSpec(run, view) {
    const {axis} = view;
    const {collector} = run.tables, range = ["reward_min", "reward_max"];
    const evaluations = evaluationsOf(run, axis, ...range);
    const episodes = points(collector, axis, "reward_mean", ...range);
    const series = [
        {...line("evaluation, mean and range", 0, evaluations), brief: "evaluation", dots: true},
        {...line("training episodes, mean and range", 1, episodes), brief: "training episodes"}
    ];
    return {
        label: "returns",
        height: 300,
        x: axisOf(axis),
        format: short,
        goal: goalOf(run),
        ...view,
        series: series.filter((one) => one.points.length)
    };
}

// "total_loss_avg" → "total loss".
const title = (name) => name.replace(/_avg$/, "").replaceAll("_", " ");

function learnerSpec(run, name, view) {
    const series = [line(title(name), 0, points(run.tables.learner, view.axis, name))];
    return {label: title(name), height: 150, x: axisOf(view.axis), format: short, ...view, series};
}

// What the learner logged, the learning rate last.
function learnerNames(tables) {
    const names = tables.learner ? tables.learner.columns.slice(3) : [], last = "cur_lr_avg";
    return names.filter((name) => name !== last).concat(names.filter((name) => name === last));
}

// Whether a number was logged so often that it has a curve.
const hasCurve = (run, name) => (column(run.tables.learner, name) || []).filter(known).length > 1;

// What was logged once, which makes no curve.
function singlesCard(run, names) {
    const values = names.map((name) => (column(run.tables.learner, name) || []).filter(known));
    const pairs =
        names.map((name, i) => [title(name), values[i].length ? short(values[i][0]) : null]);
    return names.length ? card("", "Logged once", definitions(pairs)) : null;
}

// -- What the reader chooses ---------------------------------------------------------------------

const WEIGHTS = [[0, "Raw"], [0.6, "Smooth"], [0.9, "Smoother"]];

// Calls change({axis, smooth, log}) with each choice; the button makes a table of the runs'
// numbers.
function viewControls(runs, axes, first, change) {
    const view = {axis: first, smooth: 0, log: false};
    const set = (more) => change({...Object.assign(view, more)});
    return make(
        "div", {class: "controls"}, segments("horizontal axis", axes, first, (axis) => set({axis})),
        segments("smoothing: weight of moving averages", WEIGHTS, 0, (smooth) => set({smooth})),
        segments("vertical axis", [[false, "Linear"], [true, "Log"]], false, (log) => set({log})),
        make(
            "button", {
                type: "button",
                class: "csv",
                title:
                    "The numbers of these curves as a table; runner report --csv has those that were thinned out",
                click: () => save("curves.csv", csvOf(runs))
            },
            "CSV"));
}

// A row for each number, with the columns of runner report --csv behind the run.
function csvOf(runs) {
    const quoted = (text) => `"${String(text).replaceAll("\"", "\"\"")}"`;
    const rows = ["run,component,update,env_step,seconds,name,value"];
    for (const run of runs)
        for (const [table, {columns, rows: logged}] of Object.entries(run.tables))
            for (const [update, env_step, s, ...values] of logged)
                values.forEach((value, i) => {
                    if (known(value))
                        rows.push([
                            quoted(run.dir), table, update, env_step ?? "", s ?? "",
                            quoted(columns[i + 3]), value
                        ].join());
                });
    return rows.join("\n") + "\n";
}

// An episode of each evaluation that was recorded.
function videoCard(videos) {
    if (!videos.length) return null;
    const name = (update) => `update ${digits(update, 0)}`;
    const figures =
        videos.filter(({gif}) => gif)
            .map(
                ({update, gif}) => make(
                    "figure", {},
                    make("img", {src: `data:image/gif;base64,${gif}`, alt: name(update)}),
                    make("figcaption", {}, name(update))));
    const more = videos.length - figures.length;
    return card(
        "", "Episodes of evaluations", make("div", {class: "videos"}, figures),
        more ? make("p", {}, `${count(more, "more video")} in the folder video.`) : null);
}

function learning(run, videos) {
    const all = learnerNames(run.tables), tables = Object.values(run.tables);
    const names = all.filter((name) => hasCurve(run, name));
    const axes = Object.values(AXES).filter(
        ([name]) => tables.some((table) => column(table, name).some(known)));
    const first = axes.length ? axes[0][0] : "update", view = {axis: first};
    const returns = new Chart(returnsSpec(run, view));
    const losses = names.map((name) => new Chart(learnerSpec(run, name, view)));
    const change = (view) => {
        returns.set(returnsSpec(run, view));
        losses.forEach((chart, i) => chart.set(learnerSpec(run, names[i], view)));
    };
    const width = names.length % 4 === 0 ? "quarter" : "third";
    const cards = losses.map((chart, i) => card(width, title(names[i]), chart.element));
    return section(
        "learning", "Learning", viewControls([run], axes, first, change),
        make(
            "div", {class: "cards"}, card("", "Return", returns.element), videoCard(videos), cards,
            singlesCard(run, all.filter((name) => !names.includes(name)))));
}

// -- Throughput ----------------------------------------------------------------------------------

// d(amount)/d(seconds) over stretches of at least a sixtieth of the run; none where counting began
// anew.
function rates(times, amounts, scale = 1) {
    const least = Math.max(0.2, (times[times.length - 1] - times[0]) / 60), list = [];
    let from = 0;
    for (let i = 1; i < times.length; i++) {
        while (from + 1 < i && times[i] - times[from + 1] >= least) from++;
        const rate = ((amounts[i] - amounts[from]) / (times[i] - times[from])) * scale;
        list.push([times[i], rate >= 0 && Number.isFinite(rate) ? rate : null]);
    }
    return list;
}

// Only where the amount was counted anew: env steps are known when something is logged.
function ratesOfChanges(times, amounts) {
    const at = times.map((_, i) => i).filter((i) => i === 0 || amounts[i] !== amounts[i - 1]);
    return rates(at.map((i) => times[i]), at.map((i) => amounts[i]));
}

// Updates are counted when they are submitted: ahead of the work at first, all there at the end.
function submissionRates(run) {
    const inner = (name) =>
        (run.samples.rows.length > 4 ? column(run.samples, name).slice(1, -1) :
                                       column(run.samples, name));
    return rates(inner("s"), inner("update"));
}

// What rank 0 did with its time.
function shares(run) {
    const {workers = 1, gpus = [], ranks = 1} = run.start || {};
    const share = (name, n) => rates(column(run.samples, "s"), column(run.samples, name), 1 / n);
    const lines = [line(`${count(workers, "worker")} of rank 0 busy`, 0, share("busy_s", workers))];
    if (gpus.length) lines.push(line("GPUs busy", 2, share("gpu_busy_s", gpus.length)));
    if (ranks > 1) lines.push(line("communication exposed", 1, share("exposed_s", 1)));
    return lines;
}

function throughput(run) {
    const of = (name) => column(run.samples, name), times = of("s");
    if (times.length < 2)
        return section(
            "throughput", "Throughput", null, empty("The run left no samples over time."));
    const chart = (name, format, lines, more) => {
        const series = lines.filter((one) => one.points.filter((p) => known(p[1])).length > 1);
        if (!series.length) return card("half", name, empty("The run was too short for a curve."));
        const spec =
            {label: name, height: 180, x: axisOf("s"), format, zero: true, series, ...more};
        return card("half", name, new Chart(spec).element);
    };
    const [unit, size] =
        Math.max(...of("rss_bytes")) >= 2 ** 31 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
    const memory = of("rss_bytes").map((n, i) => [times[i], n / size]);
    return section(
        "throughput", "Throughput", null,
        make(
            "div", {class: "cards"},
            chart("Updates per second", short, [line("updates/s", 0, submissionRates(run))]),
            chart(
                "Environment steps per second", short,
                [line("env steps/s", 2, ratesOfChanges(times, of("env_step")))]),
            chart("Share of the time", percent, shares(run), {mark: percentMark}),
            chart(
                `Memory of rank 0, ${unit}`, (n) => bytes(n * size),
                [line("resident", 3, memory)])));
}
