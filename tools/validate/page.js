// SPDX-License-Identifier: Apache-2.0
// The page of headrace validate. In one function with report.js.
function validatePage(d)
{
    const v = d.results, items = [], add = (...more) => items.push(...more);
    const end = v.stages.end_to_end ||
        { pictures: 0, samples: 0, differing: 0, max: 0, psnr: null };
    const grouped = (n) => n.toLocaleString("en");
    const sentence = (s) => s.slice(0, 1).toUpperCase() + s.slice(1);
    const COUNTS = [column("pictures differ", 0),
                    { ...column("samples differ", 4, " %"), bars: true },
                    column("largest"), column("mean"),
                    column("PSNR", 1, " dB")];
    const counts = (s) => s && s.pictures
        ? [s.differing_pictures, s.percent, s.max, s.mean, s.psnr]
        : [0, null, null, null, null];

    function figures() {
        const equal = end.psnr === null;

        add(figureItem("pictures", grouped(v.checked),
                       grouped(end.pictures) + " compared to the end"),
            ...Object.entries(v.engines).map(([name, e]) => figureItem(
                name, grouped(e.pictures), "pictures it had a part in")),
            figureItem("differing samples", grouped(end.differing),
                       "end to end, of " + grouped(end.samples)),
            figureItem("largest difference", String(+end.max.toPrecision(4)),
                       "levels of 255"),
            figureItem("PSNR", equal ? "\u221e" : end.psnr.toFixed(1) + " dB",
                       equal ? "for nothing differs" : "end to end"));
    }

    function notes() {
        const note = (tone, n, text) =>
            n && add({ is: "text", tone, text: n + text });

        if (v.mismatches)
            note("bad", v.mismatches, " pictures of the device were not the " +
                 "CPU's: the library, which makes some of them a second " +
                 "time, delivered the CPU's and does not use the device any " +
                 "more.");
        else if (d.silent)
            add({ is: "text", tone: "warn", text: "The device did not do its " +
                  "work, so nothing is known of it. \u201cWhich engine did " +
                  "what\u201d says why." });
        note("plain", v.failed_alike, " cannot be made, on both sides alike: " +
             "bad input is no difference.");
        note("warn", v.unread, " could not be read: what is in them was not " +
             "compared.");
        note("bad", v.stale, " have the pixels of another picture: a buffer " +
             "was delivered too early or too late.");
        note("warn", d.passing, " were right when they were made again: the " +
             "fault comes and goes, as those of timing do.");
        if (d.outside.length)
            add(tableItem((v.outside > d.outside.length ? "The first pictures"
                                                        : "Pictures") +
                          " that do not hold to the contract",
                          [word("picture")], d.outside.map((name) => [name])));
    }

    function stages() {
        const cut = (s) => v.stages[s === "store" ? "end_to_end" : s];
        const shown = d.cuts.filter((s) => cut(s) || v.begins[s]);

        add({ is: "section", title: "By stage", text:
              "The chain, run to its end and cut behind each stage. A " +
              "picture begins to differ at the first cut that differs, " +
              "unless running each of the device's spans by itself says " +
              "that it must be another stage. Only grey JPEGs can be cut " +
              "behind reconstruct; in colour JPEGs, equal errors in R, G " +
              "and B point to the luma." },
            tableItem("Stages", [word("cut after"), column("pictures", 0),
                                 column("begins here", 0), ...COUNTS],
                      shown.map((s) => [
                          s === "store" ? "store (end to end)" : s,
                          cut(s)?.pictures || 0, v.begins[s] || 0,
                          ...counts(cut(s))]),
                      shown.map((s) => v.begins[s] &&
                                       (v.outside ? "bad" : "warn"))));
    }

    function histogram() {
        const low = (name) => name === "< 1" ? .5 : parseInt(name, 10);
        const labels = Object.keys(v.histogram).sort((a, b) => low(a) - low(b));

        add({ is: "section", title: "Differences" }, end.differing ? {
            is: "chart", kind: "histogram",
            title: "How far apart samples are, end to end",
            text: "Each step of the upright axis is ten times the one below.",
            x: "difference in levels of 0 .. 255", y: "samples", log: true,
            labels, series: [{ name: "samples",
                               values: labels.map((l) => v.histogram[l]) }],
        } : { is: "text", tone: "plain", text: "All " + grouped(end.samples) +
              " samples are equal at the end, bit for bit. There is nothing " +
              "to draw." });
    }

    function worst() {
        if (d.worst.length)
            add({ is: "section", title: "The worst pictures", text:
                  "As the user gets them, or cut after the last stage that " +
                  "shows it, and where they differ. Of large pictures a part " +
                  "around the largest difference is shown." });
        d.worst.forEach((w) => add({ is: "pictures", ...w }));
    }

    function kinds() {
        const most = v.kinds.slice(0, 16);  // the most frequent
        const device = (k) => k.by_device - Math.min(k.outside, k.by_device);
        const series = (name, count) => ({ name, values: most.map(count) });

        add({ is: "section", title: "By kind of picture" },
            { is: "chart", kind: "rows", title: "Engines of the pictures",
              text: v.kinds.length > 16 ? "The 16 most frequent kinds." : null,
              y: "pictures", labels: most.map((k) => k.kind),
              series: [series("the device, alone or with the CPU", device),
                       series("the CPU, or no engine", (k) =>
                           k.pictures - device(k) - k.outside),
                       { ...series("outside of the contract",
                                   (k) => k.outside), tone: "bad" }] },
            tableItem("Kinds, end to end",
                      [word("kind"), column("pictures", 0),
                       column("by the device", 0), word("begins at"),
                       ...COUNTS],
                      v.kinds.map((k) => [
                          k.kind, k.pictures, k.by_device,
                          Object.entries(k.begins).map(([stage, n]) =>
                              `${stage} (${n})`).join(", ") || "\u2013",
                          ...counts(k.end_to_end)]),
                      v.kinds.map((k) => k.outside ? "bad"
                          : k.end_to_end.differing_pictures && "warn")));
    }

    function engines() {
        const list = (caption, what, counts) => tableItem(
            caption, [word(what), { ...column("pictures", 0), bars: true }],
            Object.entries(counts));

        add({ is: "section", title: "Which engine did what" },
            list("Made by", "spans and engines", v.made_by));
        if (Object.keys(v.fallbacks).length)
            add(list("Why pictures were handed to the next engine", "reason",
                     v.fallbacks));
    }

    function certificate(c) {
        const [first, ...others] = Object.keys(v.engines);
        const same = (r) => r.exact || (r.tier === "fast" && !r.failed);
        const result = (r) => r.failed ? "failed"
            : !r.pictures ? "not tested" : r.exact ? "exact"
            : r.tier === "fast" ? "alike, for tier fast" : "differs";
        const text = (t) => add({ is: "text", tone: "plain", text: t });

        // A certificate is one engine's: of several in a row the device has
        // that of the first, the others theirs where they are opened alone.
        add({ is: "section", title: "Certificate of the device", text:
              "How each span compared with the CPU's readable C, over " +
              "generated pictures of every JPEG kind, when the device was " +
              "first opened. What differs is not used where a picture must " +
              "be exact." });
        text(`${first}, tested ${c.tested.slice(0, 16).replace("T", " ")} ` +
             "UTC.");
        others.forEach((name) => text(`${name}, which goes on from there, ` +
            "has a certificate of its own: headrace devices shows it."));
        add(tableItem("Spans",
                      [word("span"), word("kind of JPEG"), word("result"),
                       column("pictures", 0), column("differing", 4, " %"),
                       column("largest", 3, " levels"),
                       column("mean", 4, " levels"), column("PSNR", 1, " dB")],
                      c.records.map((r) => [
                          r.span, r.kind || "all", result(r), r.pictures,
                          r.percent, r.max, r.mean, r.psnr]),
                      c.records.map((r) => same(r) ? null : "warn")));
    }

    const [headline, ...rest] = v.verdict.split("; ");
    const differs = Object.values(v.stages).some((s) => s.differing);
    figures();
    notes();
    stages();
    histogram();
    worst();
    kinds();
    engines();
    if (d.certificate)
        certificate(d.certificate);
    return { items, verdict: {
        tone: v.within === false ? "bad"
            : differs || v.within === null ? "warn" : "good",
        text: sentence(headline),
        more: rest.length ? sentence(rest.join("; ")) + "." : null } };
}
