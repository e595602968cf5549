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

function returnsSpec(run, axis) {
    const {evaluator, collector} = run.tables, range = ["reward_min", "reward_max"];
    const evaluations = points(evaluator, axis, "eval_episode_return_mean", ...range);
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
        series: series.filter((one) => one.points.length)
    };
}

// "total_loss_avg" → "total loss".
const title = (name) => name.replace(/_avg$/, "").replaceAll("_", " ");

function learnerSpec(run, name, axis) {
    const series = [line(title(name), 0, points(run.tables.learner, axis, name))];
    return {label: title(name), height: 150, x: axisOf(axis), format: short, series};
}

// What the learner logged, the learning rate last.
function learnerNames(tables) {
    const names = tables.learner ? tables.learner.columns.slice(3) : [], last = "cur_lr_avg";
    return names.filter((name) => name !== last).concat(names.filter((name) => name === last));
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
    const names = learnerNames(run.tables), tables = Object.values(run.tables);
    const axes = Object.values(AXES).filter(
        ([name]) => tables.some((table) => column(table, name).some(known)));
    const first = axes.length ? axes[0][0] : "update";
    const returns = new Chart(returnsSpec(run, first));
    const losses = names.map((name) => new Chart(learnerSpec(run, name, first)));
    const choose = (axis) => {
        returns.set(returnsSpec(run, axis));
        losses.forEach((chart, i) => chart.set(learnerSpec(run, names[i], axis)));
    };
    const width = names.length % 4 === 0 ? "quarter" : "third";
    const cards = losses.map((chart, i) => card(width, title(names[i]), chart.element));
    return section(
        "learning", "Learning", segments("horizontal axis", axes, first, choose),
        make(
            "div", {class: "cards"}, card("", "Return", returns.element), videoCard(videos),
            cards));
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
        const series = lines.filter((one) => one.points.some((p) => known(p[1])));
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
