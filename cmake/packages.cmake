# SPDX-License-Identifier: Apache-2.0
# Debian packages, one for each component: `./dev deb` runs cpack.
#   libheadraceN     the library; N is the version of its interface
#   libheadrace-dev  headers, headrace.pc, CMake's files
#   headrace         the command and its manual pages
#   python3-headrace the Python package
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headrace)
set(CPACK_PACKAGE_VENDOR "the Headrace authors")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pictures to tensors on any engine")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL lib dev tools python)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${CPACK_PACKAGE_VENDOR})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(this "libheadrace${HR_API_VERSION} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LIB_PACKAGE_NAME libheadrace${HR_API_VERSION})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_SUGGESTS
    "ocl-icd-libopencl1, libva-drm2, libcurl4, libarchive13, libhwloc15")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libheadrace-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${this}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME headrace)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION graphics)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${this}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-headrace)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${this}, python3 (>= 3.11)")

# Compiled Python files go with the package.
foreach(script postinst prerm)
    set(call "py3clean -p python3-headrace")
    if(script STREQUAL "postinst")
        set(call "py3compile -p python3-headrace")
    endif()
    file(WRITE "${PROJECT_BINARY_DIR}/deb/${script}"
         "#!/bin/sh\nset -e\n${call}\n")
    list(APPEND scripts "${PROJECT_BINARY_DIR}/deb/${script}")
endforeach()
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${scripts})
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)

foreach(component LIB DEV TOOLS PYTHON)
    string(TOLOWER ${component} name)
    install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright
            DESTINATION share/doc/${CPACK_DEBIAN_${component}_PACKAGE_NAME}
            COMPONENT ${name})
endforeach()
include(CPack)
