// SPDX-License-Identifier: Apache-2.0
// Planes of samples, as the inverse DCT leaves them: between the stages
// reconstruct and color. decode_planes.c makes them from encoded bytes.
// planes.c makes rows of RGB or grey from planes of any source. Together they
// give the same bytes as decoding to rows (decode.h).
#ifndef CPU_PLANES_H
#define CPU_PLANES_H

#include "cpu_fallback/decode.h"

// ---- Planes from bytes (decode_planes.c) ----

// The planes that p->window needs: its samples, and around them one more of
// every component on each side where the component goes on. In memory of the
// arena: struct hr__planes, then the samples, CPU_SLACK bytes behind the last
// included. Takes any coding and any number of scans, but only grey, YCbCr or
// RGB, and not one fault: only decoding to rows mends faults. p->channels means
// nothing here. *err as of cpu_decode_close(). CPU_CORRUPT, also for a fault
// that decoding to rows would mend and count as a warning. CPU_UNSUPPORTED: no
// picture for this form. On failure the arena is as it was.
enum cpu_result cpu_planes_decode(const struct cpu_decode_params *p,
                                  const struct cpu_ops *ops,
                                  struct cpu_arena *arena,
                                  struct hr__planes **out, size_t *size,
                                  struct cpu_decode_error *err);

// ---- Rows from planes (planes.c) ----

struct cpu_planes_params {
    const struct hr__planes *planes;
    const uint8_t *data;
    size_t size;             // of the data: nothing behind it is read
    int width, height;       // of the picture
    struct hr__rect window;  // inside the picture, not empty
    int channels;            // 3 = RGB, 1 = grey
    // 0, or how many rows of each component lie in memory at a time; then row r
    // lies at byte at + r % ring * stride of the data.
    uint32_t ring[3];
};

// Gives the samples of component i that a window needs, by the planes'
// sampling: its own and one more on each side where the component goes on.
// False: the header makes no sense for such a picture, or those samples are not
// in the data.
bool cpu_planes_need(const struct cpu_planes_params *p, int i,
                     struct hr__rect *samples);

// Lives in the arena. The planes' header is not needed after open(), the data
// until the last read.
struct cpu_planes_rows;

// CPU_OK; CPU_CORRUPT: the planes are not what they should be; CPU_NOMEM.
enum cpu_result cpu_planes_open(const struct cpu_planes_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena,
                                struct cpu_planes_rows **out);

// Gives the window's next rows, top to bottom: max of them, or all that are
// left; max at most CPU_DECODE_ROWS. Valid until the next call; CPU_SLACK bytes
// behind each may be read. Returns how many.
int cpu_planes_read(struct cpu_planes_rows *r, const uint8_t **rows, int max);

#endif
