// SPDX-License-Identifier: Apache-2.0
// Finds the fields of a record that are the picture and its label: the ones
// that the program names, or the usual ones.
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

int hr__field_rank(const struct hr__source *s, enum hr__field field,
                   const char *name)
{
    const char *usual = field == HR__FIELD_IMAGE ? HR_SOURCE_IMAGE_FIELDS
                                                 : HR_SOURCE_LABEL_FIELDS;
    size_t length = strlen(name), size;

    if (s->fields[field])
        return strcmp(s->fields[field], name) ? HR__FIELD_NONE : 0;
    for (int i = 0; *usual; i++, usual += size + (usual[size] == ' ')) {
        size = strcspn(usual, " ");
        if (length == size && !memcmp(usual, name, size))
            return i;
    }
    return HR__FIELD_NONE;
}
