// SPDX-License-Identifier: Apache-2.0
// Makes the page from the data. Text only ever becomes text nodes. One function
// with charts.js and page.js of the tools, which stand before it (page.html).
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const root = document.documentElement;
const hasCharts = typeof Chart !== "undefined";
const charts = [];      // { item, canvas, chart }

// ---- Elements --------------------------------------------------------------

function el(name, attributes, ...children) {
    const e = document.createElement(name);

    for (const [key, value] of Object.entries(attributes || {}))
        e.setAttribute(key, value);
    e.append(...children.filter((c) => c !== null && c !== undefined));
    return e;
}

function color(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
}

// Inks of series, in light and in dark.
const INKS = [
    ["#2a6fdb", "#6ea3f5"], ["#d9822b", "#eba55c"], ["#1f9d7a", "#4fc3a1"],
    ["#b5476b", "#e07a9b"], ["#7b61c9", "#a692ea"], ["#6b7a90", "#9aa8bb"],
    ["#b09a1e", "#d3bf55"], ["#3a9cb8", "#6cc3da"], ["#8a5a44", "#c08a70"],
    ["#c77fb6", "#e3a5d3"], ["#7fa650", "#a9cf78"], ["#3f4a5e", "#c5cedb"],
    ["#f2a7a0", "#a8554e"], ["#8fc7ee", "#3f6f96"], ["#5d7a1f", "#728f36"],
    ["#6a2c70", "#8e4f95"], ["#e8d06a", "#8d7a25"], ["#12686b", "#2c8a8d"],
];
const dark = matchMedia("screen and (prefers-color-scheme: dark)");
const series = (i) => INKS[i % INKS.length][+dark.matches];

// Parts of something have one colour in all drawings, and no other part has
// it as long as there are colours.
const parts = [];
function part(name) {
    if (!parts.includes(name))
        parts.push(name);
    return series(parts.indexOf(name));
}

// 12345.678 as a person writes it; digits null = three that count.
function number(v, digits, unit) {
    if (v === null || v === undefined)
        return "\u2013";
    if (v === 0)
        return "0" + (unit || "");
    const a = Math.abs(v);
    let few = digits;

    if (few === null || few === undefined)
        few = a >= 100 || Number.isInteger(v) ? 0
            : Math.min(6, 2 - Math.floor(Math.log10(a)));
    // What is not zero must not read as zero.
    const least = Math.pow(10, -few);
    const text = a < least / 2 ? "< " + least.toFixed(few)
        : v.toLocaleString("en", { minimumFractionDigits: few,
                                   maximumFractionDigits: few });
    return text + (unit || "");
}

// Without its middle: names differ at their ends.
function short(text, most) {
    const tail = Math.floor((most - 1) / 2);

    return text.length > most ? text.slice(0, most - 1 - tail) + "\u2026" +
                                text.slice(-tail) : text;
}

function box(title, text) {
    return el("section", { class: "box" }, el("h3", {}, title),
              text ? el("p", {}, text) : null);
}

function scroll(label, ...children) {
    return el("div", { class: "scroll", tabindex: "0", role: "region",
                       "aria-label": label }, ...children);
}

// ---- Tables ----------------------------------------------------------------

function cell(column, value, largest) {
    if (!column.number)
        return el("td", { class: "text" },
                  value === null ? "\u2013" : String(value));
    const text = number(value, column.digits, column.unit);
    if (!column.bars)
        return el("td", { class: "number" }, text);
    const part = largest > 0 && value > 0 ? value / largest : 0;
    return el("td", { class: "number bars" },
              el("i", { style: "--part:" + part.toFixed(4) }), text);
}

function compare(a, b) {
    if (a === null || b === null)
        return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b
        : String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortable(body, heads, rows) {
    heads.forEach((head, i) => head.querySelector("button")
        .addEventListener("click", () => {
            const up = head.getAttribute("aria-sort") === "ascending";
            heads.forEach((h) => h.removeAttribute("aria-sort"));
            head.setAttribute("aria-sort", up ? "descending" : "ascending");
            rows.sort((a, b) => (up ? -1 : 1) *
                                compare(a.values[i], b.values[i]));
            body.append(...rows.map((r) => r.line));
        }));
}

function table(columns, cells, tones, caption) {
    const n = columns.length, rows = [], body = el("tbody");
    const largest = columns.map((c, i) => cells.reduce(
        (m, v, k) => k % n === i && v > m ? v : m, 0));

    for (let at = 0; at + n <= cells.length; at += n) {
        const values = cells.slice(at, at + n);
        const tone = tones && tones[at / n];
        const line = el("tr", tone ? { class: tone } : {},
            ...values.map((v, i) => cell(columns[i], v, largest[i])));
        rows.push({ values, line });
        body.append(line);
    }
    const sorts = rows.length > 1;
    const heads = columns.map((c) => el("th",
        { scope: "col", class: c.number ? "number" : "text" },
        sorts ? el("button", { type: "button" }, c.title) : c.title));
    if (sorts)
        sortable(body, heads, rows);
    return scroll(caption, el("table", { "aria-label": caption,
                                     class: n > 8 ? "wide" : "" },
                  el("thead", {}, el("tr", {}, ...heads)), body));
}

// ---- Pictures --------------------------------------------------------------

function picture(p) {
    if (!p.src)
        return el("figure", {}, el("figcaption", {}, p.caption +
            ": left out, the file would grow too large"));
    return el("figure", {}, el("img", { src: p.src, alt: p.caption,
                                        width: p.w, height: p.h }),
              el("figcaption", {}, p.caption));
}

function pictures(item) {
    const b = box(item.title, item.text);

    b.append(el("div", { class: "row" }, ...item.list.map(picture)));
    return b;
}

// ---- The page --------------------------------------------------------------

// As a shell would take it; lines break between words.
function command(words) {
    const quoted = words.map((w) => /^[\w@%+=:,.\/ -]*$/.test(w) &&
        (w === words[0] || !/ /.test(w)) && w ? w
        : "'" + w.replace(/'/g, "'\\''") + "'");

    return el("code", {}, ...quoted.flatMap((w) =>
        [el("span", {}, w), " "]));
}

function head() {
    const facts = el("dl", { class: "facts" });
    const fact = (name, value) => facts.append(el("dt", {}, name),
                                               el("dd", {}, value));

    document.title = data.title +
        (data.verdict ? ": " + data.verdict.text : "");
    page.append(el("h1", {}, data.title));
    if (data.verdict)
        page.append(el("p", { class: "verdict " + data.verdict.tone },
                       data.verdict.text));
    if (data.verdict && data.verdict.more)
        page.append(el("p", { class: "lead" }, data.verdict.more));
    fact("command", command(data.command));
    fact("date", data.date);
    data.facts.forEach((f) => fact(f[0], f[1]));
    page.append(facts);
}

function foot() {
    const licence = document.getElementById("licence").textContent.trim();
    const f = el("footer", {}, "Made by headrace. Everything is in this " +
                               "file; it loads nothing.");
    if (licence)
        f.append(el("details", {}, el("summary", {},
            "Charts: Chart.js, and its licence"), el("pre", {}, licence)));
    page.append(f);
}

function figure(item) {
    return el("div", { class: "figure" }, el("span", {}, item.name),
              el("b", {}, item.value),
              item.note ? el("span", {}, item.note) : null);
}

const makers = {
    section: (i) => el("div", {}, el("h2", {}, i.title),
                       i.text ? el("p", { class: "soft" }, i.text) : null),
    text: (i) => el("p", { class: i.tone === "plain" ? ""
                                  : "note " + i.tone }, i.text),
    table: (i) => {
        const b = box(i.caption);
        b.append(table(i.columns, i.cells, i.tones, i.caption));
        return b;
    },
    chart, pictures,
};

function body() {
    let figures = null;

    for (const item of data.items) {
        if (item.is === "figure") {
            if (!figures)
                page.append(figures = el("div", { class: "figures" }));
            figures.append(figure(item));
            continue;
        }
        figures = null;
        page.append(makers[item.is](item));
    }
}

// ---- The tools' pages ------------------------------------------------------

// By title: what makes the verdict and the items, from the data of that tool.
const pages = { "headrace validate": validatePage,
                "headrace profile": profilePage };

const word = (title) => ({ title });
const column = (title, digits = null, unit = "") =>
    ({ title, number: true, digits, unit });
const figureItem = (name, value, note) => ({ is: "figure", name, value, note });
const tableItem = (caption, columns, rows, tones) =>
    ({ is: "table", caption, columns, cells: rows.flat(), tones });

if (!data.items)
    Object.assign(data, pages[data.title](data));
head();
body();
foot();
const redraw = () => charts.forEach(draw);
redraw();
dark.addEventListener("change", redraw);
window.addEventListener("beforeprint", redraw);
window.addEventListener("afterprint", redraw);
