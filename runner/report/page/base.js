// SPDX-License-Identifier: Apache-2.0
// What all parts of a page share: elements, numbers as text, colours, the tooltip. Texts of a run
// become text nodes only, never HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 12;

// An element; attributes that are functions become listeners; children may be texts, null or lists.
function make(tag, attributes, ...children) {
    const [name, space] = tag.startsWith("svg:") ? [tag.slice(4), SVG] : [tag, null];
    const element = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (typeof value === "function")
            element.addEventListener(key, value);
        else if (value !== null && value !== undefined && value !== false)
            element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
    return element;
}

const byId = (id) => document.getElementById(id);
const colour = (i) => `var(--c${i % COLOURS})`;
const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dashed = (paint) => `repeating-linear-gradient(90deg, ${paint} 0 4px, transparent 4px 7px)`;
const swatch = (paint, thin, dash) => make(
    "span",
    {class: thin ? "swatch thin" : "swatch", style: `background:${dash ? dashed(paint) : paint}`});
const sum = (list) => list.reduce((total, x) => total + x, 0);
const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

// -- Numbers as text ---------------------------------------------------------------------------

function fixed(x, least, most) {
    return x.toLocaleString("en", {minimumFractionDigits: least, maximumFractionDigits: most})
        .replace("-", "−");
}

const digits = (x, n) => fixed(x, 0, n);

// 1,234 / 12.3 k / 4.56 M: at most four digits.
function short(x) {
    if (!known(x)) return "–";
    const size = Math.abs(x);
    if (size >= 1e9) return digits(x / 1e9, 2) + " G";
    if (size >= 1e6) return digits(x / 1e6, 2) + " M";
    if (size >= 1e5) return digits(x / 1e3, 0) + " k";
    if (size >= 1e4) return digits(x / 1e3, 1) + " k";
    if (size >= 100 || Number.isInteger(x)) return digits(x, 0);
    if (size >= 1) return digits(x, 2);
    if (size >= 1e-3) return fixed(x, 0, 5);
    return x === 0 ? "0" : x.toExponential(1).replaceAll("-", "−");
}

function duration(s) {
    if (!known(s)) return "–";
    const size = Math.abs(s);
    if (size === 0) return "0 s";
    if (size < 1e-6) return digits(s * 1e9, 0) + " ns";
    if (size < 1e-3) return digits(s * 1e6, size < 1e-5 ? 2 : 1) + " µs";
    if (size < 1) return digits(s * 1e3, size < 1e-2 ? 2 : 1) + " ms";
    if (size < 120) return digits(s, size < 10 ? 2 : 1) + " s";
    if (size < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
    return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

function bytes(n) {
    if (!known(n)) return "–";
    for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
        if (n >= size)
            return digits(n / size, n >= 100 * size ? 0 : n >= 10 * size ? 1 : 2) + " " + unit;
    return digits(n, 0) + " B";
}

function percent(share) {
    if (!known(share)) return "–";
    return share > 0 && share < 0.0005 ? "< 0.1 %" :
                                         digits(100 * share, share < 0.0995 ? 1 : 0) + " %";
}

// Marks of an axis that are `step` apart, all to the same digits.
function markText(x, step) {
    if (step >= 1e4) return short(x);
    if (step < 1e-4) return x === 0 ? "0" : x.toExponential(1).replaceAll("-", "−");
    let places = 0;
    while (places < 6 && Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) > 1e-6)
        places++;
    return fixed(x, places, places);
}

function timeMark(s, step) {
    for (const [unit, size] of [["h", 3600], ["min", 60]])
        if (step >= size) return `${markText(s / size, step / size)} ${unit}`;
    return `${markText(s, step)} s`;
}

// Of a time in seconds since 1970, or in ISO 8601.
function moment(time) {
    const date = new Date(typeof time === "number" ? time * 1000 : time);
    return Number.isNaN(date.getTime()) ?
        "–" :
        date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

const percentMark = (share, step) => `${markText(100 * share, 100 * step)} %`;
const count = (n, one, many) => `${digits(n, 0)} ${n === 1 ? one : many || one + "s"}`;

// -- Tables of columns and rows ----------------------------------------------------------------

// A reader of {columns, rows}: column(name) gives the values, or null where there is none.
function column(table, name) {
    const i = table ? table.columns.indexOf(name) : -1;
    return i < 0 ? null : table.rows.map((row) => row[i]);
}

// -- The tooltip -------------------------------------------------------------------------------

function showTip(event, title, rows) {
    const tip = byId("tip");
    tip.replaceChildren(
        make("div", {class: "title"}, title),
        make(
            "table", {},
            rows.map(
                ([mark, name, value]) =>
                    make("tr", {}, make("td", {}, mark, name), make("td", {}, value)))));
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    const right = event.clientX + gap + box.width > innerWidth - 8;
    const x = right ? event.clientX - gap - box.width : event.clientX + gap;
    const y = Math.min(event.clientY + gap, innerHeight - box.height - 8);
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${Math.max(8, y)}px`;
}

function hideTip() { byId("tip").hidden = true; }

// -- Light and dark ----------------------------------------------------------------------------

const redraws = [];  // of what has colours in its pixels

function setTheme(name) {
    document.documentElement.dataset.theme = name;
    redraws.forEach((redraw) => redraw());
}

// The system's choice, until the reader makes one.
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;

function followTheme() {
    setTheme(chosenTheme || (dark.matches ? "dark" : "light"));
    if (byId("theme"))
        byId("theme").textContent =
            document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
}

dark.addEventListener("change", followTheme);

function themeButton() {
    followTheme();
    const isDark = () => document.documentElement.dataset.theme === "dark";
    return make(
        "button", {
            id: "theme",
            type: "button",
            title: "Light or dark colours",
            click: () => {
                chosenTheme = isDark() ? "light" : "dark";
                followTheme();
            }
        },
        isDark() ? "Light" : "Dark");
}

// -- Pieces of a page --------------------------------------------------------------------------

function segments(label, choices, current, choose) {
    const buttons = choices.map(
        ([value, text]) => make(
            "button", {
                type: "button",
                "aria-pressed": String(value === current),
                click: () => {
                    buttons.forEach(
                        (button, i) =>
                            button.setAttribute("aria-pressed", String(choices[i][0] === value)));
                    choose(value);
                }
            },
            text));
    return make("div", {class: "segments", role: "group", "aria-label": label}, buttons);
}

function section(id, title, extra, ...content) {
    return make(
        "section", {id}, make("div", {class: "head"}, make("h2", {}, title), extra), content);
}

const card = (kind, title, ...content) =>
    make("div", {class: `card ${kind}`}, title ? make("h3", {}, title) : null, content);

function figure(label, value, note, meaning) {
    return make(
        "div", {class: "figure", title: meaning}, make("div", {class: "label"}, label),
        make("div", {class: "value"}, value), make("div", {class: "note"}, note || ""));
}

function definitions(pairs) {
    return make(
        "dl", {},
        pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
            .map(([name, value,
                   kind]) => [make("dt", {}, name), make("dd", {class: kind}, String(value))]));
}

const bar = (share, background) => make(
    "td", {class: "bar"},
    make("div", {style: `width:${Math.min(100, 100 * share)}%;background:${background}`}));

// Hands a text to the reader as a file.
function save(name, text) {
    const url = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
    make("a", {href: url, download: name}).click();
    URL.revokeObjectURL(url);
}

// Calls draw(width) now and whenever the element's width changes.
function whenSized(element, draw) {
    let before = 0;
    new ResizeObserver(() => {
        const width = Math.floor(element.clientWidth);
        if (width > 0 && width !== before) draw((before = width));
    }).observe(element);
}

// A line of a chart.
const line = (name, i, points) => ({name, colour: colour(i), points});

// A table; cells are texts or <td> elements, a row that is a text is a heading inside.
function list(names, rows) {
    const cell = (x) => (x instanceof HTMLTableCellElement ? x : make("td", {}, x));
    const row = (cells) => Array.isArray(cells) ?
        make("tr", {}, cells.map(cell)) :
        make("tr", {class: "group"}, make("td", {colspan: names.length}, cells));
    const head =
        make("tr", {}, names.map((name) => (name instanceof Node ? name : make("th", {}, name))));
    return make(
        "div", {class: "scroll"},
        make("table", {class: "list"}, make("thead", {}, head), make("tbody", {}, rows.map(row))));
}

// A table whose later rows are folded away.
function folded(names, rows, what, shown = 12) {
    const more = rows.length - shown,
          summary = make("summary", {}, `${digits(more, 0)} more ${what}`);
    return [
        list(names, rows.slice(0, shown)),
        more > 0 ? make("details", {}, summary, list(names, rows.slice(shown))) : null
    ];
}

const explained = (name, meaning) => make("th", {title: meaning}, name);
const named = (mark, name) => make("td", {}, mark, name);
const lead = (text) => make("p", {class: "sub lead"}, text);
const empty = (...texts) => make("p", {class: "empty"}, texts);
const code = (text) => make("code", {}, text);
