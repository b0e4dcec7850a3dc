#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the site in $HEADRACE_BUILD/site/html; a warning is an error.
#   build.sh PYTHON     PYTHON has the packages of tests/python/docs.txt
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$HEADRACE_BUILD
site=$build/site

mkdir -p "$site"
rm -rf "$site"/{photos,doxygen,html,static}
"$build/headrace" samples "$site" --photos-only --count 2 --size 240x180 \
    >/dev/null
"$1" docs/site/gallery.py "$build" "$(find "$site/photos" -name 'fruit-*')" \
    "$site/static/gallery"
(cat docs/site/Doxyfile; echo "OUTPUT_DIRECTORY = $site/doxygen") | doxygen -
"$1" -m sphinx -q -W --keep-going -c docs/site -d "$site/doctrees" -b html . \
    "$site/html"
echo '<meta http-equiv="refresh" content="0; url=docs/site/index.html">' \
    >"$site/html/index.html"
echo "made $site/html/index.html"
