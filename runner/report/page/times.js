// SPDX-License-Identifier: Apache-2.0
// When what ran, where the time went, and what holds memory.

// -- Timeline ------------------------------------------------------------------------------------

// The names that take most time get the colours of their own; orange is exposed communication's.
function coloursOf(sums) {
    const own = ["--c0", "--c2", "--c3", "--c4", "--c5", "--c6"], names = sums.map(() => "--c7");
    byTime(sums, false).slice(0, own.length).forEach((i, rank) => (names[i] = own[rank]));
    return names;
}

// Indices of what workers did, or of waits for other ranks, the longest first.
function byTime(sums, wait) {
    return sums.map((_, i) => i)
        .filter((i) => sums[i][1] === wait && sums[i][2] > 0)
        .sort((a, b) => sums[b][3] - sums[a][3]);
}

function timelineLegend(sums, colours) {
    const item = (name, paint) => make("span", {}, swatch(`var(${paint})`), name);
    const work = byTime(sums, false), others = work.some((i) => colours[i] === "--c7");
    const items =
        work.filter((i) => colours[i] !== "--c7").map((i) => item(sums[i][0], colours[i]));
    if (others) items.push(item("everything else", "--c7"));
    if (byTime(sums, true).length)
        items.push(
            item("waiting for other ranks", "--wait"),
            item("… and no worker had work (exposed)", "--c1"));
    return make("div", {class: "legend below"}, items);
}

function timeline(run, colours) {
    const {trace} = run;
    if (!trace || trace.n_events === 0) {
        const how = empty(
            "This run was not traced. Train with ", code("--trace"),
            " to see what every worker did when, here and in ", code("trace.json"),
            ", which ui.perfetto.dev opens.");
        return section("timeline", "Timeline", null, card("", null, how));
    }
    const view = new Timeline(trace, colours), shown = trace.n_events - trace.left_out;
    const hint = make(
        "span", {class: "hint"},
        "Drag to move, click and scroll to zoom, click a task for its arrows, or pick a stretch above.");
    let note = null;
    if (trace.left_out)
        note = empty(`The newest ${digits(shown, 0)} of ${
            digits(trace.n_events, 0)} events; trace.json has all of them.`);
    else if (trace.cut)
        note = empty("A trace keeps the newest events of every worker.");
    return section(
        "timeline", `Timeline of rank ${trace.rank}`, [hint, view.controls()],
        card("", null, view.element, timelineLegend(trace.sums, colours), note, boundsOf(trace)));
}

// -- Where the time went -------------------------------------------------------------------------

function timesFromTrace(trace, colours) {
    const span = trace.end_s - trace.begin_s;
    const row = (i) => {
        const [name, wait, n, busy, any] = trace.sums[i],
                                    paint = `var(${wait ? "--wait" : colours[i]})`;
        return [
            named(swatch(paint), name), digits(n, 0), duration(busy), duration(busy / n),
            duration(any), percent(any / span), bar(any / span, paint)
        ];
    };
    const work = byTime(trace.sums, false).map(row), waits = byTime(trace.sums, true).map(row);
    if (waits.length) work.push("Waiting for other ranks", ...waits);
    const heads = [
        "Step", "Count", explained("In all", "Summed over all workers"), "Each",
        explained("Elapsed", "Time in which at least one worker was at this step"),
        explained("Share", "Of the traced time: how long at least one worker was at this step"), ""
    ];
    return list(heads, work);
}

function summaryOfTrace(trace) {
    const span = trace.end_s - trace.begin_s, workers = count(trace.workers, "worker");
    const busy = sum(byTime(trace.sums, false).map((i) => trace.sums[i][3]));
    const said = [
        `${duration(span)} traced`,
        `${workers} busy ${percent(busy / (span * trace.workers))} of the time, at least one ${
            percent(trace.worked_s / span)}`
    ];
    if (trace.waited_s > 0)
        said.push(`communication open ${percent(trace.waited_s / span)}, exposed ${
            percent(trace.exposed_s / span)}`);
    return lead(said.join("; ") + ".");
}

function timesFromTotals(run, seconds) {
    const all = seconds * run.start.workers, verbs = [...run.end.verbs].sort((a, b) => b[2] - a[2]);
    const row = ([name, n, busy]) =>
        [name, digits(n, 0), duration(busy), duration(busy / n), percent(busy / all),
         bar(busy / all, colour(0))];
    return list(["Verb", "Count", "In all", "Each", "Share of workers", ""], verbs.map(row));
}

function times(run, colours, totals) {
    const {trace} = run;
    let content = [empty("The run has not ended in order, so it left no totals.")];
    if (trace && trace.n_events > 0)
        content = [summaryOfTrace(trace), timesFromTrace(trace, colours)];
    else if (run.end && run.start)
        content = [timesFromTotals(run, totals.part_s)];
    return section("times", "Where the time went", null, card("", null, content));
}

// -- Memory --------------------------------------------------------------------------------------

function memory(run, totals) {
    if (!run.start) return null;
    const {values, scratch_bytes, exchange_bytes, shared_bytes} = run.start;
    const inAll = ([, , , instances, copies, each]) => instances * copies * each;
    const sorted = [...values].sort((a, b) => inAll(b) - inAll(a)),
          most = Math.max(1, ...values.map(inAll));
    const row = (value) => {
        const [name, type, place, instances, copies, each] = value;
        return [
            name, type, place, digits(instances, 0), digits(copies, 0), bytes(each),
            bytes(inAll(value)), bar(inAll(value) / most, colour(3))
        ];
    };
    const transport = exchange_bytes + shared_bytes;
    const said = lead(`Rank 0 had at most ${bytes(totals.peak)} resident. Its values take ${
        bytes(sum(values.map(inAll)))}, tasks' scratch ${
        bytes(scratch_bytes)} a worker, the transport between ranks ${bytes(transport)}.`);
    return section(
        "memory", "Memory", null,
        card(
            "", null, said,
            list(
                ["Value", "Type", "Where", "Instances", "Copies", "Each", "In all", ""],
                sorted.map(row))));
}
