// SPDX-License-Identifier: Apache-2.0
// Memory for encoded samples: what is used again, and for what.
#include "loader/room.h"

#include "hal/base/base.h"
#include "testing.h"

enum { KIB = 1024, LIMIT = 1 << 20 };

static struct hr__room room;

static void *get(size_t *size)
{
    bool full;
    void *memory = hr__room_get(&room, size, false, &full);

    CHECK(memory || full, "out of memory");
    return memory;
}

// Which sizes come together is chance: a sample takes what a larger one had, up
// to twice its size, and that stays as large as it is.
static void larger(void)
{
    size_t size = 100 * KIB, has, least;
    int64_t allocs;
    void *piece;

    room = (struct hr__room){.limit = LIMIT};
    piece = get(&size);
    CHECK(size >= 100 * KIB && room.bytes == size, "%zu bytes", size);
    has = size;
    allocs = hr__test_allocs();
    for (least = 60 * KIB; least <= 100 * KIB; least += 10 * KIB) {
        hr__room_put(&room, piece, has);
        size = least;
        CHECK(get(&size) == piece && size == has, "%zu bytes: another piece",
              least);
    }
    CHECK(hr__test_allocs() == allocs && room.bytes == has, "%zu bytes",
          room.bytes);
    hr__room_put(&room, piece, has);
    size = 40 * KIB;
    piece = get(&size);
    CHECK(size < has && room.bytes == size + has, "all of it for a small one");
    hr__room_put(&room, piece, size);
    hr__room_finish(&room);
    CHECK(!room.bytes, "%zu bytes are left", room.bytes);
}

// What is not used gives way, but nothing else does.
static void limit(void)
{
    size_t first = LIMIT / 2, second = LIMIT / 4, third = LIMIT;
    void *pieces[2];

    room = (struct hr__room){.limit = LIMIT};
    pieces[0] = get(&first);
    pieces[1] = get(&second);
    CHECK(!get(&third), "over the limit");
    hr__room_put(&room, pieces[0], first);
    hr__room_put(&room, pieces[1], second);
    third = LIMIT;
    pieces[0] = get(&third);
    CHECK(pieces[0] && room.bytes == third && room.peak <= LIMIT,
          "%zu bytes, at most %zu", room.bytes, room.peak);
    hr__room_put(&room, pieces[0], third);
    hr__room_finish(&room);
}

static const struct test_case cases[] = {
    TEST_CASE(larger),
    TEST_CASE(limit),
};

int main(int argc, char **argv)
{
    return test_main("room", cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
