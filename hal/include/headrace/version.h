// SPDX-License-Identifier: Apache-2.0
// Version of the library, and the one macro that every public header needs.
#ifndef HEADRACE_VERSION_H
#define HEADRACE_VERSION_H

// The build reads these three lines; they name the release and the soname.
// The soname follows the API version, which is the number of lines in
// HR_API_CHANGES of CMakeLists.txt: version and changelog cannot part.
#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 2
#define HR_VERSION_PATCH 0

#if defined(HR_STATIC)
#define HR_API
#elif defined(__GNUC__)
#define HR_API __attribute__((visibility("default")))
#else
#define HR_API
#endif

#ifdef __cplusplus
#define HR_BEGIN_DECLS extern "C" {
#define HR_END_DECLS }
#else
#define HR_BEGIN_DECLS
#define HR_END_DECLS
#endif

// printf-like functions are checked by the compiler.
#if defined(__GNUC__)
#define HR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HR_PRINTF(fmt, args)
#endif

HR_BEGIN_DECLS

// "0.2.0", static storage. Threads: any.
HR_API const char *hr_version(void);

HR_END_DECLS
#endif
