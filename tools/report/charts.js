// SPDX-License-Identifier: Apache-2.0
// Charts of the page. In one function with report.js, before it.
"use strict";

// ---- Charts ----------------------------------------------------------------

// The numbers of a chart, for those who do not see it.
function chartTable(item) {
    const cells = [];

    if (item.kind === "lines") {
        item.series.forEach((s) => s.points.forEach((p) =>
            cells.push(s.name, p[0], p[1])));
        return table([{ title: "series" },
                      { title: item.x || "x", number: true, digits: null },
                      { title: item.y || "y", number: true, digits: null }],
                     cells, null, item.title);
    }
    item.labels.forEach((label, i) => {
        cells.push(label);
        item.series.forEach((s) => cells.push(s.values[i] ?? null));
    });
    return table([{ title: item.x || "" }].concat(item.series.map((s) =>
        ({ title: s.name, number: true, digits: null }))), cells, null,
        item.title);
}

function inkOf(item, i) {
    const s = item.series[i], many = isLying(item) && item.series.length > 1;

    return s.tone ? color(s.tone) : many ? part(s.name) : series(i);
}

function datasets(item) {
    return item.series.map((s, i) => {
        const ink = inkOf(item, i);
        if (item.kind === "lines")
            return { label: s.name, borderColor: ink, backgroundColor: ink,
                     borderWidth: 2, pointRadius: 3, tension: 0,
                     data: s.points.map((p) => ({ x: p[0], y: p[1] })) };
        const touch = item.kind === "histogram";
        return { label: s.name,
                 backgroundColor: s.groups
                     ? s.groups.map(series) : ink,
                 data: item.log ? s.values.map((v) => v > 0 ? v : null)
                                : s.values,
                 categoryPercentage: touch ? 1 : .75,
                 barPercentage: touch ? .94 : .9,
                 maxBarThickness: touch ? undefined : 46,
                 borderRadius: touch ? 0 : 2 };
    });
}

// In two lines, each of so many letters at most.
function lines2(text, most) {
    if (text.length <= most)
        return text;
    const cut = text.lastIndexOf(" ", most);

    if (cut <= 0)
        return short(text, most);
    return [text.slice(0, cut), short(text.slice(cut + 1), most)];
}

const isPower = (v) => Number.isInteger(Math.log10(v));

function axis(item, title, isValue) {
    const lines = item.kind === "lines";
    const a = {
        stacked: item.kind === "stacked" || isLying(item),
        title: { display: !!title, text: title, color: color("soft") },
        ticks: { color: color("soft"), maxRotation: 60 },
        grid: { color: (c) => isValue && item.log && !isPower(c.tick.value)
                    ? "transparent" : color("line"),
                display: isValue || lines, borderColor: color("line") },
    };

    if (isValue && item.log) {
        const values = item.series.flatMap((s) => s.values || []);
        a.type = "logarithmic";
        a.min = .5;     // so that the bar of a 1 has a height
        a.max = Math.pow(10, Math.ceil(Math.log10(Math.max(10, ...values))));
        a.ticks.callback = (v) => isPower(v) ? v.toLocaleString("en") : "";
    } else if (isValue) {
        a.type = "linear";
        a.beginAtZero = true;
        // Room for what is written behind the longest bar.
        if (hasFigures(item))
            a.grace = "6%";
        const high = item.series.flatMap((s) => s.high || []);
        if (high.length)
            a.suggestedMax = Math.max(...high);
        if (item.series.every((s) => (s.values || [.5])
            .every((v) => v === null || Number.isInteger(v))))
            a.ticks.precision = 0;
    } else if (lines) {
        const xs = item.series.flatMap((s) => s.points.map((p) => p[0]));
        a.type = "linear";
        a.beginAtZero = true;
        if (xs.every(Number.isInteger))
            a.ticks.precision = 0;
    } else {
        a.type = "category";
        a.ticks.autoSkip = item.kind === "histogram";
        a.ticks.callback = (v) => lines2(item.labels[v],
                                         innerWidth < 600 ? 20 : 34);
    }
    return a;
}

// ---- Numbers on bars -------------------------------------------------------

const isLying = (item) => item.kind === "rows";
const hasFigures = (item) => ["rows", "stacked", "bars"].includes(item.kind);

// Of one bar from low to high, in the direction of the values.
function whisker(ctx, lies, at, low, high) {
    const line = (a, b) => {
        ctx.moveTo(...(lies ? a : [a[1], a[0]]));
        ctx.lineTo(...(lies ? b : [b[1], b[0]]));
    };

    ctx.beginPath();
    line([low, at], [high, at]);
    line([low, at - 4], [low, at + 4]);
    line([high, at - 4], [high, at + 4]);
    ctx.stroke();
}

// The length of a bar in figures behind its end; of stacked ones the sum.
function drawFigures(chart, item) {
    const ctx = chart.ctx, lies = isLying(item);
    const scale = chart.scales[lies ? "x" : "y"];
    const put = (value, end, at) => {
        const text = number(value, null), room = lies ? 5 : 4;

        if (value === null || value === undefined)
            return;
        ctx.textAlign = lies ? "left" : "center";
        ctx.textBaseline = lies ? "middle" : "bottom";
        ctx.fillText(text, lies ? end + room : at, lies ? at : end - room);
    };

    ctx.save();
    ctx.font = "12px " + Chart.defaults.font.family;
    ctx.fillStyle = ctx.strokeStyle = color("ink");
    item.series.forEach((s, i) => chart.getDatasetMeta(i).data.forEach(
        (e, k) => {
            const at = lies ? e.y : e.x;
            const range = s.high && s.values[k] !== null;
            const top = range ? Math.max(s.high[k], s.values[k]) : s.values[k];

            if (range)
                whisker(ctx, lies, at, scale.getPixelForValue(s.low[k]),
                        scale.getPixelForValue(s.high[k]));
            if (item.kind === "bars" || item.series.length === 1)
                put(s.values[k], scale.getPixelForValue(top), at);
        }));
    if (item.kind !== "bars" && item.series.length > 1)
        chart.getDatasetMeta(0).data.forEach((e, k) => {
            const sum = item.series.reduce((m, s) => m + (s.values[k] || 0),
                                           0);
            put(sum, scale.getPixelForValue(sum), lies ? e.y : e.x);
        });
    ctx.restore();
}

function options(item) {
    const lies = isLying(item);
    const names = axis(item, item.x, false);
    const values = axis(item, item.y, true);

    return {
        animation: false,
        maintainAspectRatio: false,
        layout: { padding: hasFigures(item)
            ? lies ? { right: 34 } : { top: 18 } : 0 },
        indexAxis: lies ? "y" : "x",
        scales: lies ? { x: values, y: names } : { x: names, y: values },
        plugins: {
            legend: { display: item.series.length > 1, align: "start",
                      labels: { color: color("ink"), boxWidth: 12,
                                boxHeight: 12 } },
            tooltip: { callbacks: { label: (c) =>
                c.dataset.label + ": " +
                number(lies ? c.parsed.x : c.parsed.y, null) } },
        },
    };
}

function draw(entry) {
    if (entry.chart)
        entry.chart.destroy();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    entry.chart = new Chart(entry.canvas, {
        type: entry.item.kind === "lines" ? "line" : "bar",
        data: { labels: entry.item.labels, datasets: datasets(entry.item) },
        options: options(entry.item),
        plugins: hasFigures(entry.item)
            ? [{ id: "figures",
                 afterDatasetsDraw: (c) => drawFigures(c, entry.item) }] : [],
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
        place.style.height = 84 + 38 * item.labels.length +
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
