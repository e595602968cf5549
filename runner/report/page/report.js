// SPDX-License-Identifier: Apache-2.0
// The page of one run.

// -- The run -------------------------------------------------------------------------------------

function machinePairs(start) {
    const m = start.machine, limit = [];
    if (m.cgroup_cores > 0) limit.push(`${digits(m.cgroup_cores, 1)} cores`);
    if (m.cgroup_memory_bytes > 0) limit.push(bytes(m.cgroup_memory_bytes));
    return [
        ["Host", m.host], ["Processor", m.cpu],
        [
            "Cores",
            `${m.cores} (${count(m.threads, "thread")}, ${count(m.packages, "package")}, ${
                count(m.numa_nodes, "NUMA node")})`
        ],
        ["Of rank 0", count(m.allowed_cores, "core")],
        ["Memory", `${bytes(m.memory_bytes)}, ${bytes(m.memory_free_bytes)} free at the start`],
        ["cgroup limits", limit.join(", ") || "none"], ["Governor", m.governor],
        ["Kernel", m.kernel], ["GPUs", start.gpus.join("; ") || "none used"]
    ];
}

// Those of the last weights, if these were evaluated when a limit had ended the run.
function returnsOf(result) {
    const last = known(result.last_value);
    const returns = (last ? result.last_value_raw : result.eval_value_raw) || [];
    const update = last ? result.train_iter : result.eval_train_iter;
    return returns.length && known(update) ?
        `${returns.map((x) => short(x)).join(", ")} of update ${short(update)}` :
        "";
}

function resultPairs(run) {
    const result = run.result || {};
    return [
        ["Ended by", result.reason], ["Started", run.start ? moment(run.start.time) : null],
        ["Ended", result.end_time ? moment(result.end_time) : null],
        ["Last evaluation", returnsOf(result)],
        ["In training", known(result.train_value) ? short(result.train_value) : null],
        ["Weights", result.weights, "mono"], ["param_hash", result.param_hash, "mono"],
        ["Arithmetic", result.fingerprint || (run.start || {}).fingerprint, "mono"],
        ["Directory", run.dir, "mono"], ["Command", result.command, "mono"],
        ["Parts", run.starts > 1 ? `${run.starts}: it was started again` : null]
    ];
}

// The comments are the program's: whether a number is per shard, per rank or global.
function yaml(text) {
    return make("pre", {}, text.split("\n").map((line) => {
        const at = line.lastIndexOf("  # ");
        return at < 0 ? line + "\n" :
                        [line.slice(0, at), make("span", {class: "note"}, line.slice(at)), "\n"];
    }));
}

function about(run) {
    const {start} = run,
          cards = [card(start ? "third" : "", "Result", definitions(resultPairs(run)))];
    if (start) {
        const versions = Object.entries(start.versions),
              title = "What the bits depend on beside config and seed";
        cards.push(
            card("third", "Machine", definitions(machinePairs(start))),
            card("third", "Versions", definitions(versions)));
        cards.push(card("", title, make("div", {class: "mono"}, start.arithmetic)));
    }
    const summary = make("summary", {}, "Effective config (total_config.yaml)");
    cards.push(card("", null, make("details", {id: "config"}, summary, yaml(run.yaml))));
    return section("run", "Run", null, make("div", {class: "cards"}, cards));
}

// -- The page ------------------------------------------------------------------------------------

// What the last part of the run counted, and all parts together.
function totalsOf(run) {
    const last = (name) => {
        const list = column(run.samples, name);
        return list && list.length ? list[list.length - 1] : null;
    };
    const seconds = last("s"), result = run.result || {}, {evaluator} = run.tables;
    const part_s = seconds === null ? null : seconds - (run.start ? run.start.offset_s : 0);
    const evaluations =
        evaluator ? column(evaluator, "eval_episode_return_mean").filter(known) : [];
    return {
        seconds,
        part_s,
        peak: last("peak_bytes"),
        busy: last("busy_s"),
        exposed: last("exposed_s"),
        updates: result.train_iter ?? last("update"),
        env_steps: result.env_step || last("env_step"),
        eval: result.last_value ?? result.eval_value ??
            (evaluations.length ? evaluations[evaluations.length - 1] : null),
        best: result.best_value ?? (evaluations.length ? Math.max(...evaluations) : null),
        best_update: result.best_train_iter ?? null
    };
}

const EXPOSED = "Share of the training time in which rank 0 waited for other ranks and no worker " +
    "of it had a task";

function figures(run, totals) {
    const {workers, ranks, setup_s} = run.start || {}, {seconds, part_s, best} = totals;
    const of = totals.best_update === null ? "" : ` of update ${short(totals.best_update)}`;
    const goal = goalOf(run) === null ? "" : `, goal ${short(run.stop_value)}`;
    const rate = (n) => (seconds > 0 && known(n) ? `${short(n / seconds)} per second` : "");
    const busy = part_s > 0 ? percent(totals.busy / (part_s * workers)) : "–";
    const exposed = ranks > 1 && part_s > 0 ? percent(totals.exposed / part_s) : "–";
    return make(
        "div", {class: "figures"},
        figure(
            "Return", short(totals.eval),
            best === null ? "no evaluation" : `best ${short(best)}${of}${goal}`),
        figure("Updates", short(totals.updates), rate(totals.updates)),
        totals.env_steps > 0 ?
            figure("Env steps", short(totals.env_steps), rate(totals.env_steps)) :
            null,
        figure("Training", duration(seconds), setup_s ? `set-up ${duration(setup_s)}` : ""),
        figure(
            "Workers busy", busy, workers ? `${count(workers, "worker")} of rank 0` : "",
            "Share of the training time that workers spent in tasks"),
        figure("Exposed", exposed, ranks > 1 ? "communication" : "no communication", EXPOSED),
        figure(
            "Memory", bytes(totals.peak), "peak of rank 0",
            "The most memory that the process of rank 0 had at a time"));
}

function badge(run) {
    const kind = run.result ? (run.result.stop ? "good" : "") : "bad";
    const text = run.result ? run.result.reason || "ended" :
        run.end             ? run.end.reason :
                              "has not ended";
    return make("span", {class: `badge ${kind}`}, text);
}

function heading(name, line, ...right) {
    document.title = name;
    return make(
        "header", {}, make("div", {}, make("h1", {}, name), make("p", {class: "sub"}, line)), right,
        themeButton());
}

const ZOOM = "Drag over a curve to zoom, double-click to go back.";
const footer = (data, hint = ZOOM) => make("footer", {}, `heddle ${data.version}. ${hint}`);

function reportPage(data) {
    const run = data.runs[0], totals = totalsOf(run), start = run.start || run.result || {};
    const colours = run.trace ? coloursOf(run.trace.sums) : [];
    if (run.config.length === 0) {  // a trace alone
        byId("page").append(
            heading(run.dir, `${count(run.trace.workers, "worker")} of rank ${run.trace.rank}`),
            timeline(run, colours), times(run, colours, totals), footer(data));
        return;
    }
    const seed = (run.config.find(([key]) => key === "seed") || [])[1];
    const line = [
        `${run.policy} on ${run.env}`, start.ranks ? count(start.ranks, "rank") : null,
        start.shards ? count(start.shards, "shard") : null,
        seed === undefined ? null : `seed ${seed}`
    ].filter(Boolean).join(" · ");
    byId("page").append(
        ...[heading(run.name, line, badge(run)), figures(run, totals), learning(run, data.videos),
            throughput(run), graph(run), timeline(run, colours), times(run, colours, totals),
            memory(run, totals), about(run), footer(data)]
            .filter(Boolean));
}
