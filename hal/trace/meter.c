// SPDX-License-Identifier: Apache-2.0
// Measurements of engines: adds them to the trace and to sums.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hal/trace/trace.h"

// A clock that stands while measuring is off, so that a wait counts only as far
// as it was measured. Below 0 it runs, and is that much behind hr__now().
static _Atomic int64_t measured;

static int64_t measured_now(void)
{
    int64_t clock = atomic_load(&measured);

    return clock < 0 ? clock + hr__now() : clock;
}

static void run_clock(bool on)
{
    int64_t was = atomic_load(&measured), now;

    // The time is asked after the clock is read: what it is stopped with may
    // not be earlier than what another thread has just started it with.
    do
        now = hr__now();
    while ((was < 0) != on && !atomic_compare_exchange_weak(
                                  &measured, &was, on ? was - now : was + now));
}

void hr_profile_times(bool on)
{
    run_clock(on);
    if (on)
        atomic_fetch_or(&hr__watch, (unsigned)HR__WATCH_TIMES);
    else
        atomic_fetch_and(&hr__watch, ~(unsigned)HR__WATCH_TIMES);
}

static bool timed(void)
{
    return hr__watched() & HR__WATCH_TIMES;
}

struct hr__event hr__event(enum hr__event_kind kind, const char *name,
                           int64_t begin, int64_t end)
{
    return (struct hr__event){.name = name,
                              .begin = begin,
                              .end = end,
                              .sample = -1,
                              .kind = (uint8_t)kind,
                              .first = HR_NUM_STAGES,
                              .last = HR_NUM_STAGES};
}

void hr__event_of_engine(struct hr__event *event, struct hr__engine *e)
{
    event->row = atomic_load_explicit(&e->meter.name, memory_order_relaxed);
    event->serial = e->meter.serial;
}

// ---- Engines ---------------------------------------------------------------

void hr__meter_engine(struct hr__engine *e)
{
    static _Atomic uint32_t serial;

    if (!e->meter.serial) {
        e->meter.serial = atomic_fetch_add(&serial, 1) + 1;
        pthread_mutex_init(&e->meter.lock, NULL);
    }
    atomic_store(&e->meter.name, hr__intern(e->name));
}

void hr__meter_finish(struct hr__engine *e)
{
    pthread_mutex_destroy(&e->meter.lock);
}

void hr__watch_thread(struct hr__engine *e, const char *format, ...)
{
    clockid_t clock;
    char name[32];
    va_list args;
    int i;

    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    hr__trace_thread(name);
    // For debuggers and top(1), which have 15 characters.
    name[15] = '\0';
    pthread_setname_np(pthread_self(), name);
    if (!e)
        return;
    i = atomic_fetch_add(&e->meter.num_threads, 1);
    if (i < HR_PROFILE_THREADS &&
        !pthread_getcpuclockid(pthread_self(), &clock))
        atomic_store(&e->meter.clocks[i], clock);
}

static void add(struct hr__engine *e, enum hr_part part, int64_t ns)
{
    hr__count(&e->meter.ns[part], ns > 0 ? (uint64_t)ns : 0);
    hr__count(&e->meter.times[part], 1);
}

void hr__watch_sum(struct hr__engine *e, enum hr_part part, int64_t ns)
{
    if (timed())
        add(e, part, ns);
}

void hr__watch_code(struct hr__engine *e, enum hr__augment_code code,
                    int64_t ns, int times)
{
    if (!timed())
        return;
    hr__count(&e->meter.code_ns[code], ns > 0 ? (uint64_t)ns : 0);
    hr__count(&e->meter.code_times[code], (uint64_t)times);
}

void hr__watch_part(struct hr__engine *e, enum hr_part part, uint64_t batch,
                    int64_t begin)
{
    struct hr__event event;

    if (!begin)
        return;
    event = hr__event(HR__EVENT_SPAN, hr_part_name(part), begin, hr__now());
    event.job = batch;
    event.of_batch = true;
    hr__event_of_engine(&event, e);
    if (timed())
        add(e, part, event.end - begin);
    if (hr__traced())
        hr__trace(&event);
}

// The sum holds a thread that waits as minus the time it began, and with now
// for each of them is right at any moment, not only when a wait has ended.
static void count_idle(struct hr__meter *m, int one)
{
#if !HR_NO_WATCH
    pthread_mutex_lock(&m->lock);
    m->idle += one;
    m->idle_ns -= one * measured_now();
    pthread_mutex_unlock(&m->lock);
#else
    (void)m;
    (void)one;
#endif
}

static uint64_t idle_now(struct hr__meter *m)
{
    int64_t ns;

    pthread_mutex_lock(&m->lock);
    ns = m->idle_ns + m->idle * measured_now();
    pthread_mutex_unlock(&m->lock);
    return ns > 0 ? (uint64_t)ns : 0;
}

int64_t hr__watch_idle_begin(struct hr__engine *e)
{
    count_idle(&e->meter, 1);
    return hr__watch_begin();
}

void hr__watch_idle_end(struct hr__engine *e, int64_t begin)
{
    struct hr__event event;

    count_idle(&e->meter, -1);
    if (!begin || !hr__traced())
        return;
    event = hr__event(HR__EVENT_SPAN, "idle", begin, hr__now());
    hr__event_of_engine(&event, e);
    hr__trace(&event);
}

void hr__watch_device(struct hr__engine *e, const char *queue,
                      enum hr_part part, uint64_t batch, int64_t begin,
                      int64_t end)
{
    struct hr__event event = hr__event(HR__EVENT_DEVICE, hr_part_name(part),
                                       begin, end);
    char row[64];

    if (timed())
        add(e, part, end - begin);
    if (!hr__traced())
        return;
    snprintf(row, sizeof(row), "%.40s %.20s", e->name, queue);
    event.row = hr__intern(row);
    event.serial = e->meter.serial;
    event.job = batch;
    event.of_batch = true;
    hr__trace(&event);
}

// ---- Sums ------------------------------------------------------------------

static void read_codes(struct hr__meter *m, struct hr_engine_profile *out)
{
    static const char *const names[] = {
#define X(NAME, name) #name,
        HR__AUGMENT_MAP(X)
#undef X
    };
    _Static_assert(sizeof(names) / sizeof(*names) < HR_PROFILE_CODES,
                   "all, and their end");

    for (int i = 0; i < HR__NUM_AUGMENT; i++)
        out->codes[i] =
            (struct hr_code_profile){names[i], atomic_load(&m->code_ns[i]),
                                     atomic_load(&m->code_times[i])};
    out->codes[HR__NUM_AUGMENT].name = NULL;
}

void hr__meter_read(struct hr__meter *m, struct hr_engine_profile *out)
{
    out->name = atomic_load(&m->name);
    out->device_times = atomic_load(&m->device_times);
    for (int i = 0; i < HR_NUM_PARTS; i++) {
        out->parts[i].ns = atomic_load(&m->ns[i]);
        out->parts[i].times = atomic_load(&m->times[i]);
    }
    read_codes(m, out);
    out->tasks = atomic_load(&m->tasks);
    out->batches = atomic_load(&m->batches);
    out->launches = atomic_load(&m->launches);
    out->bytes_up = atomic_load(&m->bytes_up);
    out->bytes_down = atomic_load(&m->bytes_down);
    out->bytes_imported = atomic_load(&m->bytes_imported);
    out->import_falls = atomic_load(&m->import_falls);
    for (int i = 0; i < HR_PROFILE_RUNGS; i++)
        out->rungs[i] = (struct hr_rung_profile){
            atomic_load(&m->rungs[i].name), atomic_load(&m->rungs[i].samples)};
    out->idle_ns = idle_now(m);
    out->num_threads = atomic_load(&m->num_threads);
    for (int i = 0; i < HR_PROFILE_THREADS; i++) {
        clockid_t clock = atomic_load(&m->clocks[i]);

        // 0 is another clock: the thread has not said which is its own.
        out->cpu_ns[i] = clock ? (uint64_t)hr__read_clock(clock) : 0;
    }
}
