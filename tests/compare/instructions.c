// SPDX-License-Identifier: Apache-2.0
// A plugin of qemu's user emulator (interface 1, of release 7.2): how often
// each translated block runs. instructions.py builds it and reads what it
// writes.
//   qemu-aarch64 -plugin instructions.so,out=FILE PROGRAM ...
// FILE: "map" and a line of /proc/self/maps, then "block ADDRESS INSTRUCTIONS
// RUNS". One thread counts exactly. (Debian has no header with its functions.)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
EXPORT int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(
    uint64_t id, void (*call)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_atexit_cb(uint64_t id,
                                    void (*call)(uint64_t id, void *data),
                                    void *data);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb,
                                              int add, void *to, uint64_t by);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc,
                               char **argv);

static struct block {
    uint64_t at, instructions, runs;
    struct block *next;
} *blocks;
static const char *out = "instructions.out";

// (The emulator holds a lock meanwhile.)
static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    struct block *b = calloc(1, sizeof(*b));

    (void)id;
    if (!b)
        abort();
    b->at = qemu_plugin_tb_vaddr(tb);
    b->instructions = qemu_plugin_tb_n_insns(tb);
    b->next = blocks;
    blocks = b;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &b->runs, 1);
}

static void ends(uint64_t id, void *data)
{
    FILE *to = fopen(out, "w"), *maps = fopen("/proc/self/maps", "r");
    char line[4096];

    (void)id;
    (void)data;
    if (!to || !maps)
        abort();
    while (fgets(line, sizeof(line), maps))
        if (strchr(line, '/'))
            fprintf(to, "map %s", line);
    for (struct block *b = blocks; b; b = b->next)
        if (b->runs)
            fprintf(to, "block %llx %llu %llu\n", (unsigned long long)b->at,
                    (unsigned long long)b->instructions,
                    (unsigned long long)b->runs);
    fclose(maps);
    fclose(to);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc,
                               char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4))
            out = argv[i] + 4;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ends, NULL);
    return 0;
}
