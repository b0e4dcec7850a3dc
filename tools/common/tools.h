// SPDX-License-Identifier: Apache-2.0
// Shared by the subcommands of headrace: exit codes, messages, clocks, sizes.
// The tools are clients of the public API and know nothing of its inside.
#ifndef HEADRACE_TOOLS_COMMON_TOOLS_H
#define HEADRACE_TOOLS_COMMON_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

// Exit codes, the same for every subcommand. A run that a signal ended exits
// with 128 + the signal's number, as shells do.
enum tools_exit {
    TOOLS_OK = 0,      // done; nothing failed that the user did not allow
    TOOLS_FAILED = 1,  // done, but some pictures failed
    TOOLS_CANNOT = 2,  // bad argument, input, output or device
};

enum { TOOLS_MAX_TOLD = 20 };  // failed pictures that get a line each

// Prints "headrace: TEXT" and a newline to stderr. Control bytes in it (names
// of files may hold any) come out as \xNN, so that one message is one line.
// Always false: what a function that gives up returns.
bool tools_warn(const char *format, ...) HR_PRINTF(1, 2);
// The last TEXT of this thread, cut to 511 bytes; "": there was none.
const char *tools_last_warning(void);

// Writes text to out with control bytes as \xNN; cuts it to fit size.
void tools_escape(char *out, size_t size, const char *text);

// "4096", "64K", "64M", "1.5G", "2GiB": bytes; K = 1024. False if text is
// anything else, or 0, or does not fit.
bool tools_parse_size(const char *text, uint64_t *bytes);

// Decimal digits only. False for anything else.
bool tools_parse_u64(const char *text, uint64_t *value);

double tools_seconds(void);      // monotonic
double tools_cpu_seconds(void);  // user + system time of this process
// CPU time of this thread: whatever else the machine does.
double tools_thread_seconds(void);
int tools_cores(void);          // that this process may use
uint64_t tools_peak_rss(void);  // bytes; 0 = unknown

// Flushes stdout. TOOLS_OK, or TOOLS_CANNOT with a message.
int tools_flush_stdout(void);

// "entropy..store", or "store" if the span is one stage.
void tools_span_text(char *out, size_t size, struct hr_span span);

// Prints " (12 TEXT, 3 TEXT)" of statuses: counts[i] of status -i; or nothing.
void tools_print_statuses(const uint64_t *counts, int num);

// Zeroes; free(). NULL: a message was printed.
void *tools_new(size_t size);

// A hash of a text: near texts and seeds are far apart.
uint64_t tools_hash(uint64_t seed, const char *text, size_t length);

// a * b, or false if it does not fit.
bool tools_mul(size_t *out, size_t a, size_t b);

#endif
