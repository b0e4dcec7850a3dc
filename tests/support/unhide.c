// SPDX-License-Identifier: Apache-2.0
// unhide FROM TO: copies an object file and makes its hidden symbols visible,
// which a linker cannot do. So one shared library of the product's own objects
// serves all test programs.
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __SIZEOF_POINTER__ == 8
#define ELF(name) Elf64_##name
#else
#define ELF(name) Elf32_##name
#endif

static size_t read_file(const char *path, char **bytes)
{
    FILE *f = fopen(path, "rb");
    long size = -1;

    if (f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0)
        *bytes = malloc((size_t)size);
    if (!*bytes || fseek(f, 0, SEEK_SET) ||
        fread(*bytes, 1, (size_t)size, f) != (size_t)size)
        return 0;
    fclose(f);
    return (size_t)size;
}

static bool unhide(char *bytes, size_t size)
{
    const ELF(Ehdr) *head = (const ELF(Ehdr) *)bytes;

    if (size < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shoff > size ||
        (size - head->e_shoff) / sizeof(ELF(Shdr)) < head->e_shnum)
        return false;
    const ELF(Shdr) *part = (const ELF(Shdr) *)(bytes + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (part[i].sh_type != SHT_SYMTAB)
            continue;
        ELF(Sym) *symbol = (ELF(Sym) *)(bytes + part[i].sh_offset);
        for (size_t n = part[i].sh_size / sizeof(*symbol); n--; symbol++)
            symbol->st_other &= (unsigned char)~3;  // STV_DEFAULT
    }
    return head->e_shnum > 0;
}

int main(int argc, char **argv)
{
    char *bytes = NULL;
    size_t size = argc == 3 ? read_file(argv[1], &bytes) : 0;
    FILE *to = size && unhide(bytes, size) ? fopen(argv[2], "wb") : NULL;

    if (!to || fwrite(bytes, 1, size, to) != size || fclose(to)) {
        fputs("usage: unhide FROM.o TO.o\n", stderr);
        return 1;
    }
    free(bytes);
    return 0;
}
