#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Opens reports in a headless Chromium: no console error, every chart drawn
# where its data lies, every text and number of the data on the page, nothing
# wider than the window, at 1280 and at 400 pixels, light and dark.
#   report_test.sh BUILD [SHOTS]   SHOTS: a folder that gets the screenshots
# Exit code 77: not run.
set -uo pipefail
export LC_ALL=C

build=$(readlink -f "${1:?usage: report_test.sh BUILD [SHOTS]}")
shots=${2-}
browser=$(command -v chromium || command -v chromium-browser || true)
if [[ -z $browser ]]; then
    echo "not run: chromium is not installed"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export HOME=$tmp XDG_CACHE_HOME=$tmp/cache XDG_CONFIG_HOME=$tmp/config
failed=0 opened=0

complain() { echo "FAILED: $*"; failed=$((failed + 1)); }

chrome()  # width arguments...
{
    local width=$1
    shift
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu \
        --disable-dev-shm-usage --no-first-run --hide-scrollbars \
        --user-data-dir="$tmp/profile" --window-size="$width,1000" \
        --virtual-time-budget=5000 --enable-logging=stderr --v=0 "$@"
}

attribute()  # name file
{
    grep -oE "data-$1=\"[^\"]*\"" "$2" | head -n 1 | cut -d'"' -f2
}

# A window of Chromium's is 500 pixels wide at least, a frame in it is not. The
# findings of selfcheck.js are copied out of the frame.
frame()  # page width height
{
    python3 "$(dirname "$0")/selfcheck.py" "$1" "$tmp/checked.htm"
    cat >"$tmp/frame.htm" <<END
<!DOCTYPE html><html style="color-scheme: light dark"><body
style="margin:0"><iframe id="f" src="file://$tmp/checked.htm" width="$2" height="$3"
style="border:0; display:block"></iframe><script>
const inside = document.getElementById("f");
setInterval(() => Object.assign(document.documentElement.dataset,
    inside.contentDocument?.documentElement?.dataset), 50);
</script></body></html>
END
}

open_page()  # file width at-least-charts scheme
{
    local page=$1 width=$2 charts=$3 dark=() found height=${HEIGHT:-3600}
    local local_files=(--disable-web-security --allow-file-access-from-files)
    opened=$((opened + 1))
    [[ ${4-} != dark ]] || dark=(--blink-settings=preferredColorScheme=0)
    frame "$page" "$width" "$height"
    chrome "$width" "${dark[@]}" "${local_files[@]}" --dump-dom \
        "file://$tmp/frame.htm" >"$tmp/dom" 2>"$tmp/log" ||
        complain "$page at $width: chromium failed"
    found=$(attribute selfcheck "$tmp/dom")
    [[ $found == ok ]] || complain "$page at $width: ${found:-no self-check}"
    found=$(attribute width "$tmp/dom")
    [[ $found == "$width" ]] || complain "$page: is ${found:-?} wide, not $width"
    found=$(attribute charts "$tmp/dom")
    ((${found:-0} >= charts)) || complain "$page: ${found:-0} charts"
    if grep -E 'CONSOLE' "$tmp/log"; then
        complain "$page at $width: said something on the console"
    fi
    if [[ $shots ]]; then
        mkdir -p "$shots"
        chrome "$width" "${dark[@]}" --window-size="$width,$height" \
            --screenshot="$shots/$(basename "$page" .html)-$width${4-}.png" \
            "file://$tmp/frame.htm" >/dev/null 2>&1
    fi
}

# The page says what its data says, also what its script made of it.
contents()  # file
{
    sed 's|^foot();$|&\nroot.append(el("i", { id: "made", "data-made":\
        JSON.stringify(data) }));|' "$1" >"$tmp/made.htm"
    chrome 1280 --dump-dom "file://$tmp/made.htm" >"$tmp/dom" 2>/dev/null
    python3 "$(dirname "$0")/report_page.py" "$tmp/dom" ||
        complain "$1 does not say what its data says"
}

# harm WHAT WIDTH SCHEME WORDS OLD NEW: the sample with that done to its script
# must say those words, at that width, and in light or dark.
harm()
{
    local page=$tmp/harmed.htm found dark=()
    [[ $3 != dark ]] || dark=(--blink-settings=preferredColorScheme=0)
    python3 - "$tmp/sample.html" "$page" "$5" "$6" <<'END' ||
import sys
page = open(sys.argv[1], encoding="utf-8", errors="surrogateescape").read()
if page.count(sys.argv[3]) != 1:
    sys.exit(1)
open(sys.argv[2], "w", encoding="utf-8", errors="surrogateescape").write(
    page.replace(sys.argv[3], sys.argv[4]))
END
        complain "self-test: $1: nothing to harm"
    frame "$page" "$2" 3600
    chrome "$2" "${dark[@]}" --disable-web-security \
        --allow-file-access-from-files --dump-dom "file://$tmp/frame.htm" \
        >"$tmp/dom" 2>"$tmp/log"
    found=$(attribute selfcheck "$tmp/dom")
    [[ $found == *"$4"* ]] ||
        complain "$1 at $2, $3: the page says '${found:-nothing}'"
}

# Tests the detection of errors: an error in the script, and charts that have
# their axes, but not their data.
self_test()
{
    local all='datasets: datasets(entry.item)' at
    harm "a broken page" 1280 light "not finished" \
        'const INKS' 'nothing.at.all(); const INKS'
    grep -q CONSOLE "$tmp/log" || complain "a broken page's error is not seen"
    harm "words that break" 400 light "a word of a table is broken" \
        'td.text { min-width: 13ch; }' \
        'td.text { min-width: 0; max-width: 3ch; word-break: break-all; }'
    ((charts)) || return
    for at in "1280 light" "1280 dark" "400 light" "400 dark"; do
        # shellcheck disable=SC2086
        harm "no data" $at "no data" "$all" 'datasets: []'
    done
    harm "a series less" 1280 light "no data" "$all" "$all.slice(1)"
    harm "values of nothing" 400 dark "has no extent" "$all" \
        "$all.map((d) => ({ ...d, data: d.data.map(() => null) }))"
    harm "a value less" 1280 light "elements" "$all" \
        "$all.map((d) => ({ ...d, data: d.data.slice(1) }))"
    harm "axes that are swapped" 1280 light "is not where" \
        '({ x: p[0], y: p[1] })' '({ x: p[1], y: p[0] })'
    harm "bars of half the length" 1280 light "is not where" "$all" \
        "$all.map((d) => ({ ...d, data: d.data.map((v) => v?.x ? v : v / 2) }))"
    harm "colours that are too few" 1280 light "have one colour" \
        'i % INKS.length' 'i % 12'
    harm "no ink" 400 light "is not in its colour" "$all" "$all.map((d) => (
        { ...d, backgroundColor: 'transparent', borderColor: 'transparent' }))"
}

charts=7
"$build/tests/test_report" --sample "$tmp/sample.html" ||
    complain "no sample report"
if ! grep -q 'id="licence">.*' "$tmp/sample.html" ||
   ! grep -q 'Chart.js v' "$tmp/sample.html"; then
    echo "this build has no Chart.js: charts are not looked at"
    charts=0
fi
sample_charts=$charts
open_page "$tmp/sample.html" 1280 $charts
open_page "$tmp/sample.html" 400 $charts
open_page "$tmp/sample.html" 1280 $charts dark
contents "$tmp/sample.html"
# Pages of the commands, with findings and without.
if "$build/tests/test_validate" --sample "$tmp/validate.html"; then
    ((!charts)) || charts=2
    open_page "$tmp/validate.html" 1280 $charts
    open_page "$tmp/validate.html" 400 $charts
    contents "$tmp/validate.html"
else
    complain "no report of findings"
fi
"$build/headrace" samples --count 8 "$tmp/pictures" >/dev/null
if "$build/headrace" profile "$tmp/pictures" --backends cpu --seconds 2 \
       --threads 1,2 --batch 8 --consumer 10 -q --report "$tmp/profile.html" >/dev/null; then
    ((!charts)) || charts=3
    open_page "$tmp/profile.html" 1280 $charts
    open_page "$tmp/profile.html" 400 $charts
    contents "$tmp/profile.html"
    # One thread made none of the pictures in time.
    sed 's/"img_per_s":[0-9.]*/"img_per_s":0.0/' "$tmp/profile.html" \
        >"$tmp/none.html"
    open_page "$tmp/none.html" 1280 $charts
else
    complain "no report of a profile"
fi
charts=$sample_charts
self_test
for page in "$tmp"/*.html; do
    (($(stat -c %s "$page") <= 2000000)) || complain "$page is too large"
done
echo "$opened pages opened, $failed failed"
((!failed))
