// SPDX-License-Identifier: Apache-2.0
// nginx on the loopback, with a configuration of the test's own.
#ifndef HEADRACE_TESTS_NGINX_H
#define HEADRACE_TESTS_NGINX_H

#include <stdbool.h>
#include <sys/types.h>

struct nginx {
    pid_t pid;
    char http[64], https[64];  // URLs; "": not served. https/down/ leads to
                               // http/d/x.tar, http/moved/PATH to http/PATH
    char late[64];             // as http, but each answer begins 20 ms late
    char certificate[4200];    // of https, its own issuer
};

// Serves the files of a folder. False, with the reason in why: it is not here.
bool nginx_start(struct nginx *n, const char *folder, char why[256]);
void nginx_stop(struct nginx *n);

#endif
