// SPDX-License-Identifier: Apache-2.0
// Planned faults and their times. fault=CALL:WHAT[:WHEN], see README.md.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

enum { MAX_FAULTS = 16 };

struct plan {
    enum va_driver_call call;
    struct fault fault;
    long first, last;  // of this call's occurrences since the fault was set
    long seen;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static unsigned long generation;
static struct plan plans[MAX_FAULTS];
static int num_plans;

static const char *const names[] = {
#define X(name) #name,
    VA_DRIVER_CALLS(X)
#undef X
};

void fault_clear(void)
{
    pthread_mutex_lock(&lock);
    num_plans = 0;
    pthread_mutex_unlock(&lock);
}

// Ends everything that hangs: calls return an error, pictures end in one.
// Waiting calls go on.
void fault_release(void)
{
    pthread_mutex_lock(&lock);
    num_plans = 0;
    generation++;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

unsigned long fault_generation(void)
{
    unsigned long now;

    pthread_mutex_lock(&lock);
    now = generation;
    pthread_mutex_unlock(&lock);
    return now;
}

static bool parse_what(const char *text, struct fault *f)
{
    static const struct word {
        const char *name;
        enum fault_what what;
    } words[] = {
        {"hang", FAULT_HANG}, {"wait", FAULT_WAIT},   {"stale", FAULT_STALE},
        {"zero", FAULT_ZERO}, {"wrong", FAULT_WRONG},
    };
    char *end;

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (!strcmp(words[i].name, text)) {
            f->what = words[i].what;
            return true;
        }
    }
    f->what = strncmp(text, "sleep", 5) ? FAULT_STATUS : FAULT_SLEEP;
    text += f->what == FAULT_SLEEP ? 5 : 0;
    f->value = strtol(text, &end, 0);
    return end != text && !*end;
}

// once, always, N (the Nth from now), N+ (from the Nth on), N-M
static bool parse_when(const char *text, struct plan *p)
{
    char *end;

    p->first = 1;
    p->last = strcmp(text, "always") ? 1 : -1;
    if (!strcmp(text, "once") || !strcmp(text, "always"))
        return true;
    p->first = p->last = strtol(text, &end, 10);
    if (!strcmp(end, "+")) {
        p->last = -1;
        end++;
    } else if (*end == '-') {
        p->last = strtol(end + 1, &end, 10);
    }
    return p->first > 0 && !*end;
}

int fault_parse(const char *text)
{
    char copy[96] = "", *rest = NULL;
    const char *call, *what, *when;
    struct plan p = {.call = VA_DRIVER_NUM_CALLS};
    int rc = -1;

    if (!strcmp(text, "none")) {
        fault_clear();
        return 0;
    }
    strncpy(copy, text, sizeof(copy) - 1);
    call = strtok_r(copy, ":", &rest);
    what = strtok_r(NULL, ":", &rest);
    when = strtok_r(NULL, ":", &rest);
    for (int i = 0; call && i < VA_DRIVER_NUM_CALLS; i++)
        if (!strcmp(names[i], call))
            p.call = (enum va_driver_call)i;
    if (p.call == VA_DRIVER_NUM_CALLS || !what || !parse_what(what, &p.fault) ||
        !parse_when(when ? when : "once", &p))
        return -1;
    // Pictures do not wait, they are late.
    if (p.fault.what == FAULT_WAIT &&
        (p.call == VA_DRIVER_Decode || p.call == VA_DRIVER_Process))
        return -1;
    pthread_mutex_lock(&lock);
    if (num_plans < MAX_FAULTS) {
        plans[num_plans++] = p;
        rc = 0;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

struct fault fault_next(enum va_driver_call call)
{
    struct fault f = {FAULT_NONE, 0};

    count(&counters.calls[call], 1);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < num_plans; i++) {
        struct plan *p = &plans[i];

        if (p->call != call)
            continue;
        p->seen++;
        if (p->seen >= p->first && (p->last < 0 || p->seen <= p->last))
            f = p->fault;
    }
    pthread_mutex_unlock(&lock);
    if (f.what != FAULT_NONE)
        count(&counters.faults, 1);
    return f;
}

static void hang(void)
{
    unsigned long mine;

    count(&counters.hanging, 1);
    pthread_mutex_lock(&lock);
    for (mine = generation; mine == generation;)
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
    count(&counters.hanging, -1);
}

VAStatus fault_enter(enum va_driver_call call)
{
    struct fault f = fault_next(call);
    struct timespec t = {f.value / 1000, f.value % 1000 * 1000000};

    switch (f.what) {
    case FAULT_STATUS:
        return (VAStatus)f.value;
    case FAULT_HANG:
        hang();
        // The display may be gone: nothing of it may be touched.
        return VA_STATUS_ERROR_HW_BUSY;
    case FAULT_WAIT:
        hang();
        return VA_STATUS_SUCCESS;
    case FAULT_SLEEP:
        nanosleep(&t, NULL);
        return VA_STATUS_SUCCESS;
    default:
        return VA_STATUS_SUCCESS;
    }
}
