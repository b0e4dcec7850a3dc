// SPDX-License-Identifier: Apache-2.0
#include "noise.h"

#include <stdlib.h>

#define MIN_CELL 24  // finest cell in 1/16 pixel

// The finaliser "Mix13" by David Stafford, as in splitmix64 (Steele, Lea,
// Flood: Fast Splittable Pseudorandom Number Generators, 2014).
static uint64_t finalise(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t samples_mix(uint64_t key, uint64_t counter)
{
    return finalise(finalise(key) + counter * UINT64_C(0x9e3779b97f4a7c15));
}

int samples_pick(struct samples_rng *rng, int lo, int hi)
{
    uint64_t span = (uint64_t)((int64_t)hi - lo + 1);
    uint64_t r = samples_mix(rng->key, rng->next++) >> 32;
    return (int)(lo + (int64_t)(r * span >> 32));
}

uint32_t samples_root(uint32_t v)
{
    uint32_t root = 0;
    for (uint32_t bit = UINT32_C(1) << 30; bit; bit >>= 2) {
        if (v >= root + bit) {
            v -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return root;
}

struct lattice {
    uint64_t key;
    int cols;
    int *index;      // per pixel column: lattice column
    uint8_t *fade;   // per pixel column: weight of the next column
    int16_t *a, *b;  // lattice rows above and below the pixel row
    int16_t *mixed;  // the two, interpolated
};

// 3t^2 - 2t^3 for t in 1/256: the noise has no creases at cell borders.
static int fade_of(uint32_t u)
{
    uint32_t t = u >> 8 & 255;
    return (int)(t * t * (768 - 2 * t) >> 16);
}

static void lattice_row(const struct lattice *l, int16_t *row, uint32_t y)
{
    // One hash makes four neighbours.
    for (int x = 0; x < l->cols; x += 4) {
        uint64_t r = samples_mix(l->key, (uint64_t)y << 32 | (uint32_t)x);
        for (int i = 0; i < 4 && x + i < l->cols; i++)
            row[x + i] = (int16_t)((r >> (16 * i) & 0x1fff) - 0x1000);
    }
}

static void lattice_finish(struct lattice *l)
{
    free(l->index);
    free(l->fade);
    free(l->a);
    free(l->b);
    free(l->mixed);
}

static bool lattice_init(struct lattice *l, int w, uint32_t step, uint64_t key)
{
    uint32_t u = (uint32_t)(samples_mix(key, 0) & 0xffff);
    *l = (struct lattice){.key = key};
    l->cols = (int)((u + (uint64_t)step * (uint64_t)w) >> 16) + 2;
    l->index = malloc((size_t)w * sizeof(*l->index));
    l->fade = malloc((size_t)w);
    l->a = malloc((size_t)l->cols * sizeof(*l->a));
    l->b = malloc((size_t)l->cols * sizeof(*l->b));
    l->mixed = malloc((size_t)l->cols * sizeof(*l->mixed));
    if (!l->index || !l->fade || !l->a || !l->b || !l->mixed)
        return false;
    for (int x = 0; x < w; x++, u += step) {
        l->index[x] = (int)(u >> 16);
        l->fade[x] = (uint8_t)fade_of(u);
    }
    return true;
}

static void add_row(const struct lattice *l, int16_t *dst, int w, int amp)
{
    for (int x = 0; x < w; x++) {
        int a = l->mixed[l->index[x]], b = l->mixed[l->index[x] + 1];
        int v = a + ((b - a) * l->fade[x] >> 8);
        dst[x] = (int16_t)(dst[x] + (v * amp >> 12));
    }
}

// Adds one octave. Cells in 1/16 pixel.
static bool add_octave(int16_t *plane, int w, int h, int cell_x, int cell_y,
                       int amp, uint64_t key)
{
    uint32_t step_y = (UINT32_C(16) << 16) / (uint32_t)cell_y;
    uint32_t v = (uint32_t)(samples_mix(key, 1) & 0xffff), row = UINT32_MAX;
    struct lattice l;
    if (!lattice_init(&l, w, (UINT32_C(16) << 16) / (uint32_t)cell_x, key)) {
        lattice_finish(&l);
        return false;
    }
    for (int y = 0; y < h; y++, v += step_y) {
        int fade = fade_of(v);
        if (row != v >> 16) {
            row = v >> 16;
            lattice_row(&l, l.a, row + 1);
            lattice_row(&l, l.b, row + 2);
        }
        for (int i = 0; i < l.cols; i++)
            l.mixed[i] = (int16_t)(l.a[i] + ((l.b[i] - l.a[i]) * fade >> 8));
        add_row(&l, plane + (size_t)y * (size_t)w, w, amp);
    }
    lattice_finish(&l);
    return true;
}

int16_t *samples_fractal_make(const struct samples_fractal *f, int w, int h,
                              uint64_t seed)
{
    int16_t *plane = calloc((size_t)w * (size_t)h, sizeof(*plane));
    int cell_x = f->cell_x * 16, cell_y = f->cell_y * 16;
    uint32_t energy = 0;
    int amp = 256, n = 0;
    if (!plane)
        return NULL;
    for (; n < f->octaves && cell_x >= MIN_CELL && cell_y >= MIN_CELL; n++) {
        energy += (uint32_t)(amp * amp);
        amp = amp * f->gain >> 8;
        cell_x /= 2;
        cell_y /= 2;
    }
    // Uniform lattice values of +-4096 deviate by 2365, and by about 0.55 of
    // that between the lattice points: amp 790 makes one octave deviate by 256.
    amp = 790 * 256 / (int)(samples_root(energy) + 1);
    cell_x = f->cell_x * 16;
    cell_y = f->cell_y * 16;
    for (int i = 0; i < n; i++) {
        if (!add_octave(plane, w, h, cell_x, cell_y, amp,
                        samples_mix(seed, (uint64_t)i))) {
            free(plane);
            return NULL;
        }
        amp = amp * f->gain >> 8;
        cell_x /= 2;
        cell_y /= 2;
    }
    return plane;
}
