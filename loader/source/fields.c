// SPDX-License-Identifier: Apache-2.0
// Which field of a record is the picture and which its label: the ones that the
// program names, or those that other programs use for them.
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

// The better ones first.
static const char *const usual[][10] = {
    [HR__FIELD_IMAGE] = {"image/encoded", "image", "img", "jpg", "jpeg", "png",
                         "webp", "image_raw", "image_bytes", "data"},
    [HR__FIELD_LABEL] = {"image/class/label", "label", "class", "cls", "labels",
                         "fine_label", "target", "y", "image/class/text"},
};

int hr__field_rank(const struct hr__source *s, enum hr__field field,
                   const char *name)
{
    int num = (int)(sizeof(usual[0]) / sizeof(usual[0][0]));

    if (s->fields[field])
        return strcmp(s->fields[field], name) ? HR__FIELD_NONE : 0;
    for (int i = 0; i < num && usual[field][i]; i++)
        if (!strcmp(usual[field][i], name))
            return i;
    return HR__FIELD_NONE;
}
