// SPDX-License-Identifier: Apache-2.0
// The page of simulations: what a cluster would do.

// The horizontal axis has the same distance from each number of nodes to its double.
const NODES = {
    name: "nodes",
    format: (x) => digits(2 ** x, 0),
    mark: (x) => (Number.isInteger(x) ? digits(2 ** x, 0) : "")
};

const strategiesOf = (data) => [...new Set(data.results.map((result) => result.strategy))];

function overNodes(data, label, value, more) {
    const series = strategiesOf(data).map(
        (name, i) => line(
            name, i,
            data.results.filter((result) => result.strategy === name)
                .map((result) => [Math.log2(result.nodes), value(result)])));
    const dots = series.map((one) => ({...one, dots: true}));
    return new Chart(
               {label, height: 220, x: NODES, format: short, zero: true, series: dots, ...more})
        .element;
}

function simulatedRates(data) {
    const share = {format: percent, mark: percentMark};
    return section(
        "rates", "Rates", null,
        make(
            "div", {class: "cards"},
            card(
                "half", "Updates per second",
                overNodes(data, "updates per second", (result) => result.updates_per_s)),
            card(
                "half", "Environment steps per second",
                overNodes(
                    data, "environment steps per second", (result) => result.env_steps_per_s)),
            card(
                "half", "Efficiency: environment steps per second and node, relative to one node",
                overNodes(data, "efficiency", (result) => result.efficiency, share)),
            card(
                "half", "Exposed communication of an update, mean over ranks",
                overNodes(
                    data, "exposed communication", (result) => result.exposed_s_per_update,
                    {format: duration, mark: duration}))));
}

const pathName = (part) => (part.message ? "exchange of " : "") + part.name;

// The names with the largest shares anywhere, each over the numbers of nodes.
function pathSeries(data, strategy) {
    const results = data.results.filter((result) => result.strategy === strategy);
    const largest = new Map();
    for (const result of results)
        for (const part of result.path)
            largest.set(pathName(part), Math.max(largest.get(pathName(part)) || 0, part.share));
    const names = [...largest.keys()].sort((a, b) => largest.get(b) - largest.get(a));
    const shareOf = (result, name) => {
        const part = result.path.find((one) => pathName(one) === name);
        return part ? part.share : 0;
    };
    return names.slice(0, COLOURS)
        .map((name, i) => ({
                 ...line(
                     name, i,
                     results.map((result) => [Math.log2(result.nodes), shareOf(result, name)])),
                 dots: true
             }));
}

function criticalPath(data) {
    const spec = (strategy) => ({
        label: "critical path",
        height: 300,
        x: NODES,
        format: percent,
        mark: percentMark,
        zero: true,
        series: pathSeries(data, strategy)
    });
    const names = strategiesOf(data), chart = new Chart(spec(names[0]));
    const choose = (name) => chart.set(spec(name));
    return section(
        "path", "Critical path",
        segments("strategy", names.map((name) => [name, name]), names[0], choose),
        card(
            "",
            "Share of the time, by name, on the chain of tasks, messages and submissions that " +
                "ends last",
            chart.element));
}

function simulatedTable(data) {
    const heads = [
        "Strategy", "Nodes", "Ranks", "Shards", "Updates/s", "Env steps/s", "Efficiency", "Exposed",
        "Sent per update", "Busy", "Longest on the critical path"
    ];
    const rows = data.results.map(
        (result) =>
            [result.strategy, short(result.nodes), short(result.ranks), short(result.shards),
             short(result.updates_per_s), short(result.env_steps_per_s), percent(result.efficiency),
             duration(result.exposed_s_per_update), bytes(result.sent_bytes_per_update),
             percent(result.busy),
             result.path.length ? `${pathName(result.path[0])}, ${percent(result.path[0].share)}` :
                                  "–"]);
    return section("results", "Results", null, card("", null, list(heads, rows)));
}

function simulatedFrom(data) {
    const calibrations =
        Object.entries(data.calibrations)
            .map(
                ([name, one]) =>
                    [name, short(one.updates_per_s), short(one.shards), duration(one.submit_s),
                     duration(one.start_s), `${bytes(one.bytes_per_s)}/s`,
                     `${bytes(one.socket_bytes_per_s)}/s`, short(one.tasks)]);
    return section(
        "from", "What it was computed from", null,
        make(
            "div", {class: "cards"}, card("third", "Options", definitions(data.options)),
            card("third", "Calibration", definitions(data.calibration)),
            card(
                "", "Calibrated strategies, of one rank with one worker",
                list(
                    [
                        "Strategy", "Updates/s", "Shards", "Submitting a task", "Starting a task",
                        "Adding vectors", "Sockets", "Kinds of tasks"
                    ],
                    calibrations)),
            card(
                "", "What is modelled",
                make("ul", {}, data.notes.map((note) => make("li", {}, note))))));
}

function simulationPage(data) {
    const most = Math.max(...data.results.map((result) => result.ranks));
    byId("page").append(
        heading(data.name, `simulated on up to ${count(most, "rank")}, ${data.network}`),
        simulatedRates(data), criticalPath(data), simulatedTable(data), simulatedFrom(data),
        footer(data));
}
