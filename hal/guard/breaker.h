// SPDX-License-Identifier: Apache-2.0
// When an engine that fails rests.
#ifndef HR__BREAKER_H
#define HR__BREAKER_H

#include <stdbool.h>
#include <stdint.h>

// Failures of an engine in a row, and the rest they earn; zeroed it is closed.
// The caller locks.
struct hr__breaker {
    int strikes;
    bool open;
    int64_t until, rest;  // ns
    int tokens;           // samples let in on probation
};
// 0 = offer; else HR_WHY_BREAKER. After a rest so many samples (`tokens`) are
// let in, one per call.
unsigned hr__breaker_ask(struct hr__breaker *b, int tokens, int64_t now);
void hr__breaker_note(struct hr__breaker *b, bool ok, int64_t now);

#endif
