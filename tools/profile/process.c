// SPDX-License-Identifier: Apache-2.0
// A process that measures is a fork of this one, which has no thread but this
// one and no driver. It has a copy of all that was read and one end of a
// socket; struct profile is one for both.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile.h"
#include "tools/common/stop.h"
#include "tools/common/tools.h"

// A driver may compile its kernels when it is first opened.
#define OPEN_SECONDS 120.0
// Killed, it may hang in the kernel yet.
#define KILL_SECONDS 2.0

// Signals end it at once: only the parent has something to say of them. It
// keeps no end of another's socket, or that one would miss the parent's end.
static void become_child(struct profile *p, struct profile_config *c, int fd)
{
    stop_reset();
    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].pid > 0 && &p->configs[i] != c)
            close(p->configs[i].fd);
    _exit(profile_child(p, c, fd));
}

static bool spawn(struct profile *p, struct profile_config *c)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return false;
    fflush(stdout);
    if (!(pid = fork())) {
        close(ends[0]);
        become_child(p, c, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    c->fd = ends[0];
    c->pid = pid;
    return true;
}

// Its status; -1: it was killed, for it did not end in time.
static int wait_for(pid_t pid, double seconds)
{
    double until = tools_seconds() + seconds;
    bool killed = false;
    int status = -1;

    while (!waitpid(pid, &status, WNOHANG)) {
        if (tools_seconds() >= until && killed)
            break;
        if (tools_seconds() >= until) {
            kill(pid, SIGKILL);
            killed = true;
            until = tools_seconds() + KILL_SECONDS;
        }
        usleep(5000);
    }
    return killed ? -1 : status;
}

int profile_end(struct profile_config *c, double seconds)
{
    pid_t pid = c->pid;

    if (pid <= 0)
        return 0;
    close(c->fd);
    c->pid = 0;
    return wait_for(pid, seconds);
}

// ---- Lost processes --------------------------------------------------------

void profile_loss_text(const struct profile_loss *loss, char *out, size_t size)
{
    snprintf(out, size, "%s, %d thread%s, %s: %s", loss->name, loss->threads,
             profile_plural(loss->threads), profile_modes[loss->mode],
             loss->why);
}

// The process's own message is on standard error already.
static void note_loss(struct profile *p, const struct profile_config *c,
                      int status)
{
    struct profile_loss *loss = &p->losses[p->num_losses];
    char text[768];

    if (p->lost[c->backend])
        return;
    p->lost[c->backend] = true;
    p->num_losses++;
    *loss = (struct profile_loss){.name = p->opt.backends[c->backend],
                                  .threads = c->threads,
                                  .mode = c->mode};
    if (c->why[0])
        snprintf(loss->why, sizeof(loss->why), "%s", c->why);
    else if (status < 0)
        snprintf(loss->why, sizeof(loss->why), "no answer");
    else if (WIFSIGNALED(status))
        snprintf(loss->why, sizeof(loss->why), "killed by signal %d",
                 WTERMSIG(status));
    else
        snprintf(loss->why, sizeof(loss->why), "ended with code %d",
                 WEXITSTATUS(status));
    profile_loss_text(loss, text, sizeof(text));
    if (!c->why[0])
        tools_warn("profile: %s", text);
}

void profile_drop_lost(struct profile *p)
{
    int to[PROFILE_BACKENDS], kept = 0, n = 0;

    for (int b = 0; b < p->opt.num_backends; b++) {
        to[b] = kept;
        if (p->lost[b])
            continue;
        p->opt.backends[kept] = p->opt.backends[b];
        p->queues[kept] = p->queues[b];
        p->watch[kept++] = p->watch[b];
    }
    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        if (p->lost[c->backend]) {
            profile_end(c, PROFILE_END_SECONDS);
            continue;
        }
        c->backend = to[c->backend];
        if (n++ != i)
            p->configs[n - 1] = *c;
    }
    p->opt.num_backends = kept;
    p->num_configs = n;
}

// ---- Talking ---------------------------------------------------------------

// One byte says that it is done. A signal ends poll(), also with SA_RESTART.
static bool has_answered(struct profile_config *c, double seconds)
{
    double until = tools_seconds() + seconds, left;
    struct pollfd f = {.fd = c->fd, .events = POLLIN};
    char byte;

    while ((left = until - tools_seconds()) > 0 && !stop_signal()) {
        int ready = poll(&f, 1, (int)(left * 1000) + 1);

        if (ready > 0)
            return read(c->fd, &byte, 1) == 1;
        if (ready < 0 && errno != EINTR)
            break;
    }
    return false;
}

// Takes a process's answer. A loss is not told if the user interrupted the run.
static bool answer(struct profile *p, struct profile_config *c, double seconds)
{
    int status;

    if (has_answered(c, seconds))
        return true;
    status = profile_end(c, stop_signal() ? 0 : 0.2);
    if (!stop_signal())
        note_loss(p, c, status);
    return false;
}

bool profile_start(struct profile *p, struct profile_config *c)
{
    if (spawn(p, c))
        return answer(p, c, OPEN_SECONDS);
    return tools_warn("profile: no process to measure in: %s", strerror(errno));
}

// To one that is gone this cannot be sent; then it does not answer, either.
bool profile_ask(struct profile *p, struct profile_config *c,
                 const struct profile_order *order)
{
    ssize_t sent = write(c->fd, order, sizeof(*order));

    (void)sent;
    return answer(p, c, order->seconds + OPEN_SECONDS);
}

void profile_find_automatic(struct profile *p)
{
    pid_t pid = fork();

    if (!pid) {
        hr_device dev = hr_device_open(NULL, NULL);

        snprintf(p->automatic, sizeof(p->automatic), "%s",
                 dev ? dev->name : "cpu");
        hr_device_close(&dev);
        _exit(0);
    }
    if (pid > 0)
        wait_for(pid, OPEN_SECONDS);
    if (!p->automatic[0])
        snprintf(p->automatic, sizeof(p->automatic), "cpu");
}
