// SPDX-License-Identifier: Apache-2.0
// Checks a page of tools/report/ from inside: selfcheck.py puts this at the end
// of its script. <html data-selfcheck="ok"> then says that the page came up
// whole; any other value says what went wrong. A chart is whole if each value
// has an element, at its place on the axes and in the colour of its series.
// data-charts counts the drawn ones, data-width is the page's width.
const errors = [];

window.addEventListener("error", (e) => errors.push(e.message));

// [red, green, blue] of any CSS colour.
function rgb(text) {
    const ctx = el("canvas", { width: 1, height: 1 }).getContext("2d");

    ctx.fillStyle = text;
    ctx.fillRect(0, 0, 1, 1);
    return ctx.getImageData(0, 0, 1, 1).data;
}

// all: the pixels of the chart.
function isInked(chart, all, x, y, inks) {
    const ratio = chart.currentDevicePixelRatio;
    const at = 4 * (Math.floor(y * ratio) * all.width + Math.floor(x * ratio));
    const px = all.data.slice(at, at + 4);

    return px[3] === 255 && inks.some((ink) =>
        [0, 1, 2].every((k) => Math.abs(px[k] - ink[k]) <= 8));
}

// Returns where a point is drawn, or a bar that is too small to look at. NaN
// and bars without an extent are not drawn.
function spot(e, item) {
    if (item.kind === "lines")
        return Number.isFinite(e.x + e.y) ? { x: e.x, y: e.y, small: false }
                                          : null;
    const lies = isLying(item);
    const long = Math.abs(lies ? e.x - e.base : e.y - e.base);
    const wide = lies ? e.height : e.width;

    if (!(long > 0) || !(wide > 0))
        return null;
    // Beside the middle, where the whisker is.
    const half = ((lies ? e.x : e.y) + e.base) / 2;
    return { x: lies ? half : e.x - wide / 4, y: lies ? e.y - wide / 4 : half,
             small: long < 3 || wide < 6 };
}

// True if an element ends where its value lies on the axes. The value is the
// page's, not the one that the chart was given.
function isInPlace(chart, e, item, s, k) {
    const { x, y } = chart.scales;
    const near = (a, b) => Math.abs(a - b) <= 1;

    if (item.kind === "lines")
        return near(e.x, x.getPixelForValue(s.points[k][0])) &&
               near(e.y, y.getPixelForValue(s.points[k][1]));
    const scale = isLying(item) ? x : y, end = isLying(item) ? e.x : e.y;
    const place = scale.getPixelForValue(s.values[k]);
    return item.log ? near(end, place)
        : near(end - e.base, place - scale.getPixelForValue(0));
}

// Returns the first thing that a series does not draw though its data has it;
// "" if all is there.
function missingSeries(chart, all, item, i) {
    const s = item.series[i], dataset = chart.data.datasets[i];
    const values = s.points ? s.points.map((p) => p[1]) : s.values;

    if (!dataset)
        return "no data";
    const made = chart.getDatasetMeta(i).data;
    if (made.length !== values.length)
        return made.length + " of " + values.length + " elements";
    for (let k = 0; k < values.length; k++) {
        const v = values[k];

        if (v === null || (item.kind !== "lines" && !(v > 0)))
            continue;
        const place = spot(made[k], item);
        if (!place)
            return "element " + k + " has no extent";
        if (!isInPlace(chart, made[k], item, s, k))
            return "element " + k + " is not where its value is";
        // Lines cross; the last one drawn is what is seen.
        const inks = item.kind === "lines"
            ? item.series.map((_, n) => series(n))
            : [s.groups ? series(s.groups[k]) : inkOf(item, i)];
        if (!place.small &&
            !isInked(chart, all, place.x, place.y, inks.map(rgb)))
            return "element " + k + " is not in its colour";
    }
    return "";
}

function missing(entry) {
    const { item, canvas, chart } = entry;

    if (!canvas.width || !canvas.height || !chart)
        return "no picture";
    if (!item.series.length)
        return "no series";
    if (new Set(item.series.map((s, i) => inkOf(item, i))).size <
        item.series.length)
        return "two series have one colour";
    const all = chart.ctx.getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < item.series.length; i++) {
        const lack = missingSeries(chart, all, item, i);

        if (lack)
            return item.series[i].name + ": " + lack;
    }
    return "";
}

// The first word of a table that lies on more than one line.
function brokenWord() {
    const texts = document.createTreeWalker(page, NodeFilter.SHOW_TEXT);
    const range = document.createRange();

    while (texts.nextNode()) {
        const node = texts.currentNode;

        if (!node.parentElement.closest("td, th"))
            continue;
        for (const word of node.data.matchAll(/[\p{L}\p{N}.,]+/gu)) {
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set(Array.from(range.getClientRects(), (r) => r.top))
                .size > 1)
                return word[0];
        }
    }
    return null;
}

// The result stands in the page, where a script can read it.
function selfCheck() {
    const broken = brokenWord();

    if (broken)
        errors.push("a word of a table is broken: " + broken);
    const lacks = charts.map(missing);

    charts.forEach((entry, i) => lacks[i] && errors.push(
        "chart not drawn: " + entry.item.title + ": " + lacks[i]));
    for (const img of document.images)
        if (!img.complete || !img.naturalWidth)
            errors.push("picture not shown: " + img.alt);
    if (root.scrollWidth > root.clientWidth + 1)
        errors.push("the page is wider than its window");
    root.dataset.charts = lacks.filter((lack) => !lack).length;
    root.dataset.width = root.clientWidth;
    root.dataset.selfcheck = errors.length ? errors.join("; ") : "ok";
}

window.addEventListener("load", () => setTimeout(selfCheck, 200));
