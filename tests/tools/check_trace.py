#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a file a trace that Chrome's and Perfetto's viewers take?

    check_trace.py TRACE.json             checks, prints what is in it
    check_trace.py TRACE.json --perfetto  also loads it in Perfetto's parser
    check_trace.py --merge OURS.json TORCH.json OUT.json
    check_trace.py --self-test

Checks: every event has what its phase needs; every async begin has its end
and every arrow both ends, in order; spans of one row are nested or apart;
rows and processes have names; counters only have numbers; no two processes
use one id; what is of a job, a sample or a device's batch says of which.

--merge puts our trace on the time axis of torch.profiler's (wall time, or its
baseTimeNanoseconds) and writes both as one. A torch without Kineto (Debian's)
counts from its own start: there the program must leave marks of our clock in
torch's trace, and where there are some, they count:

    for _ in range(3):      # the first is slow; the quickest is taken
        with record_function(f"headrace clock {time.monotonic_ns()}"):
            pass

Exit code 1: something is wrong; 77: Perfetto's parser is not here.
"""
import argparse
import collections
import json
import sys

NEEDS = {"X": ("name", "ts", "dur", "pid", "tid"),
         "b": ("name", "cat", "id", "ts", "pid", "tid"),
         "e": ("name", "cat", "id", "ts", "pid", "tid"),
         "s": ("name", "cat", "id", "ts", "pid", "tid"),
         "f": ("name", "cat", "id", "ts", "pid", "tid", "bp"),
         "C": ("name", "ts", "pid", "args"),
         "M": ("name", "pid", "args")}


IDS = {"host": ("job",), "device": ("batch",), "sample": ("job", "sample"),
       "job": ("job",)}


def ns(us):
    """Times are written with three digits: compared as whole ns."""
    return round(us * 1000)


def check_form(events):
    for i, e in enumerate(events):
        ph = e.get("ph")
        if ph not in NEEDS:
            yield f"event {i}: phase {ph!r}"
            continue
        for key in NEEDS[ph]:
            if key not in e:
                yield f"event {i} ({ph} {e.get('name')}): no {key}"
        if not isinstance(e.get("name"), str) or not e["name"]:
            yield f"event {i}: its name is {e.get('name')!r}"
        for key in ("ts", "dur"):
            if key in e and (not isinstance(e[key], (int, float)) or
                             e[key] < 0):
                yield f"event {i}: {key} is {e[key]!r}"
        if ph == "C" and not all(isinstance(v, (int, float))
                                 for v in e.get("args", {}).values()):
            yield f"event {i}: a counter that is no number"


def check_pairs(events):
    open_, arrows = {}, collections.defaultdict(dict)
    for e in sorted((e for e in events if e["ph"] in "be"),
                    key=lambda e: (ns(e["ts"]), e["ph"] != "b")):
        key = (e["cat"], e["id"], e["name"])
        if e["ph"] == "b":
            if key in open_:
                yield f"{key} begins twice"
            open_[key] = e["pid"]
        elif open_.pop(key, None) != e["pid"]:
            yield f"{key} ends without a begin in its process"
    for key in open_:
        yield f"{key} never ends"
    for e in events:
        if e["ph"] in "sf":
            ends = arrows[e["cat"], e["id"]]
            if e["ph"] in ends:
                yield f"arrow {e['id']} has two {e['ph']}"
            ends[e["ph"]] = e["ts"]
    for key, ends in arrows.items():
        if len(ends) != 2:
            yield f"arrow {key} has only {list(ends)}"
        elif ends["f"] < ends["s"]:
            yield f"arrow {key} leads back in time"


def check_nesting(events):
    rows = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            rows[e["pid"], e["tid"]].append(
                (ns(e["ts"]), -ns(e["dur"]), e["name"]))
    for row, spans in rows.items():
        stack = []
        for begin, minus, name in sorted(spans):
            end = begin - minus
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack and end > stack[-1][0]:
                yield (f"row {row}: {name} at {begin} ns ends {end}, after "
                       f"{stack[-1][1]} around it ends {stack[-1][0]}")
            stack.append((end, name))


def check_names(events):
    named = {(e["pid"], e.get("tid")) for e in events
             if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"] for e in events
                 if e["ph"] == "M" and e["name"] == "process_name"}
    for e in events:
        if e["ph"] == "X" and (e["pid"], e["tid"]) not in named:
            yield f"row {e['pid']}.{e['tid']} has no name"
            return
        if e["ph"] != "M" and e["pid"] not in processes:
            yield f"process {e['pid']} has no name"
            return


def check_ids(events):
    """Of which job and sample, or batch of a device, is it?"""
    for e in events:
        # An idle thread has none, a thread that waits for room has none yet.
        if (e["ph"] not in "Xb" or e.get("cat") not in IDS or
                e["name"] in ("idle", "wait for room")):
            continue
        needs, args = IDS[e["cat"]], e.get("args", {})
        if e["name"] in ("pack", "deliver"):  # by an engine's own threads
            needs = ("batch",)
        if e["cat"] == "host" and "engine" not in args:
            continue  # the program's own
        if e["name"] == "entropy" and not {"job", "batch", "sample"} & set(args):
            continue  # a worker helps with pictures of several jobs
        if e["name"] in ("read", "prepare") or ".." in e["name"]:
            needs += ("sample",)
        for key in needs:
            if key not in args:
                yield f"{e['name']} at {e['ts']}: of which {key}?"
                return


def check_head(trace):
    other = trace.get("otherData", {})
    for key in ("wall_minus_monotonic_ns", "dropped_events"):
        if not str(other.get(key, "")).lstrip("-").isdigit():
            yield f"otherData.{key} is {other.get(key)!r}"
    if other.get("clock") not in ("CLOCK_MONOTONIC", "wall"):
        yield f"otherData.clock is {other.get('clock')!r}"


def check(trace):
    """Returns the faults, as sentences."""
    events = trace.get("traceEvents")
    if not isinstance(events, list) or not events:
        return ["no traceEvents"]
    wrong = list(check_form(events))
    if wrong:
        return wrong
    return [text for part in (check_pairs, check_nesting, check_names,
                              check_ids)
            for text in part(events)] + list(check_head(trace))


def mark_shift(events):
    """Microseconds from CLOCK_MONOTONIC to the axis of events, by the marks in
    them; None: there are none. A delay of a mark made its time later."""
    return min((e["ts"] - int(e["name"].split()[2]) / 1000 for e in events
                if "ts" in e and
                str(e.get("name")).startswith("headrace clock ")),
               default=None)


def merge(ours, torch):
    kineto = isinstance(torch, dict)
    theirs = torch["traceEvents"] if kineto else torch
    other = ours["otherData"]
    wall = int(other["wall_minus_monotonic_ns"]) / 1000
    shift = mark_shift(theirs)
    if shift is None:
        if not kineto:
            sys.exit("this torch has no Kineto: its trace counts from its own "
                     "start. Leave a mark in it (see --help)")
        shift = wall - int(torch.get("baseTimeNanoseconds", 0)) / 1000
    if other["clock"] == "wall":
        shift -= wall
    events = theirs + [{**e, "ts": e["ts"] + shift} if "ts" in e else e
                       for e in ours["traceEvents"]]
    return {**(torch if kineto else {}), "traceEvents": events}


def good():
    """A small trace that is right."""
    row = {"pid": 1, "tid": 2}
    span = {"ph": "X", "name": "a", "ts": 10.5, "dur": 5, "cat": "host",
            "args": {"engine": "cpu", "job": 1, "sample": 0}, **row}
    pair = {"name": "job", "cat": "job", "id": "1", "args": {"job": 1}, **row}
    return {"traceEvents": [
        {"ph": "M", "name": "process_name", "args": {"name": "p"}, **row},
        {"ph": "M", "name": "thread_name", "args": {"name": "t"}, **row},
        span, {**span, "ts": 11, "dur": 4.5}, {**span, "ts": 15.5},
        {"ph": "b", "ts": 10, **pair}, {"ph": "e", "ts": 12, **pair},
        {"ph": "s", "ts": 10, **pair},
        {"ph": "f", "bp": "e", "ts": 12, **pair},
        {"ph": "C", "ts": 10, "name": "n", "args": {"value": 3}, **row}],
        "otherData": {"clock": "CLOCK_MONOTONIC", "dropped_events": "0",
                      "wall_minus_monotonic_ns": "1700000000000000000"}}


def self_test():
    assert not check(good()), check(good())

    def harm(i, **change):
        trace = good()
        e = trace["traceEvents"][i]
        for key, value in change.items():
            if value is None:
                del e[key]
            else:
                e[key] = value
        return trace
    harmed = [harm(2, dur=None), harm(2, ts=-1), harm(2, ph="B"),
              harm(3, dur=6.2), harm(1, name="other"), harm(0, name="other"),
              harm(5, id="2"), harm(6, id="2"), harm(6, ts=9),
              harm(7, id="2"), harm(8, ts=9), harm(8, bp=None),
              harm(2, args={"engine": "cpu"}),
              harm(2, name="read", args={"engine": "cpu", "job": 1}),
              harm(2, cat="device"), harm(5, args={}),
              harm(9, args={"value": "3"}), {"traceEvents": []},
              {**good(), "otherData": {}},
              {**good(), "traceEvents": good()["traceEvents"] +
               [{**e, "pid": 3} for e in good()["traceEvents"]]}]
    for i, trace in enumerate(harmed):
        assert check(trace), f"harm {i} was not noticed"
    both = merge(good(), {"baseTimeNanoseconds": 1700000000000000000,
                          "traceEvents": [{"ph": "X", "ts": 1}]})
    assert both["traceEvents"][3]["ts"] == 10.5, both["traceEvents"][3]
    marked = merge(good(), [{"ph": "X", "ts": 7, "name":
                             "headrace clock 10000"}])
    assert marked["traceEvents"][3]["ts"] == 7.5, marked["traceEvents"][3]
    print(f"self-test: {len(harmed)} kinds of harm noticed")


def perfetto(path):
    try:
        from perfetto.trace_processor import TraceProcessor
        processor = TraceProcessor(trace=path)
    except Exception as e:  # no package, or no binary to be had
        print(f"not run: Perfetto's parser: {e}")
        return 77
    (row,) = processor.query("select count(*) as n from slice")
    print(f"Perfetto's parser: {row.n} slices")
    return 0 if row.n else 1


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("trace", nargs="*")
    p.add_argument("--perfetto", action="store_true")
    p.add_argument("--merge", action="store_true")
    p.add_argument("--self-test", action="store_true")
    o = p.parse_args()
    if o.self_test:
        return self_test()
    loaded = []
    for path in o.trace[:2]:
        with open(path) as f:
            loaded.append(json.load(f))
    if o.merge:
        with open(o.trace[2], "w") as f:
            json.dump(merge(*loaded), f)
        return 0
    wrong = check(loaded[0])
    for text in wrong[:20]:
        print(text)
    counts = collections.Counter(e.get("ph")
                                 for e in loaded[0]["traceEvents"])
    print(f"{o.trace[0]}: {dict(counts)}, {len(wrong)} wrong, "
          f"{loaded[0]['otherData']['dropped_events']} dropped")
    if wrong:
        return 1
    return perfetto(o.trace[0]) if o.perfetto else 0


if __name__ == "__main__":
    sys.exit(main())
