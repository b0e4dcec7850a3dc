// SPDX-License-Identifier: Apache-2.0
#include "stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static bool hangup_ignored;

// A signal handler has no other place to leave its mark.
static volatile sig_atomic_t came;

void stop_look_at_hangup(void)
{
    struct sigaction was;

    hangup_ignored = !sigaction(SIGHUP, NULL, &was) &&
                     was.sa_handler == SIG_IGN;
}

static void on_stop(int number)
{
    came = number;
}

void stop_install(void)
{
    struct sigaction action = {.sa_handler = on_stop,
                               .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    // A command that nohup started outlives its terminal, although drivers
    // (LLVM in PoCL) have replaced the ignored signal with a handler.
    if (hangup_ignored)
        action.sa_handler = SIG_IGN;
    sigaction(SIGHUP, &action, NULL);
    // A closed pipe and a file over the limit are errors of write().
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

void stop_reset(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!hangup_ignored)
        signal(SIGHUP, SIG_DFL);
}

int stop_signal(void)
{
    return came;
}
