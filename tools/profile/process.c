// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile.h"
#include "tools/common/stop.h"
#include "tools/common/tools.h"

// A driver may compile its kernels when it is first opened.
#define OPEN_SECONDS 120.0
// It closes its device, and its driver may hang then; in the kernel, too.
#define END_SECONDS 30.0
#define KILL_SECONDS 2.0

static void become_child(const int to[2], const int from[2])
{
    static char name[] = "headrace", command[] = "profile",
                hidden[] = "--measure";
    char *argv[] = {name, command, hidden, NULL};

    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
    execv("/proc/self/exe", argv);
    _exit(127);
}

static bool spawn(struct profile_config *c)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) < 0)
        return false;
    if (pipe2(from, O_CLOEXEC) < 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    fflush(stdout);
    c->pid = fork();
    if (c->pid == 0)
        become_child(to, from);
    close(to[0]);
    close(from[1]);
    if (c->pid < 0) {
        close(to[1]);
        close(from[0]);
        return false;
    }
    c->to = to[1];
    c->from = from[0];
    return true;
}

static bool send_line(struct profile_config *c, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0, done = 0;
    bool ok = text != NULL;

    if (text)
        text[size++] = '\n';
    while (ok && done < size) {
        ssize_t n = write(c->to, text + done, size - done);

        if (n < 0 && errno == EINTR)
            continue;
        ok = n > 0;
        done += ok ? (size_t)n : 0;
    }
    free(text);
    return ok;
}

static bool read_some(struct profile_config *c, double until)
{
    struct pollfd p = {.fd = c->from, .events = POLLIN};
    double left = until - tools_seconds();
    ssize_t n;
    int ready;

    if (c->line_used + 65536 > c->line_room) {
        size_t room = c->line_room + (1 << 20);
        char *more = realloc(c->line, room);

        if (!more)
            return false;
        c->line = more;
        c->line_room = room;
    }
    if (left <= 0 || stop_signal())
        return false;
    // A signal ends poll(), also with SA_RESTART: SIGCONT, too, and then there
    // may be nothing to read yet.
    ready = poll(&p, 1, (int)(left * 1000) + 1);
    if (ready == 0 || stop_signal())
        return false;
    if (ready < 0)
        return errno == EINTR;
    n = read(c->from, c->line + c->line_used, 65536);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0)
        return false;
    c->line_used += (size_t)n;
    return true;
}

static json_t *receive(struct profile_config *c, double seconds)
{
    double until = tools_seconds() + seconds;

    c->line_used = 0;
    while (!c->line_used || c->line[c->line_used - 1] != '\n')
        if (!read_some(c, until))
            return NULL;
    return json_loadb(c->line, c->line_used, 0, NULL);
}

// ---- Children that are gone ------------------------------------------------

bool profile_is_lost(const struct profile *p, int backend)
{
    for (int i = 0; i < p->num_losses; i++)
        if (p->losses[i].backend == backend)
            return true;
    return false;
}

void profile_loss_text(const struct profile_loss *loss, char *out, size_t size)
{
    snprintf(out, size, "%s, %d thread%s, %s: %s", loss->name, loss->threads,
             loss->threads == 1 ? "" : "s", profile_modes[loss->mode],
             loss->why);
}

// said: by the child itself, also on standard error; NULL: it could not.
static void note_loss(struct profile *p, const struct profile_config *c,
                      const char *said, const char *why)
{
    struct profile_loss *loss = &p->losses[p->num_losses];
    char text[768];

    if (profile_is_lost(p, c->backend))
        return;
    *loss = (struct profile_loss){.backend = c->backend,
                                  .name = p->opt.backends[c->backend],
                                  .threads = c->threads,
                                  .mode = c->mode};
    p->num_losses++;
    snprintf(loss->why, sizeof(loss->why), "%s", said ? said : why);
    profile_loss_text(loss, text, sizeof(text));
    if (!said)
        tools_warn("profile: %s", text);
}

// True: it is gone.
static bool is_gone_in(pid_t pid, double seconds)
{
    double until = tools_seconds() + seconds;
    pid_t gone;

    while (!(gone = waitpid(pid, NULL, WNOHANG)) && tools_seconds() < until)
        usleep(10000);
    return gone != 0;
}

// If the user ends it all nothing need be said.
static void lost(struct profile *p, struct profile_config *c, const char *said)
{
    int status = 0;
    bool stop = stop_signal();
    pid_t gone = waitpid(c->pid, &status, WNOHANG);
    char why[64] = "no answer";

    for (int i = 0; gone == 0 && !stop && i < 20; i++) {
        usleep(10000);
        gone = waitpid(c->pid, &status, WNOHANG);
    }
    if (gone == 0) {
        kill(c->pid, SIGKILL);
        is_gone_in(c->pid, KILL_SECONDS);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, sizeof(why), "killed by signal %d", WTERMSIG(status));
    } else {
        snprintf(why, sizeof(why), "ended with code %d", WEXITSTATUS(status));
    }
    if (!stop)
        note_loss(p, c, said, why);
    close(c->to);
    close(c->from);
    c->pid = 0;
}

static void drop(struct profile *p, int backend)
{
    int last = --p->opt.num_backends, n = 0;

    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        if (c->backend == backend) {
            profile_end(c);
            continue;
        }
        c->backend -= c->backend > backend;
        if (n != i)
            p->configs[n] = *c;
        n++;
    }
    p->num_configs = n;
    for (int b = backend; b < last; b++) {
        p->opt.backends[b] = p->opt.backends[b + 1];
        p->watch[b] = p->watch[b + 1];
    }
    p->watch[last] = (struct profile_watch){.valid = false};
}

void profile_drop_lost(struct profile *p)
{
    for (int i = 0; i < p->num_losses; i++) {
        int backend = p->losses[i].backend;

        drop(p, backend);
        p->losses[i].backend = -1;  // its name is the loss's from here on
        for (int k = i + 1; k < p->num_losses; k++)
            p->losses[k].backend -= p->losses[k].backend > backend;
    }
}

// ---- Talking ---------------------------------------------------------------

// NULL: the child is lost.
static json_t *answer_of(struct profile *p, struct profile_config *c, bool sent,
                         double seconds)
{
    json_t *answer = sent ? receive(c, seconds) : NULL;
    const char *said = json_string_value(json_object_get(answer, "error"));

    if (answer && !said)
        return answer;
    lost(p, c, said && *said ? said : NULL);
    json_decref(answer);
    return NULL;
}

static json_t *config_json(const struct profile *p,
                           const struct profile_config *c)
{
    const struct run_options *run = &p->opt.run;
    json_t *inputs = json_array(), *limits = json_array();
    char path[PATH_MAX];

    for (size_t i = 0; i < p->in.num; i++)
        json_array_append_new(inputs, profile_bytes_json(inputs_path(
                                          &p->in, i, path, sizeof(path))));
    for (int i = 0; i < OPTIONS_NUM_LIMITS; i++) {
        const char *word = p->words.source.limits[i];

        json_array_append_new(limits, word ? json_string(word) : json_null());
    }
    return json_pack("{s:s s:s s:o s:i s:i s:i s:i s:i s:b s:o s:o}", "ops",
                     run->ops_text, "reference",
                     hr_reference_name(hr_get_reference()), "backend",
                     profile_bytes_json(p->opt.backends[c->backend]), "batch",
                     run->batch, "threads", c->threads, "dtype",
                     (int)run->dtype, "tier", (int)run->tier, "mode",
                     (int)c->mode, "memory", p->opt.memory, "inputs", inputs,
                     "limits", limits);
}

bool profile_start(struct profile *p, struct profile_config *c)
{
    json_t *config, *ready;

    if (!spawn(c)) {
        tools_warn("profile: no process to measure in: %s", strerror(errno));
        return false;
    }
    config = config_json(p, c);
    ready = answer_of(p, c, config && send_line(c, config), OPEN_SECONDS);
    json_decref(config);
    if (!ready)
        return false;
    snprintf(c->device, sizeof(c->device), "%s",
             json_string_value(json_object_get(ready, "device")));
    snprintf(c->description, sizeof(c->description), "%s",
             json_string_value(json_object_get(ready, "description")));
    c->batch = (int)json_integer_value(json_object_get(ready, "batch"));
    c->ring = (int)json_integer_value(json_object_get(ready, "ring"));
    c->software = json_is_true(json_object_get(ready, "software"));
    c->pictures = json_number_value(json_object_get(ready, "pictures"));
    json_decref(ready);
    return true;
}

json_t *profile_ask(struct profile *p, struct profile_config *c,
                    json_t *command, double seconds)
{
    json_t *answer = answer_of(p, c, command && send_line(c, command),
                               seconds + OPEN_SECONDS);

    json_decref(command);
    return answer;
}

// One that is killed may hang in a driver yet: then it is left behind.
void profile_end_in(struct profile_config *c, double seconds)
{
    if (c->pid > 0) {
        close(c->to);
        if (!is_gone_in(c->pid, seconds) && !kill(c->pid, SIGKILL))
            is_gone_in(c->pid, KILL_SECONDS);
        close(c->from);
    }
    c->pid = 0;
    free(c->line);
    c->line = NULL;
    for (int i = 0; i < PROFILE_ROUNDS; i++) {
        free(c->rounds[i].latencies);
        free(c->fed[i].latencies);
        c->rounds[i].latencies = c->fed[i].latencies = NULL;
    }
}

void profile_end(struct profile_config *c)
{
    profile_end_in(c, END_SECONDS);
}
