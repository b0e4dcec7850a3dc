// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"
#include "tools/devices/devices.h"
#include "tools/pack/pack.h"
#include "tools/profile/profile.h"
#include "tools/run/run.h"
#include "tools/samples/samples.h"
#include "tools/validate/validate.h"

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "turn pictures into tensors", cmd_run},
    {"devices", "list the devices of this machine", cmd_devices},
    {"validate", "check that a device's pictures equal the CPU's",
     cmd_validate},
    {"profile", "measure what a device gains, and why", cmd_profile},
    {"pack", "put a data set into one file, prepared once", cmd_pack},
    {"unpack", "write the pictures of a pack file as PNG", cmd_unpack},
    {"info", "describe a pack file, and check it", cmd_info},
    {"samples", "write test pictures of every kind", cmd_samples},
};

#define NUM_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int help(void)
{
    puts(
        "Usage: headrace COMMAND [ARGUMENT...]\n"
        "\nCarries pictures to neural networks: JPEG, PNG, WebP, BMP and PNM\n"
        "files in, normalised tensors out, by the best engine that works here.\n");
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    puts("\n  -V, --version  print the version, the decoder's and the "
         "reference\n"
         "  -h, --help     show this; after a command, its own help\n"
         "\nExample: the ImageNet evaluation transform of a folder\n"
         "  headrace run pictures/ --out pictures.npy\n"
         "\nThe variable HEADRACE_BACKEND names the device if --backend does\n"
         "not. Exit codes: 0 done, 1 some pictures failed, 2 could not run.");
    return tools_flush_stdout();
}

// ---- What the library says -------------------------------------------------

static const char *const levels[] = {"debug", "info", "warning", "error"};

// Runs on threads of the library, whose stacks need not be large.
static void on_log(void *ctx, enum hr_log_level level, const char *msg)
{
    char line[2048];

    (void)ctx;
    tools_escape(line, sizeof(line), msg);
    fprintf(stderr, "headrace: %s: %s\n", levels[level], line);
}

static bool set_log(void)
{
    const char *wish = secure_getenv("HEADRACE_LOG");

    if (!wish || !*wish)
        return true;
    for (int i = HR_LOG_DEBUG; i <= HR_LOG_ERROR; i++)
        if (!strcmp(wish, levels[i])) {
            hr_set_log(on_log, NULL, (enum hr_log_level)i);
            return true;
        }
    return tools_warn("HEADRACE_LOG is '%s', not debug, info, warning or error",
                      wish);
}

// Opens /dev/null in place of standard streams that the caller closed. The next
// file that is opened would get their number, and the output would go into it.
// The direction is the wrong one: writing a summary to a closed stream stays an
// error.
static void hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    char title[64], list[128] = "";

    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        size_t used = strlen(list);

        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                 commands[i].name);
        if (strcmp(name, commands[i].name))
            continue;
        snprintf(title, sizeof(title), "headrace %s", name);
        argv[1] = title;
        return commands[i].run(argc - 1, argv + 1);
    }
    if (*name)
        tools_warn("'%s' is not a command (%s); see headrace --help", name,
                   list);
    else
        tools_warn("name a command (%s); see headrace --help", list);
    return TOOLS_CANNOT;
}

int tools_command(int argc, char **argv)
{
    static char to_help[] = "--help";
    const char *name = argc > 1 ? argv[1] : "";

    hold_streams();
    stop_look_at_hangup();
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("headrace %s\n%s, reference %s\n", hr_version(),
               hr_jpeg_library(), hr_reference_name(hr_device_reference(NULL)));
        return tools_flush_stdout();
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") ||
        (!strcmp(name, "help") && argc == 2))
        return help();
    if (!set_log())
        return TOOLS_CANNOT;
    if (!strcmp(name, "help")) {
        argv[1] = argv[2];
        argv[2] = to_help;
        argc = 3;
    }
    return run(argc, argv);
}
