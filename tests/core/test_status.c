// SPDX-License-Identifier: Apache-2.0
// Names and texts of statuses, reasons and stages; the last error belongs to
// its thread; the log gets what it asked for.
#include "testing.h"

TEST_CASE(statuses)
{
    static const enum hr_status all[] = {
#define X(name, value, text) HR_##name,
        HR_STATUS_MAP(X)
#undef X
    };
    int n = sizeof(all) / sizeof(*all);

    for (int i = 0; i < n; i++) {
        const char *name = hr_status_name(all[i]);

        CHECK(!strncmp(name, "HR_", 3) && hr_status_text(all[i])[0], "%s",
              name);
        for (int k = 0; k < i; k++)
            CHECK(all[i] != all[k] && strcmp(name, hr_status_name(all[k])) &&
                      strcmp(hr_status_text(all[i]), hr_status_text(all[k])),
                  "%s twice", name);
        CHECK(all[i] < 0 || all[i] == HR_OK || all[i] == HR_PENDING, "%s",
              name);
    }
    CHECK(!strcmp(hr_status_name(HR_ECORRUPT), "HR_ECORRUPT"), "by name");
    CHECK(!strcmp(hr_status_name((enum hr_status) - 99), "HR_?"), "unknown");
    CHECK(hr_status_text((enum hr_status)99)[0], "unknown text");
}

TEST_CASE(whys)
{
    unsigned all = 0;

    CHECK(!strcmp(hr_why_text(0), ""), "0");
#define X(name, bit, text)                                                   \
    CHECK(HR_WHY_##name == 1 << (bit), #name);                               \
    CHECK(!(all & HR_WHY_##name), #name " twice");                           \
    CHECK(!strcmp(hr_why_text(HR_WHY_##name), text), #name);                 \
    CHECK(!strcmp(hr_why_text(HR_WHY_##name | ~(HR_WHY_##name - 1u)), text), \
          #name " is the lowest");                                           \
    all |= HR_WHY_##name;
    HR_WHY_MAP(X)
#undef X
    CHECK(hr_why_text(1u << 31)[0], "an unknown bit");
}

TEST_CASE(names)
{
    CHECK(!strcmp(hr_stage_name(HR_ENTROPY), "entropy"), "entropy");
    CHECK(!strcmp(hr_stage_name(HR_STORE), "store"), "store");
    CHECK(!strcmp(hr_stage_name(HR_READ), "read"), "read");
    CHECK(!strcmp(hr_stage_name(HR_HEADER), "header"), "header");
    CHECK(!strcmp(hr_stage_name(HR_NUM_STAGES), "?"), "none");
    CHECK(!strcmp(hr_stage_name((enum hr_stage)77), "?"), "77");
    CHECK(!strcmp(hr_dtype_name(HR_F16), "f16") && hr_dtype_size(HR_F16) == 2,
          "f16");
    CHECK(hr_dtype_size(HR_F32) == 4 && hr_dtype_size(HR_U8) == 1, "sizes");
    CHECK(hr_version()[0] >= '0' && hr_version()[0] <= '9', "version");
}

static void *other_thread(void *arg)
{
    bool *fresh = arg;

    *fresh = hr_last_status() == HR_OK && !strcmp(hr_last_error(), "");
    hr__fail(HR_EIO, "the other thread's");
    return NULL;
}

TEST_CASE(last_error)
{
    pthread_t t;
    bool fresh = false;
    char text[600];

    CHECK(hr__fail(HR_ELIMIT, "%d of %s", 3, "these") == HR_ELIMIT, "returned");
    CHECK(hr_last_status() == HR_ELIMIT &&
              !strcmp(hr_last_error(), "3 of these"),
          "%s", hr_last_error());
    pthread_create(&t, NULL, other_thread, &fresh);
    pthread_join(t, NULL);
    CHECK(fresh && hr_last_status() == HR_ELIMIT, "of another thread");
    hr__fail(HR_EIO, "(%s)", hr_last_error());
    CHECK(!strcmp(hr_last_error(), "(3 of these)"), "%s", hr_last_error());
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    hr__fail(HR_EIO, "%s", text);
    CHECK(strlen(hr_last_error()) < sizeof(text) - 1, "cut");
}

// ---- Log ------------------------------------------------------------------

struct seen {
    atomic_int lines, least;
    char text[512];
};

static void on_log(void *ctx, enum hr_log_level level, const char *msg)
{
    struct seen *s = ctx;

    atomic_fetch_add(&s->lines, 1);
    if ((int)level < atomic_load(&s->least))
        atomic_store(&s->least, (int)level);
    snprintf(s->text, sizeof(s->text), "%s", msg);
}

TEST_CASE(logs)
{
    static struct seen all = {.least = 99}, own = {.least = 99};
    struct hr_device_params p = {.threads = 1, .log = on_log, .log_ctx = &own};
    auto_device dev = hr_device_open("cpu", &p);

    hr__log(NULL, HR_LOG_ERROR, "dropped");
    hr_set_log(on_log, &all, HR_LOG_WARN);
    hr__log(NULL, HR_LOG_INFO, "below");
    CHECK(atomic_load(&all.lines) == 0, "the level");
    hr__log(NULL, HR_LOG_WARN, "%s %d", "number", 7);
    CHECK(atomic_load(&all.lines) == 1 && !strcmp(all.text, "number 7"), "%s",
          all.text);
    hr__log((struct hr__device *)dev, HR_LOG_DEBUG, "mine");
    CHECK(!strcmp(own.text, "mine") && atomic_load(&all.lines) == 1,
          "the device has its own");
    hr_set_log(NULL, NULL, HR_LOG_DEBUG);
    hr__log(NULL, HR_LOG_ERROR, "dropped");
    CHECK(atomic_load(&all.lines) == 1, "dropped");
}
