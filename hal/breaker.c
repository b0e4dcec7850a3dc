// SPDX-License-Identifier: Apache-2.0
// Three failures in a row and the engine rests: samples are planned without it
// instead of failing on it one by one. When the rest is over some are let in on
// probation; if they fail too, the next rest is twice as long.
//
//   CLOSED --3 strikes--> OPEN --rest over--> probation --ok--> CLOSED
//                          ^----------------- failed ------------|
//
// An engine may also fail now and then only, by calls that take too long: each
// success would forgive it, and all who use it would wait again and again. So
// the time that is lost has a budget of its own, a leaky bucket: each slow call
// books SHARE times what it took, and time pays that back.
#include "hal/backend.h"

enum { STRIKES = 3, SHARE = 10, AT_ONCE = 3 };
#define REST_MIN INT64_C(1000000000)
#define SLOW_MAX INT64_C(3600000000000)
#define REST_MAX INT64_C(60000000000)

unsigned hr__breaker_ask(struct hr__breaker *b, int tokens, int64_t now)
{
    if (now < b->resume)
        return HR_WHY_BREAKER;
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
        *b = (struct hr__breaker){.slow = b->slow, .resume = b->resume};
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

void hr__breaker_slow(struct hr__breaker *b, int64_t ns, int64_t now)
{
    hr__breaker_note(b, false, now);
    ns = SHARE * (ns < SLOW_MAX ? ns : SLOW_MAX);
    b->slow = (b->slow > now ? b->slow : now) + ns;
    b->resume = b->slow - (AT_ONCE - 1) * ns;
}
