# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.18)
# Writes the page of reports to PAGE, with @DATA@ where its data comes, and C
# source OUT that holds it in two parts around that: DIR/page.html with the
# files it names put in, and page.js of the tools. CHART and LICENCE may be
# missing: then there are no charts.
file(READ "${DIR}/page.html" page)
file(READ "${DIR}/report.css" css)
set(js "")
foreach(file report/charts.js profile/page.js validate/page.js report/report.js)
    file(READ "${DIR}/../${file}" part)
    string(APPEND js "${part}")
endforeach()
set(chart "")
set(licence "")
set(has_charts 0)
if(EXISTS "${CHART}" AND EXISTS "${LICENCE}")
    file(READ "${CHART}" chart)
    file(READ "${LICENCE}" licence)
    set(has_charts 1)
endif()
string(REPLACE "@CSS@" "${css}" page "${page}")
string(REPLACE "@LICENCE@" "${licence}" page "${page}")
string(REPLACE "@CHART@" "${chart}" page "${page}")
string(REPLACE "@JS@" "${js}" page "${page}")
file(WRITE "${PAGE}" "${page}")
string(FIND "${page}" "@DATA@" at)
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR at "${at} + 6")
string(SUBSTRING "${page}" ${at} -1 tail)

set(text "// Made from tools/report/ by cmake/embed_report.cmake.\n")
foreach(part head tail)
    set(body "${${part}}")
    string(REPLACE "\\" "\\\\" body "${body}")
    string(REPLACE "\"" "\\\"" body "${body}")
    string(REPLACE "\n" "\\n\"\n    \"" body "${body}")
    string(APPEND text "extern const char report_page_${part}[];\n"
           "const char report_page_${part}[] =\n    \"${body}\";\n")
endforeach()
string(APPEND text "extern const int report_page_charts;\n"
       "const int report_page_charts = ${has_charts};\n")
file(WRITE "${OUT}" "${text}")
