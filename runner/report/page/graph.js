// SPDX-License-Identifier: Apache-2.0
// The steps of an iteration, a row each, and the values that they read and change, a column each.

const PLACES = {
    shard: "--c0",
    collective: "--c1",
    global: "--c2"
};  // others: rank 0 and the end
const GUARDS = / (every|when|if|counts) .*$/;

// Reads a line of `runner graph`: "label [where, how] reads a, b updates c writes d every 2
// update".
function readStep(line) {
    const text = line.trim(), depth = (line.length - line.trimStart().length) / 2 - 1;
    const [, label, place, rest] = text.match(/^(\S+) \[(\w+)[^\]]*\](.*)$/) || [null, "", "", ""];
    const copied = text.match(/^(snapshot|compare) (\w+) (.*)$/);
    if (copied)
        return {
            text,
            depth,
            label: copied[1],
            guard: copied[3],
            refs: [{value: copied[2], mode: "reads"}]
        };
    if (!label) return {text, depth, label: text, refs: []};
    const [, ...parts] = rest.replace(GUARDS, "").split(/ (reads|updates|writes) /), refs = [];
    for (let i = 0; i < parts.length; i += 2)
        for (const ref of parts[i + 1].split(", "))
            refs.push({
                value: ref.match(/^\w+/)[0],
                mode: parts[i],
                lag: (ref.match(/@-(\d+)/) || [])[1]
            });
    return {text, depth, label, place, refs, guard: (rest.match(GUARDS) || [""])[0].trim()};
}

// Empty: read; full: written; a ring around a dot: updated. Dashed: as it was some iterations ago.
function mark({mode, lag}, x, y, paint) {
    const dash = lag ? "2 2" : null, fill = mode === "writes" ? paint : "var(--card)";
    return [
        make("svg:circle", {
            cx: x,
            cy: y,
            r: 5,
            fill,
            stroke: paint,
            "stroke-width": 1.6,
            "stroke-dasharray": dash
        }),
        mode === "updates" ? make("svg:circle", {cx: x, cy: y, r: 2.2, fill: paint}) : null,
        lag ? make("svg:text", {class: "lag", x, y: y - 6}, `−${lag}`) : null
    ];
}

class Graph {
    constructor(steps) {
        this.steps = steps;
        this.values = [...new Set(steps.flatMap((step) => step.refs.map((ref) => ref.value)))];
        const longest = (texts) => Math.max(...texts.map((text) => text.length), 0);
        this.left =
            7 * longest(steps.map((step) => (step.guard === undefined ? "" : step.label))) + 44;
        this.top = 5 * longest(this.values) + 20;
        this.right = this.left + 24 * this.values.length;
        this.width = this.right + 20 + 6 * longest(steps.map((step) => step.guard || ""));
        this.height = this.top + 22 * steps.length + 6;
    }

    x(value) { return this.left + 24 * this.values.indexOf(value) + 12; }

    column(value) {
        const x = this.x(value),
              rows = this.steps.map((step) => step.refs.some((ref) => ref.value === value));
        const y = (row) => this.top + 22 * row + 11;
        return [
            make(
                "svg:text", {x, y: this.top - 6, transform: `rotate(-50 ${x} ${this.top - 6})`},
                value),
            make("svg:line", {
                class: "axis",
                x1: x,
                x2: x,
                y1: y(rows.indexOf(true)),
                y2: y(rows.lastIndexOf(true))
            })
        ];
    }

    row(step, i) {
        const y = this.top + 22 * i + 11, xs = step.refs.map((ref) => this.x(ref.value));
        const paint = `var(${PLACES[step.place] || "--c7"})`, from = 12 + 14 * step.depth;
        return make(
            "svg:g", {class: "row"}, make("svg:title", {}, step.text),
            make("svg:rect", {class: "ground", x: 0, y: y - 11, width: this.width, height: 22}),
            step.guard === undefined ?
                null :
                make("svg:circle", {cx: from - 8, cy: y, r: 3.5, fill: paint}),
            make("svg:text", {x: from, y: y + 4}, step.label),
            xs.length ?
                make(
                    "svg:line",
                    {class: "axis", x1: Math.min(...xs), x2: Math.max(...xs), y1: y, y2: y}) :
                null,
            step.refs.map((ref) => mark(ref, this.x(ref.value), y, paint)),
            make("svg:text", {class: "guard", x: this.right + 8, y: y + 4}, step.guard || ""));
    }

    draw() {
        return make(
            "svg:svg", {
                viewBox: `0 0 ${this.width} ${this.height}`,
                style: `width:${this.width}px;height:${this.height}px`
            },
            this.values.map((value) => this.column(value)),
            this.steps.map((step, i) => this.row(step, i)));
    }
}

function graphLegend() {
    const item = (name, paint) => make("span", {}, swatch(`var(${paint})`), name);
    const sign = (name, ref) => make(
        "span", {},
        make(
            "svg:svg", {style: "width:14px;height:14px"},
            mark(ref, 7, 7, "var(--soft)").slice(0, 2)),
        name);
    return make(
        "div", {class: "legend below"}, sign("read", {mode: "reads"}),
        sign("updated", {mode: "updates"}), sign("written", {mode: "writes"}),
        sign("read as of an earlier iteration", {mode: "reads", lag: 1}),
        item("for each shard", PLACES.shard), item("on every rank", PLACES.global),
        item("together with other ranks", PLACES.collective), item("on rank 0, or a stop", "--c7"));
}

function graph(run) {
    if (!run.start || !run.start.iteration) return null;
    const steps = run.start.iteration.trimEnd().split("\n").map(readStep);
    return section(
        "graph", "Graph",
        make("span", {class: "hint"}, "One iteration of rank 0, in program order."),
        card("", null, make("div", {class: "scroll"}, new Graph(steps).draw()), graphLegend()));
}
