// SPDX-License-Identifier: Apache-2.0
// The text of --ops: torchvision's names, separated by commas.
//
//   decode decode=gray decode=exif decode=gray:exif
//   resize=256 resize=320x240 resize=256:bicubic resize=256:bicubic:vertical
//   fit=256 fit=320x240:bicubic
//   center_crop=224 center_crop=320x240  crop=X,Y,W,H
//   random_resized_crop=224 random_resized_crop=320x240:bicubic
//   random_crop=32 random_crop=32x24:4
//   hflip vflip transpose random_hflip random_hflip=0.3 random_vflip=0.3
//   to_tensor to_tensor:v2
//   normalize=imagenet normalize=M,M,M/S,S,S normalize=M/S normalize=...:v2
//
// Blanks may stand around the commas. Sizes are WIDTHxHEIGHT everywhere. decode
// stands first and may be left out; to_tensor and normalize end the list.
#ifndef HEADRACE_TOOLS_COMMON_OPS_TEXT_H
#define HEADRACE_TOOLS_COMMON_OPS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <headrace/headrace.h>

#define OPS_EVALUATION "decode,resize=256,center_crop=224,normalize=imagenet"
#define OPS_EVALUATION_U8 "decode,resize=256,center_crop=224"

struct ops_list {
    int num;
    struct hr_op ops[HR_MAX_OPS];
};

// Reads text. On failure returns false and writes one sentence with the
// position of the fault (characters, from 1) to error.
bool ops_from_text(struct ops_list *list, const char *text, char *error,
                   size_t error_size);

// Whether to_tensor or normalize ends the list.
bool ops_normalize(const struct ops_list *list);

int ops_channels(const struct ops_list *list);  // 1 or 3

#endif
