// SPDX-License-Identifier: Apache-2.0
// Signals that ask a command to stop, as marks that it looks at.
#ifndef HEADRACE_TOOLS_COMMON_STOP_H
#define HEADRACE_TOOLS_COMMON_STOP_H

// Says whether SIGHUP was ignored when the command began, as by nohup. main()
// has it looked up before any driver is loaded.
void stop_look_at_hangup(void);

// SIGINT, SIGTERM and SIGHUP set a mark; the second one kills. SIGPIPE and
// SIGXFSZ are ignored, and SIGHUP stays ignored if it was.
void stop_install(void);
int stop_signal(void);  // the number of the one that came; 0 = none
// For a fork, which reports to no user: the signals end it at once.
void stop_reset(void);

#endif
