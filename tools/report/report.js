// SPDX-License-Identifier: Apache-2.0
// Makes the page from the data. Text only ever becomes text nodes.
"use strict";
(function () {
    const data = JSON.parse(document.getElementById("data").textContent);
    const page = document.getElementById("page");
    const root = document.documentElement;
    const hasCharts = typeof Chart !== "undefined";
    const made = { charts: 0, tables: 0, images: 0, timelines: 0 };
    const charts = [];      // { item, canvas, chart }
    const images = [];
    const errors = [];

    window.addEventListener("error", (e) => errors.push(e.message));

    // ---- Elements ----------------------------------------------------------

    function el(name, attributes, ...children) {
        const e = document.createElement(name);

        for (const [key, value] of Object.entries(attributes || {}))
            e.setAttribute(key, value);
        e.append(...children.filter((c) => c !== null && c !== undefined));
        return e;
    }

    const SVG = "http://www.w3.org/2000/svg";
    function svg(name, attributes, ...children) {
        const e = document.createElementNS(SVG, name);

        for (const [key, value] of Object.entries(attributes || {}))
            e.setAttribute(key, value);
        e.append(...children);
        return e;
    }

    function color(name) {
        return getComputedStyle(root).getPropertyValue("--" + name).trim();
    }

    const COLORS = 18;      // --s0 .. of report.css
    const series = (i) => "s" + (i % COLORS);

    // Parts of something have one colour in all drawings, and no other part has
    // it as long as there are colours; waiting has none.
    const parts = [];
    function part(name) {
        if (/^(idle|wait)/.test(name))
            return "idle";
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

    function short(text, most) {
        return text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
    }

    function box(title, text) {
        return el("section", { class: "box" }, el("h3", {}, title),
                  text ? el("p", {}, text) : null);
    }

    function scroll(label, ...children) {
        return el("div", { class: "scroll", tabindex: "0", role: "region",
                           "aria-label": label }, ...children);
    }

    // ---- Tables ------------------------------------------------------------

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
        made.tables++;
        return scroll(caption, el("table", { "aria-label": caption,
                                         class: n > 9 ? "wide" : "" },
                      el("thead", {}, el("tr", {}, ...heads)), body));
    }

    // ---- Charts ------------------------------------------------------------

    // The numbers of a chart, for those who do not see it.
    function chartTable(item) {
        if (item.kind === "lines") {
            const cells = [];
            item.series.forEach((s) => s.points.forEach((p) =>
                cells.push(s.name, p[0], p[1])));
            return table([{ title: "series" },
                          { title: item.x || "x", number: true, digits: null },
                          { title: item.y || "y", number: true, digits: null }],
                         cells, null, item.title);
        }
        const cells = [];
        item.labels.forEach((label, i) => {
            cells.push(label);
            item.series.forEach((s) => cells.push(s.values[i] ?? null));
        });
        return table([{ title: item.x || "" }].concat(item.series.map((s) =>
            ({ title: s.name, number: true, digits: null }))), cells, null,
            item.title);
    }

    function datasets(item) {
        return item.series.map((s, i) => {
            const many = item.kind === "rows" && item.series.length > 1;
            const ink = color(s.tone || (many ? part(s.name) : series(i)));
            if (item.kind === "lines")
                return { label: s.name, borderColor: ink, backgroundColor: ink,
                         borderWidth: 2, pointRadius: 3, tension: 0,
                         data: s.points.map((p) => ({ x: p[0], y: p[1] })) };
            const touch = item.kind === "histogram";
            return { label: s.name, backgroundColor: ink,
                     data: item.log ? s.values.map((v) => v > 0 ? v : null)
                                    : s.values,
                     categoryPercentage: touch ? 1 : .75,
                     barPercentage: touch ? .94 : .9,
                     maxBarThickness: touch ? undefined : 46,
                     borderRadius: touch ? 0 : 2 };
        });
    }

    const isPower = (v) => Number.isInteger(Math.log10(v));

    function axis(item, title, isValue) {
        const lines = item.kind === "lines";
        const stacked = item.kind === "stacked" || item.kind === "rows";
        const a = {
            stacked,
            title: { display: !!title, text: title, color: color("soft") },
            ticks: { color: color("soft"), maxRotation: 60 },
            grid: { color: (c) => isValue && item.log && !isPower(c.tick.value)
                        ? "transparent" : color("line"),
                    display: isValue || lines, borderColor: color("line") },
        };

        if (isValue) {
            a.type = item.log ? "logarithmic" : "linear";
            if (item.log) {
                const values = item.series.flatMap((s) => s.values || []);
                a.min = 1;
                a.max = Math.pow(10, Math.ceil(Math.log10(
                    Math.max(10, ...values))));
                a.ticks.callback = (v) => isPower(v) ? v.toLocaleString("en")
                                                     : "";
            } else {
                a.beginAtZero = true;
                if (item.series.every((s) => (s.values || [.5])
                    .every((v) => v === null || Number.isInteger(v))))
                    a.ticks.precision = 0;
            }
        } else {
            a.type = lines ? "linear" : "category";
            if (lines) {
                const xs = item.series.flatMap((s) => s.points.map(
                    (p) => p[0]));
                a.beginAtZero = true;
                if (xs.every(Number.isInteger))
                    a.ticks.precision = 0;
            } else {
                a.ticks.autoSkip = item.kind === "histogram";
                a.ticks.callback = (v) => short(item.labels[v],
                                                innerWidth < 600 ? 22 : 34);
            }
        }
        return a;
    }

    function options(item) {
        const lie = item.kind === "rows";
        const names = axis(item, item.x, false);
        const values = axis(item, item.y, true);

        return {
            animation: false,
            maintainAspectRatio: false,
            indexAxis: lie ? "y" : "x",
            scales: lie ? { x: values, y: names } : { x: names, y: values },
            plugins: {
                legend: { display: item.series.length > 1, align: "start",
                          labels: { color: color("ink"), boxWidth: 12,
                                    boxHeight: 12 } },
                tooltip: { callbacks: { label: (c) =>
                    c.dataset.label + ": " +
                    number(lie ? c.parsed.x : c.parsed.y, null) } },
            },
        };
    }

    function draw(entry) {
        const type = entry.item.kind === "lines" ? "line" : "bar";

        if (entry.chart)
            entry.chart.destroy();
        Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
        entry.chart = new Chart(entry.canvas, {
            type,
            data: { labels: entry.item.labels, datasets: datasets(entry.item) },
            options: options(entry.item),
        });
    }

    function chart(item) {
        const b = box(item.title, item.text);

        if (!hasCharts) {
            b.append(el("p", {}, "Charts are left out: this headrace was " +
                                 "built without Chart.js."), chartTable(item));
            return b;
        }
        const canvas = el("canvas", { role: "img", "aria-label":
            item.title + (item.text ? ". " + item.text : "") });
        const place = el("div", { class: "canvas" }, canvas);
        if (item.kind === "rows" && item.series.length > 1)
            item.series.filter((s) => !s.tone).forEach((s) => part(s.name));
        if (item.kind === "rows")
            place.style.height = 84 + 30 * item.labels.length +
                                 22 * legendLines(item) + "px";
        b.append(place, el("details", {}, el("summary", {}, "Numbers"),
                           chartTable(item)));
        charts.push({ item, canvas });
        return b;
    }

    // Beyond the first, roughly: the bars shall keep their room beside it.
    function legendLines(item) {
        const wide = item.series.reduce((w, s) => w + 7 * s.name.length + 34,
                                        0);

        return Math.floor(wide / Math.max(200, Math.min(innerWidth - 60, 960)));
    }

    // A picture of something has at least one pixel that is not clear.
    function isDrawn(canvas) {
        if (!canvas.width || !canvas.height)
            return false;
        const px = canvas.getContext("2d").getImageData(0, 0, canvas.width,
                                                        canvas.height).data;
        for (let i = 3; i < px.length; i += 4)
            if (px[i])
                return true;
        return false;
    }

    // ---- Timelines ---------------------------------------------------------

    function ticks(span) {
        const step = Math.pow(10, Math.floor(Math.log10(span / 5 || 1)));
        return [1, 2, 5, 10].map((k) => k * step).find((s) => span / s <= 10);
    }

    function spanRect(item, s, scale, begin, left, lane) {
        const width = Math.max(.75, (s[3] - s[2]) * scale);
        const rect = svg("rect", {
            x: left + (s[2] - begin) * scale, y: 26 + s[0] * lane + 3,
            width, height: lane - 6, rx: width > 6 ? 2 : 0,
            style: "fill:var(--" + part(item.names[s[1]]) + ")" });
        const title = svg("title");

        title.textContent = item.names[s[1]] + ": " +
            number(s[3] - s[2], 3, " ms") + " from " + number(s[2], 3, " ms") +
            (s[4] ? ", " + s[4] : "");
        rect.append(title);
        return rect;
    }

    function timelineDrawing(item) {
        const begin = item.spans.reduce((m, s) => Math.min(m, s[2]), Infinity);
        const end = item.spans.reduce((m, s) => Math.max(m, s[3]), -Infinity);
        const span = end > begin ? end - begin : 1;
        const left = 16 + 7.2 * item.lanes.reduce(
            (m, n) => Math.max(m, Math.min(n.length, 24)), 4);
        const width = 980, right = 28, lane = 26;
        const scale = (width - left - right) / span;
        const height = 30 + lane * item.lanes.length;
        const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, width,
                                 height, role: "img",
                                 "aria-label": item.title });

        item.lanes.forEach((name, i) => {
            const text = svg("text", { x: 0, y: 26 + i * lane + 17 });
            text.textContent = short(name, 24);
            out.append(text, svg("rect", { class: "lane", x: left, rx: 2,
                y: 26 + i * lane + 2, width: width - left - right,
                height: lane - 4 }));
        });
        const step = ticks(span);
        for (let t = 0; t <= span * 1.0001; t += step) {
            const x = left + t * scale;
            const text = svg("text", { x, y: 14, "text-anchor": "middle" });
            text.textContent = number(t, step < 1 ? 1 : 0, " ms");
            out.append(svg("line", { class: "tick", x1: x, x2: x, y1: 20,
                                     y2: height }), text);
        }
        item.spans.forEach((s) =>
            out.append(spanRect(item, s, scale, begin, left, lane)));
        return out;
    }

    function timeline(item) {
        const b = box(item.title, item.text);

        if (!item.spans.length) {
            b.append(el("p", {}, "Nothing was recorded."));
            return b;
        }
        b.append(scroll(item.title, timelineDrawing(item)),
                 el("div", { class: "legend" }, ...item.names.map((n) =>
                     el("span", {}, el("i", { style: "background:var(--" +
                                              part(n) + ")" }), n))));
        if (item.dropped)
            b.append(el("p", {}, number(item.dropped, 0) +
                                 " more spans are left out."));
        made.timelines++;
        return b;
    }

    // ---- Pictures ----------------------------------------------------------

    function picture(p) {
        if (!p.src)
            return el("figure", {}, el("figcaption", {}, p.caption +
                ": left out, the file would grow too large"));
        const img = el("img", { src: p.src, alt: p.caption, width: p.w,
                                height: p.h });
        images.push(img);
        made.images++;
        return el("figure", {}, img, el("figcaption", {}, p.caption));
    }

    function pictures(item) {
        const b = box(item.title, item.text);

        b.append(el("div", { class: "row" }, ...item.list.map(picture)));
        return b;
    }

    // ---- The page ----------------------------------------------------------

    // As a shell would take it.
    function command(words) {
        return words.map((w) => /^[\w@%+=:,.\/ -]*$/.test(w) &&
            (w === words[0] || !/ /.test(w)) && w ? w
            : "'" + w.replace(/'/g, "'\\''") + "'").join(" ");
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
        fact("command", el("code", {}, command(data.command)));
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
        chart, timeline, pictures,
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

    // The result stands in the page, where a script can read it.
    function selfCheck() {
        for (const entry of charts) {
            if (isDrawn(entry.canvas))
                made.charts++;
            else
                errors.push("chart not drawn: " + entry.item.title);
        }
        for (const img of images)
            if (!img.complete || !img.naturalWidth)
                errors.push("picture not shown: " + img.alt);
        if (root.scrollWidth > root.clientWidth + 1)
            errors.push("the page is wider than its window");
        for (const [key, value] of Object.entries(made))
            root.dataset[key] = value;
        root.dataset.width = root.clientWidth;
        root.dataset.selfcheck = errors.length ? errors.join("; ") : "ok";
    }

    try {
        head();
        body();
        foot();
        charts.forEach(draw);
    } catch (e) {
        errors.push(String(e));
        console.error(e);
    }
    const redraw = () => charts.forEach(draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
                                                                redraw);
    window.addEventListener("beforeprint", redraw);
    window.addEventListener("afterprint", redraw);
    window.addEventListener("load", () => setTimeout(selfCheck, 200));
})();
