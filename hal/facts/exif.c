// SPDX-License-Identifier: Apache-2.0
// The orientation tag of an EXIF block (a TIFF structure; EXIF 2.32, 4.6.2).
// Mirrors what Pillow's getexif().get(0x0112) finds, damaged files included:
// see ImageFileDirectory_v2.load in its TiffImagePlugin.py.
#include <string.h>

#include "hal/facts/parts.h"

enum { MAX_BYTES = 65536, MAX_ENTRIES = 256, TAG_ORIENTATION = 0x0112 };

struct tiff {
    const uint8_t *p;
    size_t size;
    bool big_endian;
};

// n <= 8 bytes as a number.
static uint64_t get(const struct tiff *t, const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v = v << 8 | p[t->big_endian ? i : n - 1 - i];
    return v;
}

// TIFF 6.0 types by number: bytes of one value, and whether it is a whole
// number that Pillow returns as such (the 1 of BYTE comes back as a string).
static const struct {
    uint8_t size;
    bool number;
} types[17] = {
    [1] = {1, false}, [2] = {1, false},  [3] = {2, true},   [4] = {4, true},
    [5] = {8, false}, [6] = {1, true},   [7] = {1, false},  [8] = {2, true},
    [9] = {4, true},  [10] = {8, false}, [11] = {4, false}, [12] = {8, false},
    [13] = {4, true}, [16] = {8, true},
};

// The first value of the entry. False: its values lie outside of the block,
// which ends the directory. *value is left alone if it is no whole number.
static bool entry_value(const struct tiff *t, const uint8_t *entry,
                        uint64_t *value)
{
    unsigned type = (unsigned)get(t, entry + 2, 2);
    unsigned unit = type < 17 ? types[type].size : 0;
    uint64_t bytes = get(t, entry + 4, 4) * unit;
    const uint8_t *p = entry + 8;

    if (!bytes)
        return true;
    if (bytes > 4) {
        uint64_t offset = get(t, p, 4);

        if (offset > t->size || bytes > t->size - offset)
            return false;
        p = t->p + offset;
    }
    *value = types[type].number ? get(t, p, unit) : 0;
    return true;
}

int hr__exif_orientation(const uint8_t *tiff, size_t size)
{
    struct tiff t = {.p = tiff, .size = size < MAX_BYTES ? size : MAX_BYTES};
    uint64_t found = 1, ifd;
    unsigned count;

    if (t.size < 10)
        return 1;
    t.big_endian = tiff[0] == 'M';
    // Pillow also takes a magic number of the other byte order.
    if ((memcmp(tiff, "II", 2) && memcmp(tiff, "MM", 2)) ||
        (get(&t, tiff + 2, 2) != 42 && get(&t, tiff + 2, 2) != 42 << 8))
        return 1;
    ifd = get(&t, tiff + 4, 4);
    if (ifd > t.size - 2)
        return 1;
    count = (unsigned)get(&t, tiff + ifd, 2);
    if (count > MAX_ENTRIES)
        count = MAX_ENTRIES;

    for (size_t pos = (size_t)ifd + 2; count && t.size - pos >= 12;
         pos += 12, count--) {
        const uint8_t *entry = tiff + pos;
        bool orientation = get(&t, entry, 2) == TAG_ORIENTATION;
        uint64_t value = found;

        if (!entry_value(&t, entry, &value))
            break;
        if (orientation)
            found = value;
    }
    return found >= 1 && found <= 8 ? (int)found : 1;
}
