// SPDX-License-Identifier: Apache-2.0
// Line charts in SVG. spec: {label, height, x: {name, format, mark}, format, mark, goal, zero,
// smooth, log, series:
// [{name, brief, colour, dash, dots, points: [[x, y, low, high], …]}]}; y null breaks a line; low
// and high make a band; format makes a text of a value, mark of a tick and the step between ticks;
// smooth is a weight (scale.js); log wants a logarithmic axis, which all values have to allow.
// Drag zooms, a double click goes back, a click on a name of the legend hides a line.

// The names of lines, each of which hides and shows the lines of that name in all of its charts.
class Legend {
    constructor() {
        this.hidden = new Set();
        this.charts = [];
        this.element = make("div", {class: "legend"});
    }

    // lines: [{name, colour, dash}, …].
    set(lines) {
        this.element.hidden = lines.length < 2;
        this.element.replaceChildren(...lines.map((line) => {
            const button = make(
                "button", {
                    type: "button",
                    "aria-pressed": String(!this.hidden.has(line.name)),
                    click: () => {
                        const shown = this.hidden.delete(line.name);
                        if (!shown) this.hidden.add(line.name);
                        button.setAttribute("aria-pressed", String(shown));
                        this.charts.forEach((chart) => chart.draw());
                    }
                },
                swatch(line.colour, true, line.dash), line.name);
            return button;
        }));
    }
}

// Index of the point nearest to x; points are in order of x.
function nearest(points, x) {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (points[middle][0] < x)
            low = middle;
        else
            high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? low : high;
}

class Chart {
    // A legend of several charts is not the chart's to show.
    constructor(spec, legend = null) {
        this.zoom = null;
        this.own = !legend;
        this.legend = legend || new Legend();
        this.legend.charts.push(this);
        this.host = make("div", {class: "chart"});
        this.element = make("div", {}, this.own ? this.legend.element : null, this.host);
        this.take(spec);
        whenSized(this.host, (width) => {
            this.width = width;
            this.draw();
        });
    }

    // Other data in the same place.
    set(spec) {
        this.zoom = null;
        this.take(spec);
        this.draw();
    }

    take(spec) {
        this.spec = spec;
        if (this.own) this.legend.set(spec.series);
        const values = spec.series.flatMap((line) => line.points.flatMap(([, ...ys]) => ys));
        this.log = Boolean(spec.log) && values.filter(known).every((y) => y > 0);
        this.scale = this.log ? Math.log10 : (y) => y;
    }

    shown() {
        const {series, smooth} = this.spec;
        return series.filter((line) => line.points.length > 0 && !this.legend.hidden.has(line.name))
            .map((line) => ({
                     ...line,
                     raw: smooth && line.points.length > 2 ? line.points : null,
                     points: smooth ? smoothed(line.points, smooth) : line.points
                 }));
    }

    // The stretch of x, and of y over what is seen of it.
    measure(lines) {
        const xs =
            lines.flatMap((line) => [line.points[0][0], line.points[line.points.length - 1][0]]);
        let [x0, x1] = this.zoom || [Math.min(...xs), Math.max(...xs)];
        const single = x0 === x1;
        if (single) [x0, x1] = [x0 - 0.5, x1 + 0.5];
        let y0 = Infinity, y1 = -Infinity;
        for (const line of lines)
            for (const [x, ...ys] of line.raw || line.points)
                if (x >= x0 && x <= x1)
                    for (const y of ys.filter(known).map(this.scale)) {
                        y0 = Math.min(y0, y);
                        y1 = Math.max(y1, y);
                    }
        const goal = known(this.spec.goal) ? this.scale(this.spec.goal) : NaN;
        // A goal that is far above would squeeze the curves.
        if (!this.zoom && goal - y1 <= y1 - y0) y1 = Math.max(y1, goal);
        if (this.spec.zero && !this.log) y0 = Math.min(0, y0);
        if (!known(y0) || !known(y1)) [y0, y1] = [0, 1];
        const pad = y1 > y0 ? (y1 - y0) * 0.06 : Math.abs(y1) * 0.1 || 1;
        return {
            single,
            x0,
            x1,
            y0: this.spec.zero && !this.log && y0 === 0 ? 0 : y0 - pad,
            y1: y1 + pad
        };
    }

    draw() {
        if (!this.width) return;
        const lines = this.shown();
        if (lines.length === 0) {
            this.host.replaceChildren(make(
                "p", {class: "empty"},
                this.spec.series.length ? "Nothing to show." : "Nothing was logged."));
            return;
        }
        const height = this.spec.height || 220, range = this.measure(lines);
        const yTicks = (this.log ? logTicks : ticks)(range.y0, range.y1, height / 45);
        const yMarks = this.log ? yTicks.map(short) : this.marks(yTicks, this.spec.mark);
        const left = 12 + 6.5 * Math.max(...yMarks.map((mark) => mark.length));
        const frame = {left, right: this.width - 10, top: 8, bottom: height - 24};
        const at = {
            x: (x) =>
                frame.left + ((x - range.x0) / (range.x1 - range.x0)) * (frame.right - frame.left),
            y: (y) => frame.bottom -
                ((this.scale(y) - range.y0) / (range.y1 - range.y0)) * (frame.bottom - frame.top),
            back: (px) =>
                range.x0 + ((px - frame.left) / (frame.right - frame.left)) * (range.x1 - range.x0),
        };
        const clip = `clip${(Chart.made = (Chart.made || 0) + 1)}`;
        const svg = make(
            "svg:svg", {height, role: "img", "aria-label": this.spec.label},
            make("svg:defs", {}, make("svg:clipPath", {id: clip}, make("svg:rect", {
                                          x: frame.left,
                                          y: 0,
                                          width: Math.max(0, frame.right - frame.left) + 5,
                                          height
                                      }))),
            this.axes(frame, range, at, yTicks, yMarks),
            make(
                "svg:g", {"clip-path": `url(#${clip})`}, this.goal(frame, range, at),
                lines.map((line) => this.line(line, at))));
        this.listen(svg, frame, at, lines);
        this.host.replaceChildren(svg);
        if (this.spec.log && !this.log)
            this.host.append(make("p", {class: "empty"}, "Linear: some values are not above 0."));
    }

    marks(values, mark = markText) {
        const step = values.length > 1 ? values[1] - values[0] : Math.abs(values[0]) || 1;
        return values.map((value) => mark(value, step));
    }

    axes(frame, range, at, yTicks, yMarks) {
        const xTicks = range.single ?
            [(range.x0 + range.x1) / 2] :
            ticks(range.x0, range.x1, Math.max(3.2, (frame.right - frame.left) / 90));
        const xMarks = this.marks(xTicks, this.spec.x.mark);
        return [
            yTicks.map(
                (y, i) =>
                    [make("svg:line", {
                         class: "grid",
                         x1: frame.left,
                         x2: frame.right,
                         y1: at.y(y),
                         y2: at.y(y)
                     }),
                     make(
                         "svg:text", {x: frame.left - 7, y: at.y(y) + 4, "text-anchor": "end"},
                         yMarks[i])]),
            make("svg:line", {
                class: "axis",
                x1: frame.left,
                x2: frame.right,
                y1: frame.bottom,
                y2: frame.bottom
            }),
            xTicks.map(
                (x, i) => make(
                    "svg:text", {
                        x: at.x(x),
                        y: frame.bottom + 17,
                        "text-anchor": at.x(x) > frame.right - 20 ? "end" : "middle"
                    },
                    xMarks[i])),
        ];
    }

    goal(frame, range, at) {
        const {goal} = this.spec, above = known(goal) && this.scale(goal) > range.y1;
        if (!known(goal) || !(above || this.scale(goal) >= range.y0)) return null;
        const y = above ? frame.top : at.y(goal);
        return [
            above ?
                null :
                make("svg:line", {class: "goal", x1: frame.left, x2: frame.right, y1: y, y2: y}),
            make(
                "svg:text", {class: "over", x: frame.left + 4, y: above ? y + 8 : y - 5},
                `${above ? "↑ " : ""}goal ${this.spec.format(goal)}`)
        ];
    }

    path(points, at) {
        let path = "", pen = "M";
        for (const [x, y] of points) {
            if (known(y)) path += `${pen}${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`;
            pen = known(y) ? "L" : "M";
        }
        return path;
    }

    line(line, at) {
        const band = line.points.filter((p) => known(p[2]) && known(p[3]));
        const edge = (points, k) =>
            points.map((p) => `${at.x(p[0]).toFixed(1)} ${at.y(p[k]).toFixed(1)}`).join("L");
        const dots = (line.dots && line.points.length <= 80) || line.points.length < 3 ?
            line.points.filter((p) => known(p[1])) :
            [];
        return [
            band.length > 1 ? make("svg:path", {
                d: `M${edge(band, 3)}L${edge([...band].reverse(), 2)}Z`,
                style: `fill:${line.colour}`,
                opacity: 0.13
            }) :
                              null,
            line.raw ? make("svg:path", {
                d: this.path(line.raw, at),
                fill: "none",
                style: `stroke:${line.colour}`,
                opacity: 0.25
            }) :
                       null,
            make("svg:path", {
                class: "line",
                d: this.path(line.points, at),
                fill: "none",
                style: `stroke:${line.colour}`,
                "stroke-width": 1.8,
                "stroke-linejoin": "round",
                "stroke-linecap": "round",
                "stroke-dasharray": line.dash
            }),
            dots.map(
                (p) => make(
                    "svg:circle",
                    {cx: at.x(p[0]), cy: at.y(p[1]), r: 2.6, style: `fill:${line.colour}`})),
        ];
    }

    // The cross hair with its tooltip, and the selection of a stretch.
    listen(svg, frame, at, lines) {
        const cross = make(
            "svg:line", {class: "cross", y1: frame.top, y2: frame.bottom, visibility: "hidden"});
        const select = make("svg:rect", {
            class: "select",
            y: frame.top,
            height: frame.bottom - frame.top,
            visibility: "hidden"
        });
        const dots = make("svg:g", {});
        let from = null;
        const place = (event) => Math.min(
            frame.right, Math.max(frame.left, event.clientX - svg.getBoundingClientRect().left));
        svg.append(
            make("svg:rect", {
                x: 0,
                y: 0,
                width: this.width,
                height: frame.bottom,
                fill: "none",
                "pointer-events": "all"
            }),
            select, cross, dots);
        const clear = () => {
            for (const mark of [cross, select]) mark.setAttribute("visibility", "hidden");
            dots.replaceChildren();
            from = null;
            hideTip();
        };
        svg.addEventListener("pointerdown", (event) => {
            if (event.button === 0) from = place(event);
        });
        svg.addEventListener("pointermove", (event) => {
            const px = place(event);
            if (from !== null && Math.abs(px - from) > 4) {
                select.setAttribute("x", Math.min(px, from));
                select.setAttribute("width", Math.abs(px - from));
                select.setAttribute("visibility", "visible");
            }
            this.point(event, at, lines, at.back(px), cross, dots);
        });
        svg.addEventListener("pointerup", (event) => {
            const px = place(event);
            if (from !== null && Math.abs(px - from) > 8)
                this.zoom = [at.back(Math.min(px, from)), at.back(Math.max(px, from))];
            const zoomed = from !== null && Math.abs(px - from) > 8;
            clear();
            if (zoomed) this.draw();
        });
        svg.addEventListener("pointerleave", clear);
        svg.addEventListener("dblclick", () => {
            this.zoom = null;
            clear();
            this.draw();
        });
    }

    point(event, at, lines, x, cross, dots) {
        const found = lines.map((line) => [line, line.points[nearest(line.points, x)]]);
        const closest =
            found.reduce((a, b) => (Math.abs(b[1][0] - x) < Math.abs(a[1][0] - x) ? b : a))[1][0];
        const reach = 24 * Math.abs(at.back(1) - at.back(0));  // beyond the ends of a line
        const near = found.filter(
            ([line, p]) => known(p[1]) && closest >= line.points[0][0] - reach &&
                closest <= line.points[line.points.length - 1][0] + reach);
        cross.setAttribute("x1", at.x(closest));
        cross.setAttribute("x2", at.x(closest));
        cross.setAttribute("visibility", "visible");
        dots.replaceChildren(...near.map(([line, p]) => make("svg:circle", {
                                             cx: at.x(p[0]),
                                             cy: at.y(p[1]),
                                             r: 4,
                                             style: `fill:${line.colour};stroke:var(--card)`,
                                             "stroke-width": 1.5
                                         })));
        const {name, format} = this.spec.x;
        showTip(
            event, `${name} ${(format || short)(closest)}`,
            near.map(
                ([line, p]) =>
                    [swatch(line.colour), line.brief || line.name,
                     this.spec.format(p[1]) +
                         (known(p[2]) && known(p[3]) ?
                              `  (${this.spec.format(p[2])} to ${this.spec.format(p[3])})` :
                              "")]));
    }
}
