// SPDX-License-Identifier: Apache-2.0
// Three failures in a row and the engine rests: samples are planned without it
// instead of failing on it one by one. When the rest is over some are let in on
// probation; if they fail too, the next rest is twice as long.
//
//   CLOSED --3 strikes--> OPEN --rest over--> probation --ok--> CLOSED
//                          ^----------------- failed ------------|

#include "hal/engine/guard.h"

enum { STRIKES = 3 };
#define REST_MIN INT64_C(1000000000)
#define REST_MAX INT64_C(60000000000)

unsigned hr__breaker_ask(struct hr__breaker *b, int tokens, int64_t now)
{
    if (!b->open)
        return 0;
    if (b->tokens) {
        b->tokens--;
        return 0;
    }
    if (now < b->until)
        return HR_WHY_BREAKER;
    // If none of these is ever heard of again, the next come after a rest.
    b->tokens = tokens - 1;
    b->until = now + b->rest;
    return 0;
}

void hr__breaker_note(struct hr__breaker *b, bool ok, int64_t now)
{
    if (ok) {
        *b = (struct hr__breaker){0};
        return;
    }
    if (++b->strikes < STRIKES)
        return;
    b->rest = b->rest ? 2 * b->rest : REST_MIN;
    if (b->rest > REST_MAX)
        b->rest = REST_MAX;
    b->open = true;
    b->tokens = 0;
    b->until = now + b->rest;
}
