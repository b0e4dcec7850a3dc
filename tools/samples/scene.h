// SPDX-License-Identifier: Apache-2.0
// Synthetic pictures with the spectrum of photographs: smooth light, 1/f
// texture, objects that hide each other, sensor noise. Not pretty, but a JPEG
// of them costs what a JPEG of a photo costs.
#ifndef HEADRACE_TOOLS_SAMPLES_SCENE_H
#define HEADRACE_TOOLS_SAMPLES_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#define SAMPLES_THEMES 6

struct samples_picture {
    int w, h;
    uint8_t *rgb;  // rows from the top, 3 * w bytes each
};

// Name of a theme, 0 .. SAMPLES_THEMES - 1; fit for a folder.
const char *samples_theme_name(int theme);

// Paints a picture of w x h. On success the caller ends it with
// samples_picture_finish(). false: memory ran out, nothing to end.
bool samples_scene_make(struct samples_picture *p, int w, int h, int theme,
                        uint64_t seed);

// Pixels without any mercy for a codec: every sample 0 or 255, in patches
// from one pixel to several blocks. Reaches the clamps of every stage.
bool samples_harsh_make(struct samples_picture *p, int w, int h, uint64_t seed);

// Draws a large letter F, white with a dark rim: it looks different in each of
// the eight orientations.
void samples_mark(struct samples_picture *p);

void samples_picture_finish(struct samples_picture *p);

#endif
