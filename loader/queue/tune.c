// SPDX-License-Identifier: Apache-2.0
#include "tune.h"

#define WAITS 0.02   // of the time: the consumer does not mind
#define PAYS 1.04    // what a step up must bring; 1 / PAYS is less than KEEPS,
#define KEEPS 0.97   // so that what came does not go again
#define BROKEN 0.8   // a trial that is so much worse ends at once
#define DRIFT 0.85   // the rate changed by itself
#define STARVED 0.1  // of the time: the device has too little
#define USED 0.7     // of the reads: all of them are wanted
#define TURNS 0.3    // of its time: a stage that is at work as often
#define JOINT (1u << HR__NUM_KNOBS)  // all that are used, together

enum {
    GROW_WINDOW = 6,
    WINDOW = 16,
    EARLY = 4,
    PAUSE = 8,  // windows
    LONGEST_PAUSE = 512,
    LEAST_DEPTH = 2,  // a hiccup's worth
    STAGES = 4,       // batches that a device has at work, each another stage
    LEAST_BYTES = 4 << 20,
};

// ---- Settings by number ----------------------------------------------------

static int64_t get(const struct hr_loader_settings *s, int knob)
{
    switch (knob) {
    case HR__KNOB_THREADS:
        return s->threads;
    case HR__KNOB_READS:
        return s->reads;
    case HR__KNOB_DEPTH:
        return s->depth;
    }
    return (int64_t)s->bytes;
}

static void set(struct hr_loader_settings *s, int knob, int64_t value)
{
    switch (knob) {
    case HR__KNOB_THREADS:
        s->threads = (int)value;
        break;
    case HR__KNOB_READS:
        s->reads = (int)value;
        break;
    case HR__KNOB_DEPTH:
        s->depth = (int)value;
        break;
    default:
        s->bytes = (size_t)value;
    }
}

static int64_t least(const struct hr__tune *t, int knob)
{
    int64_t most = get(&t->most, knob), n = 1;

    if (knob == HR__KNOB_DEPTH)
        n = LEAST_DEPTH;
    if (knob == HR__KNOB_BYTES)
        n = LEAST_BYTES;
    return n < most ? n : most;
}

static bool same(const struct hr_loader_settings *a,
                 const struct hr_loader_settings *b)
{
    for (int knob = 0; knob < HR__NUM_KNOBS; knob++)
        if (get(a, knob) != get(b, knob))
            return false;
    return true;
}

// ---- Windows ---------------------------------------------------------------

// Batches that are on their way were made with the settings before.
static void begin_window(struct hr__tune *t)
{
    int ahead = t->now.depth > t->before.depth ? t->now.depth : t->before.depth;
    bool trial = t->tried;

    t->skip = trial ? ahead + 1 : 0;
    t->size = trial && t->up ? GROW_WINDOW : trial ? WINDOW + ahead : WINDOW;
    t->left = t->size;
}

static struct hr__flow between(const struct hr__flow *a,
                               const struct hr__flow *b)
{
    double s = b->seconds - a->seconds;

    return (struct hr__flow){
        .seconds = s,
        .samples = (b->samples - a->samples) / s,
        .waited = (b->waited - a->waited) / s,
        .ready = (b->ready - a->ready) / s,
        .reading = (b->reading - a->reading) / s,
        .full = (b->full - a->full) / s,
        .making = (b->making - a->making) / s,
        .starved = (b->starved - a->starved) / s,
    };
}

static void forget_pauses(struct hr__tune *t)
{
    t->harmful = 0;
    for (int knob = 0; knob <= HR__NUM_KNOBS; knob++)
        for (int up = 0; up < 2; up++)
            t->pause[knob][up] = (struct hr__tune_pause){.next = PAUSE};
}

void hr__tune_init(struct hr__tune *t, const struct hr_loader_settings *start,
                   const struct hr_loader_settings *most, int batch)
{
    *t = (struct hr__tune){.now = *start, .most = *most, .batch = batch};
    for (int knob = 0; knob < HR__NUM_KNOBS; knob++) {
        int64_t n = get(start, knob), top = get(most, knob);

        if (n < 1 || (knob == HR__KNOB_BYTES && n < least(t, knob)))
            n = knob == HR__KNOB_BYTES ? least(t, knob) : 1;
        set(&t->now, knob, n < top ? n : top);
    }
    forget_pauses(t);
    t->before = t->now;
    t->skip = 2;  // what the threads' and the files' first use costs
    t->left = t->size = EARLY;
}

// ---- What a window says ----------------------------------------------------

static void pause_knob(struct hr__tune *t, int knob, bool up)
{
    struct hr__tune_pause *p = &t->pause[knob][up];

    p->now = p->next;
    p->next = p->next < LONGEST_PAUSE ? 2 * p->next : LONGEST_PAUSE;
}

static void pause(struct hr__tune *t, bool up)
{
    unsigned knobs = t->tried & JOINT && up ? JOINT : t->tried;

    for (int knob = 0; knob <= HR__NUM_KNOBS; knob++)
        if (knobs >> knob & 1)
            pause_knob(t, knob, up);
}

static bool paid(const struct hr__tune *t, const struct hr__flow *w)
{
    bool waited = t->seen.waited > WAITS, waits = w->waited > WAITS;

    if (t->up)
        return w->samples >= PAYS * t->rate ||
               (waited && !waits && w->waited < t->seen.waited / 2);
    if (waited)
        return w->samples >= KEEPS * t->goal && w->full <= STARVED;
    // The rate is the consumer's own. A queue that only empties has not said
    // it yet.
    return !waits &&
           w->ready / t->now.depth >= t->seen.ready / t->before.depth / 2;
}

static void judge(struct hr__tune *t, const struct hr__flow *w)
{
    if (paid(t, w)) {
        t->seen = *w;
        t->rate = w->samples;
        if (t->up) {
            t->goal = t->rate;
            pause(t, false);  // it is needed
        }
    } else {
        t->now = t->before;
        t->backs++;
        // Each time costs: it is tried less often; and not with others, if it
        // harms by more than noise.
        if (w->samples < KEEPS * t->rate)
            pause(t, t->up);
        if (t->up && w->samples < DRIFT * t->rate)
            t->harmful |= t->tried;
        pause(t, t->up);
    }
    t->tried = 0;
}

// Bytes are not tried, but given: without them nothing else shows whether it
// pays. A trial begins again.
static bool give_bytes(struct hr__tune *t, const struct hr__flow *w)
{
    size_t most = t->most.bytes, bytes = t->now.bytes;

    if (w->full <= STARVED || w->waited <= WAITS || bytes >= most ||
        (t->tried && !t->up))
        return false;
    bytes = bytes > most / 4 ? most : 4 * bytes;
    t->now.bytes = t->before.bytes = bytes;
    t->steps++;
    pause_knob(t, HR__KNOB_BYTES, false);
    return true;
}

// Nothing was tried: the rate is that of the settings.
static void follow(struct hr__tune *t, const struct hr__flow *w)
{
    bool first = t->rate <= 0, drifted;

    t->seen = *w;
    t->rate = first ? w->samples : (t->rate + w->samples) / 2;
    drifted = t->rate < t->goal * DRIFT || t->rate * DRIFT > t->goal;
    t->drifts = drifted ? t->drifts + 1 : 0;
    if (first || t->drifts > 1) {
        // Another time of day, a cache that is warm: all is open again.
        t->rate = t->goal = w->samples;
        t->drifts = 0;
        forget_pauses(t);
    } else if (!drifted) {
        t->goal = t->rate > t->goal ? t->rate
                                    : t->goal + (t->rate - t->goal) / 8;
    }
}

// ---- What is tried next ----------------------------------------------------

// Returns the value to try: as much as the consumer would take, twice to four
// times the present one.
static int64_t more(const struct hr__tune *t, int knob)
{
    int64_t now = get(&t->now, knob), most = get(&t->most, knob), next;
    double busy = 1 - t->seen.waited, times = busy > .25 ? 1 / busy : 4;

    next = (int64_t)((double)now * (times < 2 ? 2 : times));
    return next < most ? next : most;
}

static bool try_growing(struct hr__tune *t, unsigned knobs)
{
    t->before = t->now;
    for (int knob = 0; knob < HR__NUM_KNOBS; knob++)
        if (knobs >> knob & 1)
            set(&t->now, knob, more(t, knob));
    if (same(&t->now, &t->before))
        return false;
    t->tried = knobs;
    t->up = true;
    t->steps++;
    return true;
}

static unsigned can_grow(const struct hr__tune *t, int knob)
{
    return get(&t->now, knob) < get(&t->most, knob) && !t->pause[knob][1].now
               ? 1u << knob
               : 0;
}

// Finds the knobs that are short, by the queue that is full or empty: if both
// stages are equally short, both grow.
static unsigned short_of(const struct hr__tune *t)
{
    const struct hr__flow *w = &t->seen;
    // With less than a batch behind the one that is made threads wait for its
    // last samples.
    bool few = w->making < t->now.threads + t->batch;
    unsigned knobs = 0;

    if (w->starved < STARVED)
        knobs |= can_grow(t, HR__KNOB_THREADS);
    if (few && w->reading >= USED * t->now.reads)
        knobs |= can_grow(t, HR__KNOB_READS);
    if (few && !knobs)
        knobs = can_grow(t, HR__KNOB_DEPTH);
    return knobs;
}

// Stages that take turns, each idle while the other works, are short of nothing
// and of everything: then all grow that are used.
static unsigned all_used(const struct hr__tune *t)
{
    const struct hr__flow *w = &t->seen;
    unsigned knobs = 1u << HR__KNOB_DEPTH;

    if (t->pause[HR__NUM_KNOBS][1].now ||
        (w->starved < STARVED && t->now.threads == t->most.threads))
        return 0;
    if (w->starved < 1 - TURNS)
        knobs |= 1u << HR__KNOB_THREADS;
    if (w->reading > TURNS * t->now.reads)
        knobs |= 1u << HR__KNOB_READS;
    return JOINT | (knobs & ~t->harmful);
}

// A device that has work all the time may still work better on more batches,
// since uploading, computing and downloading overlap between batches.
static unsigned deeper(const struct hr__tune *t)
{
    double batches = t->seen.making / t->batch;

    return t->now.depth < STAGES && batches > t->now.depth - 1.5
               ? can_grow(t, HR__KNOB_DEPTH)
               : 0;
}

static bool grow_some(struct hr__tune *t)
{
    return try_growing(t, short_of(t)) || try_growing(t, all_used(t)) ||
           try_growing(t, deeper(t));
}

// Returns a value that would suffice, by the measurements of the window.
static int64_t enough(const struct hr__tune *t, int knob)
{
    const struct hr__flow *w = &t->seen;
    bool waits = w->waited > WAITS, has_many = 2 * w->ready >= t->now.depth;
    int64_t now = get(&t->now, knob), less = now - (now < 5 ? 1 : now / 4);
    double used;

    switch (knob) {
    case HR__KNOB_THREADS:
        used = (1 - w->starved) * t->now.threads * 1.25;
        break;
    case HR__KNOB_READS:
        used = w->reading * 2;
        break;
    case HR__KNOB_DEPTH:
        return (waits ? w->making < t->now.threads + 2 * t->batch : !has_many)
                   ? now
                   : less;
    default:
        return w->full > 0 ? now : now / 2;
    }
    if ((!waits && !has_many) || used > (double)now)
        return now;
    return (int64_t)used + 1;
}

static bool shrink_some(struct hr__tune *t)
{
    for (int knob = 0; knob < HR__NUM_KNOBS; knob++) {
        int64_t now = get(&t->now, knob), next = enough(t, knob);

        next = next < least(t, knob) ? least(t, knob) : next;
        if (next >= now || t->pause[knob][0].now)
            continue;
        t->before = t->now;
        set(&t->now, knob, next);
        t->tried = 1u << knob;
        t->up = false;
        t->steps++;
        return true;
    }
    return false;
}

// ---- A batch ---------------------------------------------------------------

// A trial that is far off is not worth the rest of its window.
static bool is_over(const struct hr__tune *t, const struct hr__flow *w)
{
    return !t->left || (t->tried && t->size - t->left >= EARLY &&
                        w->samples < BROKEN * t->rate);
}

static void step(struct hr__tune *t, const struct hr__flow *w)
{
    if (give_bytes(t, w)) {
        begin_window(t);
        return;
    }
    if (t->tried)
        judge(t, w);
    else
        follow(t, w);
    for (int knob = 0; knob <= HR__NUM_KNOBS; knob++)
        for (int up = 0; up < 2; up++)
            t->pause[knob][up].now -= t->pause[knob][up].now > 0;
    if (t->seen.waited <= WAITS || !grow_some(t))
        shrink_some(t);
    begin_window(t);
}

bool hr__tune_batch(struct hr__tune *t, const struct hr__flow *total)
{
    struct hr_loader_settings was = t->now;
    struct hr__flow w;

    if (t->skip > 0) {
        t->skip--;
        t->begin = *total;
        return false;
    }
    t->left -= t->left > 0;
    if (total->seconds <= t->begin.seconds)
        return false;
    w = between(&t->begin, total);
    if (!is_over(t, &w))
        return false;
    step(t, &w);
    t->begin = *total;
    return !same(&was, &t->now);
}
