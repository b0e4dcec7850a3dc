// SPDX-License-Identifier: Apache-2.0
// The page of headrace profile. In one function with report.js.
function profilePage(d)
{
    const p = d.results, MIB = 1 << 20, items = [];
    const add = (...more) => items.push(...more);
    const planned = p.configurations.filter((c) => c.mode === "planned");
    const names = p.backends.map((b) => b.backend);
    const of = (name) => planned.filter((c) => c.backend === name);
    const most = (list, key) => list.reduce((m, c) => c[key] > m[key] ? c : m);
    const threads = (c) => c.threads + (c.threads === 1 ? " thread"
                                                        : " threads");
    const section = (title) => add({ is: "section", title });
    const text = (t, tone = "plain") => add({ is: "text", tone, text: t });

    // The configuration that feeds the consumer with the fewest threads, else
    // the one that keeps it busiest.
    const best = (b) => (b.threads_enough_measured && of(b.backend)
        .find((c) => c.threads === b.threads_enough)) ||
        most(of(b.backend), "consumer_busy");

    // Rates with most threads; what the consumer got, as the headline has it.
    function figures(b) {
        const c = most(of(b.backend), "threads");

        add(figureItem(c.device, c.img_per_s.toFixed(0) + " img/s", threads(c) +
            `, ${c.times_cpu_1_thread.toFixed(2)} times one CPU thread`));
        if (p.consumer_ms > 0)
            add(figureItem("consumer busy",
                           (100 * best(b).consumer_busy).toFixed(0) + " %",
                           `by ${best(b).device}, ${threads(best(b))}`));
    }

    // The terminal's, with what stands below it there.
    function table(caption, t, tones) {
        const [first, ...numbers] = t.columns;

        add(tableItem(caption, [word(first), ...numbers.map(
            ([title, digits]) => column(title, digits))], t.rows, tones));
    }

    function speed() {
        // 0: it made none in time.
        const one = of("cpu").find((c) => c.threads === 1).img_per_s;
        const times = (key) => planned.map((c) => one && c[key] / one);

        add({ is: "chart", kind: "rows",
              title: "Speed-up against one CPU thread",
              text: "Thin lines: from the slowest round to the fastest.",
              y: "times one CPU thread",
              labels: planned.map((c) => `${c.device}, ${threads(c)}`),
              series: [{ name: "speed-up", values: times("img_per_s"),
                         groups: planned.map((c) => names.indexOf(c.backend)),
                         low: times("img_per_s_lowest"),
                         high: times("img_per_s_highest") }] });
    }

    const lines = (title, x, y, points) => add({
        is: "chart", kind: "lines", title, x, y,
        series: p.backends.map((b) => ({ name: b.backend,
                                         points: points(b) })) });

    // A bar for each backend's host threads, one for its device, cut into
    // parts.
    function parts() {
        const bars = p.backends.flatMap((b) => [false, true].map((device) => ({
            label: `${b.backend}: ${device ? "device" : "host threads"}`,
            parts: b.parts.filter((q) => q.device_time === device) })));
        const time = (list) => list.reduce((s, q) => s + q.ms_per_1000, 0);
        const shown = bars.filter((b) => time(b.parts) > 0);

        add({ is: "chart", kind: "rows", title: "Where the time goes",
              text: "Time by the clock; what runs side by side is added up.",
              y: "ms per 1000 pictures", labels: shown.map((b) => b.label),
              series: d.parts.map((name) => ({ name, values: shown.map((b) =>
                  time(b.parts.filter((q) => q.part === name))) }))
                  .filter((s) => s.values.some((t) => t > 0)) });
    }

    function queue() {
        const chart = (title, y, key, scale) => lines(title, "seconds", y,
            (b) => b.loader.queue.map((q) => [q.seconds, q[key] / scale]));

        chart("Batches that are ready", "batches", "ready", 1);
        chart("Reads in flight", "reads", "reading", 1);
        chart("Encoded pictures in memory", "MiB", "encoded_bytes", MIB);
        add(tableItem("Steps of the settings",
                      [word("device"), column("seconds", 2),
                       ...["batch", "threads", "reads", "depth"].map((title) =>
                           column(title, 0)), column("MiB", 1), word("")],
                      p.backends.flatMap((b) => b.loader.changes.map((c) => [
                          b.backend, c.seconds, c.batch, c.settings.threads,
                          c.settings.reads, c.settings.depth,
                          c.settings.bytes / MIB,
                          c.back ? "taken back" : ""]))));
    }

    p.backends.forEach(figures);
    if (p.caution)
        text(p.caution, "warn");
    section("Speed");
    speed();
    if (new Set(planned.map((c) => c.threads)).size > 1)
        lines("Thread scaling", "host threads", "pictures per second",
              (b) => of(b.backend).map((c) => [c.threads, c.img_per_s]));
    text(d.rates.legend);
    table("Measured", d.rates);
    d.rates.notes.forEach((note) => text(note));
    if (p.consumer_ms > 0) {
        section("Beside a network");
        table("How busy it is kept", d.beside, planned.map((c) =>
            c.bound === "consumer" && "good"));
        d.beside.notes.forEach((note) => text(note));
    }
    section("Where the time goes");
    parts();
    table("Queue and waiting", d.waits);
    text(d.waits.legend);
    section("The queue of a loader");
    queue();
    table("Queue and settings", d.queues);
    text(d.queues.legend);
    d.queues.notes.forEach((note) => text(note));
    return { items, verdict: {
        tone: p.consumer_ms <= 0 ? "plain"
            : p.backends.some((b) => best(b).bound === "consumer") ? "good"
                                                                   : "warn",
        text: p.headline, more: p.advice } };
}
