// SPDX-License-Identifier: Apache-2.0
// Options and counters: the process's, not a display's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct options options;
struct va_driver_counters counters;

// All counters change here, so that reading them is one moment.
void count(long *counter, long by)
{
    pthread_mutex_lock(&lock);
    *counter += by;
    if (counter == &counters.in_flight &&
        counters.in_flight > counters.max_in_flight)
        counters.max_in_flight = counters.in_flight;
    pthread_mutex_unlock(&lock);
}

static void options_default(void)
{
    options = (struct options){.person = &personalities[0],
                               .workers = 2,
                               .pitch = 64};
}

static void first(void)
{
    const char *text = getenv("HEADRACE_VA_DRIVER");

    options_default();
    if (text && options_apply(text) < 0)
        fprintf(stderr, "va_driver: HEADRACE_VA_DRIVER=%s: what is that?\n",
                text);
}

void options_get(struct options *o)
{
    pthread_once(&once, first);
    pthread_mutex_lock(&lock);
    *o = options;
    pthread_mutex_unlock(&lock);
}

// Clears the counts of events, but not of objects that are alive.
static void counters_reset(void)
{
    struct va_driver_counters *c = &counters;

    pthread_mutex_lock(&lock);
    c->max_in_flight = c->in_flight;
    c->decoded = c->processed = c->failed = c->left = 0;
    c->bad_ids = c->thread_violations = c->remarks = c->faults = 0;
    memset(c->calls, 0, sizeof(c->calls));
    pthread_mutex_unlock(&lock);
}

static const struct flag {
    const char *name;
    uint32_t bit;
} flags[] = {
    {"serial", PERSON_SERIAL},       {"no_status", PERSON_NO_STATUS},
    {"no_sync2", PERSON_NO_SYNC2},   {"mute_status", PERSON_MUTE_STATUS},
    {"no_sync", PERSON_NO_SYNC},     {"no_convert", PERSON_NO_CONVERT},
    {"no_offset", PERSON_NO_OFFSET}, {"limited", PERSON_LIMITED},
    {"no_scale", PERSON_NO_SCALE},   {"keep_tables", PERSON_KEEP_TABLES},
    {"dc_12", PERSON_DC_12},         {"reshape", PERSON_RESHAPE},
    {"no_fourcc", PERSON_NO_FOURCC}, {"no_limits", PERSON_NO_LIMITS},
    {"no_vpp", PERSON_NO_VPP},       {"no_export", PERSON_NO_EXPORT},
};

static const struct number {
    const char *name;
    size_t at;
    double unit;
    long low, high;
} numbers[] = {
    {"latency", offsetof(struct options, latency_us), 1000, 0, 600000000},
    {"workers", offsetof(struct options, workers), 1, 1, MAX_WORKERS},
    {"cores", offsetof(struct options, cores), 1, 0, 1000},
    {"pitch", offsetof(struct options, pitch), 1, 1, 65536},
    {"offset", offsetof(struct options, offset), 1, 0, 1 << 24},
    {"deviate", offsetof(struct options, deviate), 1, 0, 255},
};

// name=value of the options that are numbers or flags. False: not one.
static bool set_number(const char *name, const char *value)
{
    char *end;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const struct number *n = &numbers[i];
        double v = strtod(value, &end) * n->unit;

        if (strcmp(n->name, name))
            continue;
        if (*end || v < (double)n->low || v > (double)n->high)
            return false;
        *(long *)((char *)&options + n->at) = (long)v;
        return true;
    }
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        if (strcmp(flags[i].name, name))
            continue;
        options.set &= ~flags[i].bit;
        options.clear &= ~flags[i].bit;
        *(strcmp(value, "0") ? &options.set : &options.clear) |= flags[i].bit;
        return true;
    }
    return false;
}

// A fourcc that the driver knows, or "none".
static bool set_fourcc(uint32_t *to, const char *value)
{
    uint32_t fourcc = 0;

    if (strcmp(value, "none") != 0) {
        for (int i = 0; i < 4 && value[i]; i++)
            fourcc |= (uint32_t)(unsigned char)value[i] << 8 * i;
        if (strlen(value) != 4 || !format_of(fourcc))
            return false;
    }
    *to = fourcc;
    return true;
}

static bool set_option(const char *name, const char *value)
{
    static const char *const idcts[] = {"islow", "ifast", "float"};
    static const char *const damages[] = {"report", "list", "silent"};

    if (!strcmp(name, "personality")) {
        const struct personality *p = personality_find(value);

        options.person = p ? p : options.person;
        return p != NULL;
    }
    if (!strcmp(name, "deviate_in"))
        return set_fourcc(&options.deviate_in, value);
    if (!strcmp(name, "vpp_swap"))
        return set_fourcc(&options.vpp_swap, value);
    if (!strcmp(name, "vpp_no_flip"))
        return set_fourcc(&options.vpp_no_flip, value);
    if (!strcmp(name, "vpp_no_crop"))
        return set_fourcc(&options.vpp_no_crop, value);
    if (!strcmp(name, "modifier")) {
        options.modifier = strtoull(value, NULL, 0);
        return true;
    }
    if (!strcmp(name, "damage")) {
        for (int i = 0; i < 3; i++) {
            if (!strcmp(value, damages[i])) {
                options.damage = (enum damage)i;
                return true;
            }
        }
        return false;
    }
    if (!strcmp(name, "idct")) {
        for (int i = 0; i < 3; i++) {
            if (!strcmp(value, idcts[i])) {
                options.idct = (enum idct)i;
                return true;
            }
        }
        return false;
    }
    return set_number(name, value);
}

// One word. The lock is not held: faults and the log have their own.
static int apply_word(char *word)
{
    char *value = strchr(word, '=');
    bool good;

    if (!value && !strcmp(word, "reset")) {
        counters_reset();
        return 0;
    }
    if (!value && !strcmp(word, "release")) {
        fault_release();
        return 0;
    }
    if (!value && !strcmp(word, "default")) {
        pthread_mutex_lock(&lock);
        options_default();
        pthread_mutex_unlock(&lock);
        fault_clear();
        return 0;
    }
    if (!value)
        return -1;
    *value++ = '\0';
    if (!strcmp(word, "fault"))
        return fault_parse(value);
    if (!strcmp(word, "log")) {
        log_open(value);
        return 0;
    }
    pthread_mutex_lock(&lock);
    good = set_option(word, value);
    pthread_mutex_unlock(&lock);
    return good ? 0 : -1;
}

int options_apply(const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    int rc = copy ? 0 : -1;

    for (char *word = copy ? strtok_r(copy, " ,\n", &rest) : NULL;
         word && rc == 0; word = strtok_r(NULL, " ,\n", &rest))
        rc = apply_word(word);
    free(copy);
    return rc;
}

__attribute__((visibility("default"))) va_driver_control_fn headrace_va_control;

int headrace_va_control(const char *text, struct va_driver_counters *to)
{
    int rc;

    pthread_once(&once, first);
    rc = text ? options_apply(text) : 0;
    pthread_mutex_lock(&lock);
    if (to)
        *to = counters;
    pthread_mutex_unlock(&lock);
    return rc;
}
