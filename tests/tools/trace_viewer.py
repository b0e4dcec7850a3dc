#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does a trace viewer that is not ours take a trace?

    trace_viewer.py TRACE.json      loads it in Chromium's
    trace_viewer.py --self-test     .. and traces that are harmed

Chromium's developer tools read Chrome's trace event format to show it. Their
parser is loaded in a headless Chromium and given the trace: it must find every
span on its row, as many as the file has, rows and processes by their names,
spans of a row nested, and no two processes tied together, which is what equal
ids do. Exit code 1: it does not; 77: no such browser, or none with such tools.
"""
import collections
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import check_trace

SECONDS = 60  # for each answer of the browser

MODULE = "devtools://devtools/bundled/models/trace/trace.js"

LOAD = """(async () => {
    const trace = await import("%s");
    const model = trace.TraceModel.Model.createWithAllHandlers();

    await model.parse(%s, {});
    const data = model.parsedTrace().data, rows = {}, deepest = {}, names = {};
    for (const [pid, process] of data.Renderer.processes)
        for (const [tid, thread] of process.threads) {
            rows[pid + "." + tid] = thread.entries.length;
            deepest[pid + "." + tid] = thread.tree ? thread.tree.maxDepth : 0;
        }
    for (const [pid, threads] of data.Meta.threadsInProcess)
        for (const [tid, event] of threads)
            names[pid + "." + tid] = event.args.name;
    for (const [pid, event] of data.Meta.processNames)
        names[pid] = event.args.name;
    return { rows, deepest, names,
             flows: data.Flows.flows.map((f) => f.map((e) => e.pid)) };
})()"""


class NotRun(Exception):
    pass


class Browser:
    """A headless Chromium that answers on a pipe; messages end with a 0."""

    def __init__(self, home):
        name = shutil.which("chromium") or shutil.which("chromium-browser")
        if not name:
            raise NotRun("chromium is not installed")
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}',
             "-", name, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={home}/profile", "--remote-debugging-pipe",
             "about:blank"],
            pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": home, "XDG_CACHE_HOME": home,
                 "XDG_CONFIG_HOME": home})
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest, self.number, self.session = b"", 0, None

    def message(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise NotRun("chromium does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise NotRun("chromium ended")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **params):
        self.number += 1
        call = {"id": self.number, "method": method, "params": params}
        if self.session:
            call["sessionId"] = self.session
        data = json.dumps(call).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise NotRun(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target,
                                flatten=True)["sessionId"]
        error = self.ask("Page.navigate", url=url).get("errorText")
        if error:
            raise NotRun(f"{url}: {error}")

    def run(self, script):
        """(value, None) or (None, what was thrown)"""
        result = self.ask("Runtime.evaluate", expression=script,
                          returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            thrown = result["exceptionDetails"].get("exception", {})
            return None, thrown.get("description", "?").split("\n")[0]
        return result["result"].get("value"), None

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)


def open_tools(browser):
    browser.open("devtools://devtools/bundled/devtools_app.html")
    for _ in range(20):  # until the page is there
        has, error = browser.run(
            f'import("{MODULE}").then((m) => "TraceModel" in m)')
        if has:
            return
        time.sleep(0.25)
    raise NotRun(f"these developer tools have no such parser: {error}")


def in_file(events):
    """Returns the rows and names that the viewer should find."""
    rows, names = collections.Counter(), {}
    for e in events:
        if e["ph"] == "X":
            rows[f"{e['pid']}.{e['tid']}"] += 1
        elif e["name"] == "thread_name":
            names[f"{e['pid']}.{e['tid']}"] = e["args"]["name"]
        elif e["name"] == "process_name":
            names[str(e["pid"])] = e["args"]["name"]
    return rows, names


def differences(browser, events, expected=None):
    seen, error = browser.run(LOAD % (MODULE, json.dumps(events)))
    if error:
        return [f"it is not taken: {error}"]
    rows, names = in_file(expected or events)
    wrong = [f"row {row}: {seen['rows'].get(row, 0)} spans of {n}"
             for row, n in rows.items() if seen["rows"].get(row) != n]
    wrong += [f"{key} is {seen['names'].get(key)!r}, not {name!r}"
              for key, name in names.items() if seen["names"].get(key) != name]
    wrong += [f"row {row}: its spans are not nested" for row in rows
              if not seen["deepest"].get(row)]
    wrong += [f"processes {sorted(set(pids))} are tied together"
              for pids in seen["flows"] if len(set(pids)) > 1]
    return wrong


def self_test(browser):
    good = check_trace.good()["traceEvents"]
    other = [{**e, "pid": 3, "ts": e.get("ts", 0) + 100} for e in good]
    wrong = differences(browser, good)
    assert not wrong, wrong
    for what, events, word in (
            ("a lost span", good[:3] + good[4:], "spans of"),
            ("another name", [{**good[0], "args": {"name": "q"}}] + good[1:],
             "is 'q'"),
            ("equal ids", good + other, "tied")):
        wrong = differences(browser, events, good)
        assert any(word in text for text in wrong), (what, wrong)
    print("self-test: 3 kinds of harm noticed")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="headrace-viewer-",
                                     ignore_cleanup_errors=True) as home:
        browser = None
        try:
            browser = Browser(home)
            open_tools(browser)
            if sys.argv[1] == "--self-test":
                self_test(browser)
                return 0
            with open(sys.argv[1]) as f:
                trace = json.load(f)
            wrong = differences(browser, trace["traceEvents"])
        except NotRun as e:
            print(f"not run: {e}")
            return 77
        finally:
            if browser:
                browser.close()
    for text in wrong[:20]:
        print(text)
    print(f"Chromium's parser: {sum(in_file(trace['traceEvents'])[0].values())}"
          f" spans, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
