// SPDX-License-Identifier: Apache-2.0
// The page of `runner bench`: candidates side by side.

// -- Intervals -----------------------------------------------------------------------------------

// A row for each {name, paint, value, low, high, all}: its interval, with a dot for each run.
// spec: {label, rows, format, mark, zero: the axis has 0}
class Intervals {
    constructor(spec) {
        this.spec = spec;
        this.element = make("div", {class: "chart"});
        whenSized(this.element, (width) => this.draw(width));
    }

    draw(width) {
        const {label, rows, format, mark, zero} = this.spec, edge = 8;
        const texts = rows.map((row) => this.text(row, format));
        const wraps = rows.some((row, i) => 7 * (row.name.length + texts[i].length + 2) > width);
        const each = wraps ? 56 : 40, bottom = rows.length * each + 6;
        const xs = rows.flatMap((row) => [row.value, row.low, row.high, ...row.all]).filter(known);
        const low = Math.min(...xs, ...(zero ? [0] : [])),
              high = Math.max(...xs, ...(zero ? [0] : []));
        const pad = (high - low) * 0.04 || Math.abs(high) * 0.05 || 1, from = low - pad,
              at = (x) => edge + ((x - from) / (high + pad - from)) * (width - 2 * edge);
        this.element.replaceChildren(make(
            "svg:svg", {height: bottom + 20, role: "img", "aria-label": label},
            this.axis(ticks(from, high + pad, Math.max(3, width / 110)), at, bottom, width),
            rows.map((row, i) => this.row(row, texts[i], i * each, at, width, wraps))));
    }

    axis(marks, at, bottom, width) {
        const {mark, zero} = this.spec, step = marks.length > 1 ? marks[1] - marks[0] : 1;
        const anchor = (x) => (x > width - 24 ? "end" : x < 24 ? "start" : "middle");
        const grid = (x) => make(
            "svg:line",
            {class: zero && x === 0 ? "goal" : "grid", x1: at(x), x2: at(x), y1: 0, y2: bottom});
        const name = (x) => make(
            "svg:text", {x: at(x), y: bottom + 15, "text-anchor": anchor(at(x))}, mark(x, step));
        return marks.map((x) => [grid(x), name(x)]);
    }

    text({value, low, high}, format) {
        return format(value) + (known(low) ? ` [${format(low)}, ${format(high)}]` : "");
    }

    // Name and text share a line where there is room.
    row({name, paint, value, low, high, all}, text, y, at, width, wraps) {
        const middle = y + (wraps ? 46 : 30), style = `fill:${paint}`, room = Math.floor(width / 7);
        const fitted = name.length > room ? `${name.slice(0, room - 1)}…` : name;
        const place = wraps ? {x: 2, y: y + 31} : {x: width - 2, y: y + 15, "text-anchor": "end"};
        const path = known(low) ? `M${at(low)} ${middle - 4}v8m0 -4H${at(high)}m0 -4v8` : "";
        return [
            make("svg:text", {class: "over", x: 2, y: y + 15}, fitted, make("svg:title", {}, name)),
            make("svg:text", {class: "over", ...place}, text),
            make("svg:path", {class: "interval-line", d: path, style: `stroke:${paint}`}),
            all.map(
                (x) => make("svg:circle", {class: "run", cx: at(x), cy: middle, r: 2.6, style})),
            make("svg:circle", {cx: at(value), cy: middle, r: 4.4, style})
        ];
    }
}

function intervals(label, candidates, of, format, mark, zero = false) {
    const rows = candidates
                     .map(
                         (candidate, i) =>
                             ({name: candidate.name, paint: colour(i), all: [], ...of(candidate)}))
                     .filter((row) => known(row.value));
    return rows.length ? new Intervals({label, rows, format, mark, zero}).element :
                         empty("Nothing was measured.");
}

const gain = (share) => `${share > 0 ? "+" : ""}${digits(100 * share, 1)} %`;

function said({candidates, notes}) {
    const lines = [...candidates.flatMap((one) => one.said), ...notes];
    return make("ul", {class: "said"}, lines.map((text) => make("li", {}, text)));
}

const disturbedHead = () => explained(
    "Disturbed", "Runs in which the machine was busy with other things, and what these took");
const disturbance = (one) => one.disturbed || "–";

// -- Rates ---------------------------------------------------------------------------------------

function benchTable({candidates}) {
    const heads = [
        "Candidate", "Lag", "Turns", "Updates/s", "Env steps/s", "Busy", "Exposed", "Idle",
        explained("Bits", "Candidates of one number must end in the same parameters"),
        disturbedHead()
    ];
    const rows = candidates.map(
        (one, i) =>
            [named(swatch(colour(i)), one.name), String(one.lag), String(one.n),
             intervalCell(one.updates_per_s), intervalCell(one.env_steps_per_s), percent(one.busy),
             percent(one.exposed), percent(one.idle), String(one.bits), disturbance(one)]);
    return list(heads, rows);
}

function benchRates({rates, confidence, resamples}) {
    const {candidates} = rates, first = candidates[0];
    const plot =
        intervals("updates per second", candidates, (one) => one.updates_per_s, fine, markText);
    const claimed = (one) => one !== first && known(one.faster.low);
    const gains = intervals(
        `faster than ${first.name}`, candidates,
        (one) => (claimed(one) ? one.faster : {value: null}), gain, percentMark, true);
    const any = candidates.some(claimed);
    return section(
        "rates", "Rates", null,
        make(
            "div", {class: "cards"}, card(any ? "half" : "", "Updates per second", plot),
            any ? card("half", `Faster than ${first.name}, turn by turn`, gains) : null,
            card(
                "", null, said(rates), benchTable(rates),
                make(
                    "p", {class: "sub"},
                    `Means over turns; in brackets intervals of ${percent(confidence)}: ` +
                        `percentile bootstrap, ${digits(resamples, 0)} draws.`))));
}

// -- Where the time went -------------------------------------------------------------------------

// What steps are told apart by: "sum(totals)" is of the verb sum.
const verbOf = (name) => name.split(/[ (]/)[0];

// The verbs that take most time anywhere have colours of their own; orange is exposed.
function verbColours(candidates) {
    const own = ["--c0", "--c2", "--c3", "--c4", "--c5", "--c6"], most = new Map();
    for (const {verbs} of candidates)
        for (const [verb, share] of Object.entries(verbs))
            most.set(verb, Math.max(most.get(verb) || 0, share));
    return new Map([...most]
                       .sort((a, b) => b[1] - a[1])
                       .slice(0, own.length)
                       .map(([verb], i) => [verb, own[i]]));
}

function partsOf({verbs, exposed, idle}, colours) {
    const own = [...colours].map(([verb, paint]) => [verb, verbs[verb] || 0, paint]);
    const others = sum(Object.entries(verbs).map(([verb, x]) => (colours.has(verb) ? 0 : x)));
    return [
        ...own, ["everything else", others, "--c7"], ["exposed communication", exposed, "--c1"],
        ["idle", idle, "--grid"]
    ].filter(([, share]) => share > 0);
}

function stackedBar(candidate, colours) {
    const parts = partsOf(candidate, colours), whole = sum(parts.map(([, share]) => share));
    const tip = (event) => showTip(
        event, candidate.name,
        parts.map(([name, share, paint]) => [swatch(`var(${paint})`), name, percent(share)]));
    const piece = ([name, share, paint]) => make(
        "span", {style: `width:${(100 * share) / whole}%;background:var(${paint})`, title: name});
    return [
        make("div", {class: "sub above"}, candidate.name),
        make("div", {class: "stack", pointermove: tip, pointerleave: hideTip}, parts.map(piece))
    ];
}

function benchTimes({candidates}, colours) {
    const told = candidates.filter(({verbs}) => Object.keys(verbs).length > 0);
    if (!told.length) return null;
    const items = [
        ...colours, ["everything else", "--c7"], ["exposed communication", "--c1"],
        ["idle", "--grid"]
    ].map(([name, paint]) => make("span", {}, swatch(`var(${paint})`), name));
    return section(
        "times", "Where the time went", null,
        card(
            "", "Shares of the time of rank 0's workers",
            told.map((one) => stackedBar(one, colours)),
            make("div", {class: "legend below"}, items)));
}

// -- One iteration -------------------------------------------------------------------------------

function benchIteration({candidates}, colours) {
    const traced = candidates.filter((one) => one.trace);
    if (!traced.length) return null;
    const longest = Math.max(...traced.map(({trace}) => trace.end_s - trace.begin_s));
    const view = ({name, trace}) => {
        const paints = trace.sums.map(([step]) => colours.get(verbOf(step)) || "--c7");
        const lanes = {...trace, begin_s: 0, end_s: longest};
        const took = duration(trace.end_s - trace.begin_s);
        return [
            make("div", {class: "sub above"}, `${name}: iteration ${trace.iteration} took ${took}`),
            new Timeline(lanes, paints, trace.iteration).element
        ];
    };
    const hint =
        make("span", {class: "hint"}, "Colours as above. Drag to move, click and scroll to zoom.");
    return section(
        "iteration", "One iteration of rank 0", hint,
        card(
            "", null,
            lead(
                "From the first of an iteration's tasks to its last, in the last turn, on one scale. What " +
                "belongs to other iterations is pale; grey is waiting for other ranks."),
            traced.map(view)));
}

// -- To the goal ---------------------------------------------------------------------------------

function benchGoal({goal}) {
    if (!goal) return null;
    const {candidates} = goal;
    const plot = (label, key, format, mark) =>
        card("third", label, intervals(label, candidates, (one) => one[key], format, mark, true));
    const missed = (one) =>
        one.missed.map(([seed, reason]) => `seed ${seed} (${reason})`).join(", ") || "–";
    const rows = candidates.map(
        (one, i) =>
            [named(swatch(colour(i)), one.name), `${one.reached} of ${one.n}`,
             intervalCell(one.seconds), intervalCell(one.env_steps), intervalCell(one.updates),
             missed(one), disturbance(one)]);
    return section(
        "goal", "To the goal", null,
        make(
            "div", {class: "cards"}, plot("Time", "seconds", duration, timeMark),
            plot("Env steps", "env_steps", short, markText),
            plot("Updates", "updates", short, markText),
            card(
                "", null, said(goal),
                list(
                    [
                        "Candidate", "Reached", "Seconds", "Env steps", "Updates", "Not reached by",
                        disturbedHead()
                    ],
                    rows),
                make("p", {class: "sub"}, "Means over the runs that reached the goal."))));
}

// -- The page ------------------------------------------------------------------------------------

function benchPage(data) {
    const {bench} = data, {rates} = bench, colours = rates ? verbColours(rates.candidates) : null;
    const line = [
        count(bench.ranks, "rank"), count(bench.shards, "shard"),
        rates ? `${count(rates.measured, "update")} after ${digits(rates.warmup, 0)}` : null
    ].filter(Boolean).join(" · ");
    const from = [
        ["Machine", bench.machine], ["Commit", bench.commit], ["Date", bench.date],
        ["Config", bench.config], ["Overrides", bench.sets.join(", ")]
    ];
    byId("page").append(
        ...[heading(bench.config.split("/").pop(), line),
            rates ?
                [benchRates(bench), benchTimes(rates, colours), benchIteration(rates, colours)] :
                [],
            benchGoal(bench),
            section("from", "What was measured", null, card("", null, definitions(from))),
            footer(data, "")]
            .flat()
            .filter(Boolean));
}
