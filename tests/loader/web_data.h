// SPDX-License-Identifier: Apache-2.0
// Sources by HTTP for tests: the data on disk and on a server.
#ifndef HEADRACE_TESTS_WEB_DATA_H
#define HEADRACE_TESTS_WEB_DATA_H

#include <headrace/headrace.h>

#include "http_server.h"

enum { WEB_N = 40 };  // samples of each form

// The data on disk; folder NULL: they were not made yet.
extern struct web_set {
    hr_source folder;
    const char *dir, *tar, *rec, *pack;
    char list[4200];
} web_set;
void web_make_set(void);
// Their paths on the server: tar, RecordIO, pack file.
extern const char *const web_shards[3];
// The same on disk.
hr_source web_local(int shard);

// A server that has the data.
struct http_server *web_start(void);
// The URL of one of its paths; of the last eight.
const char *web_at(const struct http_server *s, const char *path);
// An empty source whose retries come at once. header NULL: none.
hr_source web_quick(const char *header);
// Number of samples that are not those of `want`: bytes, names, labels.
int web_differing(hr_source got, hr_source want);
// Checks that all forms at url equal the files on disk, with any server.
void web_check_forms(hr_source (*make)(const char *with), const char *with,
                     const char *url);
// Pictures that are none, of ten sizes by turns; random bytes.
hr_source web_large_folder(const size_t *sizes, int n);
// Ten epochs in batches of 8.
hr_loader web_loader(hr_source s, enum hr_on_error on_error, bool shuffle);

// For http_server.fault: server->which at each third request, at all of them.
enum http_fault web_each_third(struct http_server *s, int n, const char *path);
enum http_fault web_always(struct http_server *s, int n, const char *path);

// test_main(), unless URLs cannot be read here.
int web_main(int argc, char **argv);

#endif
