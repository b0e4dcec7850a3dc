# SPDX-License-Identifier: Apache-2.0
# Writes C source OUT that holds the files of IN (a list with commas) as one
# string `ocl_kernels_source`; compilers' messages name the files.
string(REPLACE "," ";" files "${IN}")
set(text "// Made from kernels/ by cmake/embed_kernels.cmake.\n")
string(APPEND text "extern const char ocl_kernels_source[];\n")
string(APPEND text "const char ocl_kernels_source[] =\n")
foreach(file ${files})
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" body)
    string(REPLACE "\\" "\\\\" body "${body}")
    string(REPLACE "\"" "\\\"" body "${body}")
    string(REPLACE "\n" "\\n\"\n    \"" body "${body}")
    string(APPEND text
           "    \"#line 1 \\\"kernels/${name}\\\"\\n\"\n    \"${body}\\n\"\n")
endforeach()
string(APPEND text "    ;\n")
file(WRITE "${OUT}" "${text}")
