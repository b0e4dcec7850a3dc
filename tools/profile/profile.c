// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

// ---- Configurations --------------------------------------------------------

static void add(struct profile *p, int backend, enum profile_mode mode,
                int threads)
{
    struct profile_config *c = &p->configs[p->num_configs++];

    c->backend = backend;
    c->mode = mode;
    c->threads = threads;
}

// The CPU with one thread is what everything is compared with.
static void choose(struct profile *p)
{
    int most = profile_most_threads(p);

    if (p->opt.threads[0] != 1)
        add(p, PROFILE_CPU, PROFILE_PLANNED, 1);
    for (int b = 0; b < p->opt.num_backends; b++) {
        for (int t = 0; t < p->opt.num_threads; t++)
            add(p, b, PROFILE_PLANNED, p->opt.threads[t]);
        if (!p->opt.memory)
            add(p, b, PROFILE_MEMORY, most);
        add(p, b, PROFILE_DECODED, most);
        add(p, b, PROFILE_WATCHED, most);
    }
}

// ---- Measuring -------------------------------------------------------------

static void progress(const struct profile *p, const char *what, int at, int of)
{
    if (p->opt.quiet || p->opt.json || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%-30s %d of %d \033[K", what, at, of);
    if (at == of)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static bool has_fed_rounds(const struct profile *p,
                           const struct profile_config *c)
{
    return p->opt.consumer_ms > 0 && c->mode == PROFILE_PLANNED;
}

// Seconds of one measurement, so that all of them take what the user gave.
static double window(const struct profile *p)
{
    int n = 0;
    double seconds;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        n += c->mode == PROFILE_WATCHED
                 ? 1
                 : PROFILE_ROUNDS * (1 + has_fed_rounds(p, c));
    }
    n += p->opt.num_backends * PROFILE_ROUNDS;  // their loaders
    seconds = p->opt.seconds / n;
    return seconds < 0.1 ? 0.1 : seconds > 30 ? 30 : seconds;
}

// A lost device leaves the other ones to be measured. A lost CPU ends it:
// everything is compared with it.
static bool goes_on(const struct profile *p, int backend)
{
    return p->lost[backend] && backend != PROFILE_CPU && !stop_signal();
}

// Measures all configurations in turns; every second round in reverse order.
static bool measure_all(struct profile *p, double seconds)
{
    const struct profile_order alone = {.seconds = seconds};
    const struct profile_order fed = {.seconds = seconds, .consumer = true};
    int n = p->num_configs;

    for (int round = 0; round < PROFILE_ROUNDS; round++)
        for (int k = 0; k < n; k++) {
            struct profile_config *c = &p->configs[round % 2 ? n - 1 - k : k];

            progress(p, "measuring", round * n + k + 1, n * PROFILE_ROUNDS);
            if (c->mode == PROFILE_WATCHED || p->lost[c->backend])
                continue;
            if ((!profile_ask(p, c, &alone) ||
                 (has_fed_rounds(p, c) && !profile_ask(p, c, &fed))) &&
                !goes_on(p, c->backend))
                return false;
        }
    return true;
}

static bool start_all(struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++) {
        progress(p, "opening devices", i + 1, p->num_configs);
        if (!profile_start(p, &p->configs[i]))
            return false;
    }
    return true;
}

// Measures each backend once more with the clocks on.
static bool watch_all(struct profile *p, double seconds)
{
    const struct profile_order order = {.seconds = seconds > 1 ? 1 : seconds,
                                        .consumer = p->opt.consumer_ms > 0};
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", p->trace_fd);
    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_WATCHED && !p->lost[c->backend] &&
            (!profile_ask(p, c, &order) || !profile_read_trace(p, c, path)) &&
            !goes_on(p, c->backend))
            return false;
    }
    return true;
}

// A loader's, in the process that has most threads: so many are the most that
// it finds.
static bool queue_all(struct profile *p, double seconds)
{
    const struct profile_order order = {.seconds = PROFILE_ROUNDS * seconds,
                                        .consumer = p->opt.consumer_ms > 0,
                                        .queue = true};

    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_PLANNED &&
            c->threads == profile_most_threads(p) && !p->lost[c->backend] &&
            !profile_ask(p, c, &order) && !goes_on(p, c->backend))
            return false;
    }
    return true;
}

// A place for traces on their way here, which the processes share; nothing is
// left of it, however this ends. False: a message was printed.
static bool open_place(struct profile *p)
{
    const char *dir = secure_getenv("TMPDIR");
    char path[PATH_MAX];

    snprintf(path, PATH_MAX, "%s/headrace-profile-XXXXXX",
             dir && *dir ? dir : "/tmp");
    if ((p->trace_fd = mkstemp(path)) < 0)
        return tools_warn("profile: %s: %s", path, strerror(errno));
    unlink(path);
    return true;
}

// ---- The command -----------------------------------------------------------

static bool write_trace(struct profile *p)
{
    struct out_file file = OUT_FILE_CLOSED;
    bool ok;

    if (!p->opt.trace)
        return true;
    ok = out_file_open(&file, p->opt.trace) &&
         json_dumpf(p->events, file.stream,
                    JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
         out_file_close(&file) && out_file_rename(&file);
    if (!ok)
        tools_warn("%s: cannot be written: %s", p->opt.trace, strerror(errno));
    out_file_discard(&file);
    return ok;
}

static int run(struct profile *p)
{
    double seconds;
    int code;

    if (!open_place(p))
        return TOOLS_CANNOT;
    // Also: a process that died is told by its silence, not by SIGPIPE.
    stop_install();
    choose(p);
    seconds = window(p);
    if (!start_all(p) || !measure_all(p, seconds) || !watch_all(p, seconds) ||
        !queue_all(p, seconds)) {
        progress(p, "", 1, 1);
        if (!stop_signal())
            return TOOLS_CANNOT;
        tools_warn("interrupted: nothing was written");
        return 128 + stop_signal();
    }
    profile_drop_lost(p);
    profile_summarize(p);
    // They may have gone meanwhile.
    if (profile_best_cpu(p)->rate <= 0)
        return options_fail("profile", "none of the pictures could be made");
    if (!write_trace(p) || !profile_report(p))
        return TOOLS_CANNOT;
    code = profile_print(p);
    if (p->num_losses)
        return TOOLS_CANNOT;
    return code == TOOLS_OK && p->in.num_faults ? TOOLS_FAILED : code;
}

int cmd_profile(int argc, char **argv)
{
    struct profile *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    if (p == MAP_FAILED)
        return options_fail("profile", "%s", strerror(errno));
    p->argc = argc;
    p->argv = argv;
    p->trace_fd = -1;
    code = profile_options(p, argc, argv);
    if (code == TOOLS_OK && !p->line.done)
        code = run(p);
    for (int i = 0; i < p->num_configs; i++)
        profile_end(&p->configs[i], PROFILE_END_SECONDS);
    json_decref(p->events);
    if (p->trace_fd >= 0)
        close(p->trace_fd);
    profile_options_finish(p);
    munmap(p, sizeof(*p));
    return code;
}
