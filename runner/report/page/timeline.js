// SPDX-License-Identifier: Apache-2.0
// What ran where and when: a lane a worker, and one for communication, where waiting for other
// ranks is grey, and orange while no worker had anything to do: exposed. Drawn on a canvas: below a
// pixel, events are added up, and a column's height is the share of the time in it.

const LANE = 26, GAP = 6, GUTTER = 104, AXIS = 22, OVERVIEW = 34;

// Events of a trace by lane, in seconds; see history_json.c.
function unpackEvents(trace) {
    const lanes =
        trace.lanes.map(([name, rank, collectives]) => ({name, rank, collectives, events: []}));
    const ticks = 1e-7, packed = trace.events;
    let begin = Math.round(trace.begin_s / ticks);
    for (let i = 0; i < packed.length; i += 6) {
        begin += packed[i + 2];
        lanes[packed[i]].events.push({
            number: i / 6,
            name: packed[i + 1],
            begin: begin * ticks,
            end: (begin + packed[i + 3]) * ticks,
            iteration: packed[i + 4],
            shard: packed[i + 5]
        });
    }
    return lanes;
}

// Disjoint intervals in order, from events in order of their begin.
function union(events) {
    const list = [];
    for (const {begin, end} of events) {
        const last = list[list.length - 1];
        if (last && begin <= last[1])
            last[1] = Math.max(last[1], end);
        else
            list.push([begin, end]);
    }
    return list;
}

// What of a is not in b; both as union gives them.
function without(a, b) {
    const list = [];
    let k = 0;
    for (let [begin, end] of a) {
        while (k < b.length && b[k][1] <= begin) k++;
        for (let i = k; i < b.length && b[i][0] < end; i++) {
            if (b[i][0] > begin) list.push([begin, b[i][0]]);
            begin = Math.max(begin, b[i][1]);
        }
        if (begin < end) list.push([begin, end]);
    }
    return list;
}

// What the rate was, what it could be at most, and which step to improve first.
function boundsOf({bounds}) {
    if (!bounds) return null;
    const {of, iterations, rate, rates, steps, replayed} = bounds;
    const least = Math.min(...rates.map(([, bound]) => bound));
    const useful = steps.filter(([, faster]) => faster >= 0.005)
                       .map(([name, faster]) => `${name} ${digits(100 * faster, 0)} %`);
    const said = `The last ${digits(iterations, 0)} iterations made ${digits(rate, 1)} ${of}/s.`;
    const first = ` By a replay of their tasks, which makes ${
        digits(replayed, 1)}, a step that took no time would make them faster: `;
    const row = ([name, bound]) =>
        [name + (bound === least ? ", which binds" : ""), digits(bound, 1), percent(rate / bound),
         bar(rate / bound, bound === least ? "var(--c1)" : "var(--c7)")];
    return make(
        "div", {style: "margin-top:16px"},
        lead(said + (useful.length ? `${first}${useful.join(", ")}.` : "")),
        list(["Bound", `${of}/s`, "Reached", ""], rates.map(row)));
}

class Timeline {
    // With an iteration, what belongs to others is pale, and the trace begins at 0.
    constructor(trace, colours, iteration = null) {
        this.trace = trace;
        this.colours = colours;  // by name: a CSS variable
        this.iteration = iteration;
        this.lanes = unpackEvents(trace).filter((lane) => lane.events.length || !lane.collectives);
        const all = this.lanes.flatMap((lane) => lane.events);
        this.first = iteration === null ?
            Math.min(
                ...[trace.end_s, ...all.slice(0, 1).map((e) => e.begin),
                    ...this.lanes.filter((l) => l.events.length).map((l) => l.events[0].begin)]) :
            0;
        this.last = trace.end_s;
        this.view = [this.first, this.last];
        this.findExposed();
        this.places = [];  // by an event's number: it and its lane
        this.lanes.forEach(
            (lane, i) => lane.events.forEach((event) => (this.places[event.number] = [event, i])));
        this.selected = null;
        this.overview = make("canvas", {class: "overview", "aria-hidden": "true"});
        this.canvas = make("canvas", {
            class: "lanes",
            tabindex: 0,
            role: "img",
            "aria-label": "timeline of workers and communication"
        });
        this.element = make("div", {}, iteration === null ? this.overview : null, this.canvas);
        this.listen();
        whenSized(this.element, (width) => {
            this.width = width;
            this.draw();
        });
        redraws.push(() => this.draw());
    }

    findExposed() {
        const work = union(this.lanes.filter((lane) => !lane.collectives)
                               .flatMap((lane) => lane.events)
                               .sort((a, b) => a.begin - b.begin));
        for (const lane of this.lanes)
            if (lane.collectives)
                lane.exposed =
                    without(union(lane.events), work).map(([begin,
                                                            end]) => ({begin, end, exposed: true}));
    }

    controls() {
        const button = (text, title, act) =>
            make("button", {type: "button", title, click: act}, text);
        return make(
            "div", {class: "segments", role: "group", "aria-label": "zoom"},
            button("−", "zoom out", () => this.zoom(2)),
            button("+", "zoom in", () => this.zoom(0.5)),
            button("All", "show everything", () => this.show(this.first, this.last)));
    }

    show(begin, end) {
        const least = 2e-6,
              span = Math.min(Math.max(end - begin, least), this.last - this.first || least);
        begin = Math.max(this.first, Math.min(begin, this.last - span));
        this.view = [begin, begin + span];
        this.draw();
    }

    zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
        const [begin, end] = this.view;
        this.show(around - (around - begin) * factor, around + (end - around) * factor);
    }

    inner() { return Math.max(1, this.width - GUTTER - 4); }

    timeAt(px) {
        return this.view[0] + ((px - GUTTER) / this.inner()) * (this.view[1] - this.view[0]);
    }

    // -- Drawing --------------------------------------------------------------------------------

    prepare(canvas, height) {
        const ratio = devicePixelRatio || 1;
        canvas.width = Math.round(this.width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.height = `${height}px`;
        const c = canvas.getContext("2d");
        c.scale(ratio, ratio);
        c.clearRect(0, 0, this.width, height);
        c.font = "11.5px system-ui, sans-serif";
        c.textBaseline = "middle";
        return c;
    }

    draw() {
        if (!this.width) return;
        this.paint = this.colours.map((name) => styleOf(name));
        this.soft = styleOf("--soft");
        if (this.iteration === null) this.drawOverview();
        const height = AXIS + this.lanes.length * (LANE + GAP);
        const c = this.prepare(this.canvas, height);
        this.drawAxis(c, height);
        this.lanes.forEach((lane, i) => {
            const y = AXIS + i * (LANE + GAP);
            c.fillStyle = this.soft;
            c.textAlign = "left";
            c.fillText(lane.collectives ? "communication" : lane.name, 0, y + LANE / 2);
            c.fillStyle = styleOf("--grid");
            c.fillRect(GUTTER, y, this.inner(), LANE);
            if (lane.collectives) {
                this.drawEvents(c, lane.events, y, () => styleOf("--wait"));
                this.drawEvents(c, lane.exposed, y, () => styleOf("--c1"));
            } else
                this.drawEvents(c, lane.events, y, (event) => this.paint[event.name], true);
        });
        if (this.selected) this.drawArrows(c);
    }

    // Numbers of the events that the selected one waited for, and of those that waited for it.
    neighbours(number) {
        const before = [], after = [], {arrows = []} = this.trace;
        for (let i = 0; i < arrows.length; i += 2) {
            if (arrows[i + 1] === number) before.push(arrows[i]);
            if (arrows[i] === number) after.push(arrows[i + 1]);
        }
        return {before, after};
    }

    // Frames the selected event, and draws arrows to it and from it.
    drawArrows(c) {
        const [begin, end] = this.view, scale = this.inner() / (end - begin);
        const x = (time) => GUTTER + (time - begin) * scale, top = (i) => AXIS + i * (LANE + GAP);
        const {before, after} = this.neighbours(this.selected.number);
        const arrow = ([from, i], [to, k]) => {
            const x0 = x(from.end), x1 = x(to.begin), y0 = top(i) + LANE / 2,
                  y1 = top(k) + LANE / 2;
            const bend = Math.max(16, Math.abs(x1 - x0) / 2), head = 5;
            c.beginPath();
            c.moveTo(x0, y0);
            c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
            c.moveTo(x1 - head, y1 - head);
            c.lineTo(x1, y1);
            c.lineTo(x1 - head, y1 + head);
            c.stroke();
        };
        const own = this.places[this.selected.number];
        c.save();
        c.beginPath();
        c.rect(GUTTER, AXIS, this.inner(), this.lanes.length * (LANE + GAP));
        c.clip();
        c.strokeStyle = styleOf("--text");
        c.lineWidth = 1.5;
        before.forEach((number) => arrow(this.places[number], own));
        after.forEach((number) => arrow(own, this.places[number]));
        const x0 = x(own[0].begin);
        c.lineWidth = 2;
        c.strokeRect(x0, top(own[1]) + 1, Math.max(2, x(own[0].end) - x0), LANE - 2);
        c.restore();
    }

    drawAxis(c, height) {
        const [begin, end] = this.view, step = niceStep(end - begin, this.inner() / 110);
        c.textAlign = "center";
        for (let k = Math.ceil(begin / step); k * step <= end; k++) {
            const x = GUTTER + ((k * step - begin) / (end - begin)) * this.inner();
            c.fillStyle = styleOf("--grid");
            c.fillRect(Math.round(x), AXIS - 5, 1, height - AXIS);
            c.fillStyle = this.soft;
            c.textAlign = x > this.width - 30 ? "right" : x < GUTTER + 20 ? "left" : "center";
            c.fillText(timeLabel(k * step, step), x, 8);
        }
    }

    // Events of a lane do not overlap, so what is below a pixel fills its column from the ground.
    drawEvents(c, events, y, paintOf, named) {
        const [begin, end] = this.view, scale = this.inner() / (end - begin);
        let pixel = -1, filled = 0, paints = new Map();
        const flush = () => {
            if (filled <= 0) return;
            const paint = [...paints].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
            const height = Math.max(1.5, Math.min(1, filled) * LANE);
            c.fillStyle = paint;
            c.fillRect(GUTTER + pixel, y + LANE - height, 1, height);
            filled = 0;
            paints = new Map();
        };
        for (let i = firstEnding(events, begin); i < events.length && events[i].begin < end; i++) {
            const event = events[i], paint = paintOf(event);
            const x0 = Math.max(0, (event.begin - begin) * scale),
                  x1 = Math.min(this.inner(), (event.end - begin) * scale);
            if (x1 - x0 < 1) {
                if (Math.floor(x0) !== pixel) {
                    flush();
                    pixel = Math.floor(x0);
                }
                filled += x1 - x0;
                paints.set(paint, (paints.get(paint) || 0) + x1 - x0);
                continue;
            }
            c.fillStyle = paint;
            c.globalAlpha = this.isOther(event) ? 0.35 : 1;
            c.fillRect(GUTTER + x0, y, Math.max(1, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0)), LANE);
            c.globalAlpha = 1;
            if (named) this.label(c, event, x0, x1, y);
        }
        flush();
    }

    isOther({iteration}) {
        return this.iteration !== null && iteration !== undefined && iteration !== this.iteration;
    }

    label(c, event, x0, x1, y) {
        const name = this.trace.sums[event.name][0];
        if (x1 - x0 < 7 * name.length + 8) return;
        c.fillStyle = document.documentElement.dataset.theme === "dark" ? "#101418" : "#ffffff";
        c.textAlign = "left";
        c.fillText(name, GUTTER + x0 + 5, y + LANE / 2 + 0.5);
    }

    // The share of all workers' time over the whole run, with the view marked.
    drawOverview() {
        const c = this.prepare(this.overview, OVERVIEW), n = this.inner(),
              busy = new Float64Array(Math.ceil(n) + 1);
        const scale = n / (this.last - this.first),
              workers = this.lanes.filter((lane) => !lane.collectives);
        for (const lane of workers)
            for (const event of lane.events) {
                const x0 = (event.begin - this.first) * scale,
                      x1 = Math.min(n, (event.end - this.first) * scale);
                for (let x = Math.floor(x0); x < x1; x++)
                    busy[x] += Math.min(x + 1, x1) - Math.max(x, x0);
            }
        c.fillStyle = this.soft;
        c.textAlign = "left";
        c.fillText("workers busy", 0, OVERVIEW / 2);
        c.fillStyle = styleOf("--grid");
        c.fillRect(GUTTER, 0, n, OVERVIEW);
        c.fillStyle = styleOf("--faint");
        for (let x = 0; x < n; x++) {
            const height = (OVERVIEW - 2) * Math.min(1, busy[x] / Math.max(1, workers.length));
            c.fillRect(GUTTER + x, OVERVIEW - height, 1, height);
        }
        const from = (this.view[0] - this.first) * scale, to = (this.view[1] - this.first) * scale;
        if (to - from > n - 0.5) return;
        c.fillStyle = styleOf("--accent");
        c.globalAlpha = 0.2;
        c.fillRect(GUTTER + from, 0, Math.max(2, to - from), OVERVIEW);
        c.globalAlpha = 1;
        c.fillRect(GUTTER + from, 0, 1.5, OVERVIEW);
        c.fillRect(GUTTER + Math.max(from + 2, to) - 1.5, 0, 1.5, OVERVIEW);
    }

    // -- Pointer and keys -----------------------------------------------------------------------

    listen() {
        let held = null;
        this.canvas.addEventListener("pointerdown", (event) => {
            held = {x: event.offsetX, view: this.view};
            this.canvas.setPointerCapture(event.pointerId);
            hideTip();
        });
        this.canvas.addEventListener("pointerup", (event) => {
            if (held && Math.abs(event.offsetX - held.x) <= 3) {
                this.selected = this.eventAt(event).hit || null;
                this.draw();
            }
            held = null;
        });
        this.canvas.addEventListener("pointermove", (event) => {
            if (!held) return this.point(event);
            const moved = ((held.x - event.offsetX) / this.inner()) * (held.view[1] - held.view[0]);
            this.show(held.view[0] + moved, held.view[1] + moved);
        });
        this.canvas.addEventListener("pointerleave", hideTip);
        this.canvas.addEventListener("wheel", (event) => {
            // Only once it was clicked, so that the page scrolls under the pointer as any other.
            if (document.activeElement !== this.canvas && !event.ctrlKey) return;
            event.preventDefault();
            this.zoom(
                Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))),
                this.timeAt(event.offsetX));
            this.point(event);
        }, {passive: false});
        this.canvas.addEventListener(
            "dblclick", (event) => this.zoom(0.25, this.timeAt(event.offsetX)));
        this.canvas.addEventListener("keydown", (event) => {
            const step = (this.view[1] - this.view[0]) / 5;
            const act = {
                ArrowLeft: () => this.show(this.view[0] - step, this.view[1] - step),
                ArrowRight: () => this.show(this.view[0] + step, this.view[1] + step),
                "+": () => this.zoom(0.5),
                "=": () => this.zoom(0.5),
                "-": () => this.zoom(2),
                0: () => this.show(this.first, this.last)
            }[event.key];
            if (!act) return;
            event.preventDefault();
            act();
        });
        this.listenOverview();
    }

    // A drag picks the stretch, a click moves it.
    listenOverview() {
        let from = null;
        const timeAt = (event) =>
            this.first + ((event.offsetX - GUTTER) / this.inner()) * (this.last - this.first);
        this.overview.addEventListener("pointerdown", (event) => {
            from = event;
            this.overview.setPointerCapture(event.pointerId);
        });
        this.overview.addEventListener("pointermove", (event) => {
            if (from && Math.abs(event.offsetX - from.offsetX) > 3)
                this.show(
                    Math.min(timeAt(from), timeAt(event)), Math.max(timeAt(from), timeAt(event)));
        });
        this.overview.addEventListener("pointerup", (event) => {
            const half = (this.view[1] - this.view[0]) / 2;
            if (from && Math.abs(event.offsetX - from.offsetX) <= 3)
                this.show(timeAt(event) - half, timeAt(event) + half);
            from = null;
        });
    }

    // The lane and, if there is one, the event at the pointer.
    eventAt(event) {
        const i = Math.floor((event.offsetY - AXIS) / (LANE + GAP)), lane = this.lanes[i];
        const time = this.timeAt(event.offsetX),
              slack = (2 / this.inner()) * (this.view[1] - this.view[0]);
        if (!lane || event.offsetX < GUTTER || event.offsetY < AXIS) return {};
        const hit = lane.events[firstEnding(lane.events, time - slack)];
        return {lane, hit: hit && hit.begin <= time + slack ? hit : null};
    }

    point(event) {
        const {lane, hit} = this.eventAt(event);
        if (!hit) return hideTip();
        const names = (numbers) => [...new Set(numbers.map(
                                        (n) => this.trace.sums[this.places[n][0].name][0]))]
                                       .join(", ");
        const {before, after} = this.neighbours(hit.number);
        const exposed = lane.collectives ?
            sum(lane.exposed.filter((e) => e.begin < hit.end && e.end > hit.begin)
                    .map((e) => Math.min(e.end, hit.end) - Math.max(e.begin, hit.begin))) :
            null;
        showTip(event, (lane.collectives ? "waits in " : "") + this.trace.sums[hit.name][0], [
            [null, "took", duration(hit.end - hit.begin)],
            [null, "from", timeLabel(hit.begin, 1e-6)],
            [null, "iteration", digits(hit.iteration, 0)],
            ...(hit.shard >= 0 ? [[null, "shard", String(hit.shard)]] : []),
            ...(exposed === null ? [] : [[null, "exposed", duration(exposed)]]),
            ...(before.length ? [[null, "waited for", names(before)]] : []),
            ...(after.length ? [[null, "then came", names(after)]] : [])
        ]);
    }
}

// Index of the first event that ends after t.
function firstEnding(events, t) {
    let low = 0, high = events.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (events[middle].end <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A moment, as exactly as marks `step` apart need.
function timeLabel(s, step) {
    const rest = (places) => Math.abs(step * 10 ** places - Math.round(step * 10 ** places));
    let places = 0;
    while (places < 6 && rest(places) > 1e-6) places++;
    return places ? `${s.toFixed(places)} s` : `${digits(s, 0)} s`;
}
