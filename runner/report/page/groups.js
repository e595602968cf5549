// SPDX-License-Identifier: Apache-2.0
// What groups of runs have to show: statistics with intervals, profiles, and whether their runs are
// repeats.

const nameOf = (group) => group.values.map((value) => (value === "" ? "(none)" : value)).join(", ");

// -- Configs -------------------------------------------------------------------------------------

function groupDifferences({keys, groups, differences}) {
    const mono = (text) => make("td", {class: "mono text"}, text);
    const cell = (values) => mono(values.map((value) => (value === "" ? "–" : value)).join(" or "));
    const rows = differences.map(([key, ...lists]) => [mono(key), ...lists.map(cell)]);
    const own =
        keys.map((key, k) => [mono(key), ...groups.map((group) => mono(group.values[k] || "–"))]);
    return section(
        "differences", "Differences of the configs", null,
        card(
            "", null,
            lead(
                rows.length ?
                    "Beside the seed, the runs differ in more than the keys of the groups." :
                    "Beside the seed, the runs differ in the keys of the groups alone."),
            folded(["Key", ...groups.map(nameOf)], [...own, ...rows], "keys")));
}

function groupWarnings({groups, differences}, names) {
    const mixed = differences.filter(([, ...lists]) => lists.some((values) => values.length > 1))
                      .map(([key]) => key);
    const warnings = groups.flatMap(
        ({left_out, repeated}) =>
            [...left_out.map(([r, why]) => `${names[r]} is left out: ${why}.`),
             ...repeated.map(
                 ([r, before]) => `${names[r]} ended in the parameters of ${
                     names[before]}: it is counted as another run, and is the same.`)]);
    if (mixed.length)
        warnings.unshift(`Runs of one group differ by more than their seeds and are no repeats: ${
            count(mixed.length, "key")}, the first is ${mixed[0]}.`);
    const told = warnings.map((text) => make("p", {class: "warning"}, text)), shown = 3;
    const more = make("summary", {}, `${digits(told.length - shown, 0)} more warnings`);
    return told.length <= shown + 1 ?
        told :
        [told.slice(0, shown), make("details", {}, more, told.slice(shown))];
}

// -- Statistics ----------------------------------------------------------------------------------

const fine = (x) => (Math.abs(x) < 1000 ? digits(x, Math.abs(x) < 10 ? 3 : 1) : short(x));

function intervalCell(interval, format = fine) {
    if (!interval || !known(interval.value)) return make("td", {}, "–");
    const {value, low, high} = interval;
    return make(
        "td", {}, format(value),
        known(low) ? make("span", {class: "interval"}, ` [${format(low)}, ${format(high)}]`) :
                     null);
}

function groupResults(grouping, names) {
    const {groups, keys, resamples, confidence} = grouping, first = nameOf(groups[0]);
    const heads = [
        keys.length > 1 ? explained("Group", keys.join(", ")) : keys[0], "Runs",
        explained("Last return", "Mean return of the last evaluation"),
        explained("Interquartile mean", "Mean of the middle half of the last returns"),
        explained("Highest", "The highest last return"),
        explained(
            `Better than ${first}`,
            `Probability that a run has a higher last return than one of ${
                first}; equal ones count half`),
        explained("Best return", "Mean return of the best weights that a run leaves"),
        explained(
            "In training", "Mean return of training episodes in the last tenth of the env steps"),
        explained("At goal", "Runs that have reached env.stop_value"),
        explained("Env steps to goal", "Over the runs that have reached it")
    ];
    const rows = groups.map(
        (group, i) =>
            [named(swatch(colour(i)), nameOf(group)), String(group.runs.length),
             intervalCell(group.last.mean), intervalCell(group.last.iqm), short(group.last.max),
             intervalCell(group.improvement, percent), intervalCell(group.best.mean),
             intervalCell(group.train.mean), String(group.goal_env_steps.n),
             intervalCell(group.goal_env_steps.mean)]);
    return section(
        "groups", "Groups", null,
        card(
            "", null, groupWarnings(grouping, names), list(heads, rows),
            make(
                "p", {class: "sub"},
                `Means over runs; in brackets intervals of ${percent(confidence)}: percentile ` +
                    `bootstrap of a group's runs, ${digits(resamples, 0)} draws.`)));
}

function profiles({groups, thresholds}, lines, legend) {
    const series = lines
                       .map((line, i) => ({
                                ...line,
                                points: groups[i].profile.map(
                                    ({value, low, high}, k) => [thresholds[k], value, low, high])
                            }))
                       .filter((line) => line.points.some((p) => known(p[1])));
    const spec = {
        label: "performance profile",
        height: 220,
        x: {name: "last return above", format: short, mark: markText},
        format: percent,
        mark: percentMark,
        zero: true,
        series
    };
    return section(
        "profiles", "Performance profile", null,
        card(
            "", null,
            lead(
                "Share of a group's runs whose last return is above a threshold, with its interval."),
            new Chart(spec, legend).element));
}
