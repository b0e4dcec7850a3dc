// SPDX-License-Identifier: Apache-2.0
// examples/train_loop.c does what it says. Its main() is train_loop_example()
// here.
#include "loader_data.h"

int train_loop_example(int argc, char **argv);

// Runs the loop; returns its exit code, and its output in text.
static int run(const char *folder, char *text, size_t capacity)
{
    char path[4200], *argv[] = {(char *)"train_loop", (char *)folder, NULL};
    int out = dup(1), err = dup(2), code;
    FILE *file;

    snprintf(path, sizeof(path), "%s/out", test_folder());
    file = fopen(path, "w");
    fflush(stdout);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    code = train_loop_example(2, argv);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    fclose(file);
    test_read(path, text, capacity);
    return code;
}

static int lines(const char *text, const char *with)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, with)); at++)
        n++;
    return n;
}

TEST_CASE(trains)
{
    char text[4096];

    CHECK(run(data_folder(70, test_seed), text, sizeof(text)) == 0, "%s", text);
    CHECK(lines(text, "\n") == 6 && lines(text, ": 64 pictures") == 3 &&
              lines(text, "epoch 2, batch 1: 6 pictures, mean ") == 1,
          "%s", text);
}

TEST_CASE(fails)
{
    char text[4096];

    CHECK(run("/no/such", text, sizeof(text)) == 1 &&
              strstr(text, "/no/such: "),
          "%s", text);
}

TEST_CASE(tells)
{
    const char *folder = data_folder(3, test_seed);
    char text[4096], path[4200];

    snprintf(path, sizeof(path), "%s/x.jpg", folder);
    test_write(path, "hello", 5);
    CHECK(run(folder, text, sizeof(text)) == 0 &&
              lines(text, "x.jpg: a picture beside the folders") == 1 &&
              lines(text, "replaced") == 0,
          "%s", text);
    unlink(path);
    snprintf(path, sizeof(path), "%s/a/no picture.jpg", folder);
    test_write(path, "hello", 5);
    CHECK(run(folder, text, sizeof(text)) == 0 &&
              lines(text, "1 replaced by others, 0 zeros") == 3,
          "%s", text);
    CHECK(run(path, text, sizeof(text)) == 0 &&
              lines(text, "0 replaced by others, 1 zeros") == 3,
          "%s", text);
    unlink(path);
}

TEST_MAIN(data_main)
