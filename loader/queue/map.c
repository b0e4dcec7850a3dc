// SPDX-License-Identifier: Apache-2.0
// The user's own step, between the making of a batch and its delivery.
#include <stdio.h>

#include "hal/engine/base.h"
#include "loader.h"

bool hr__loader_map(struct hr__loader *l)
{
    struct hr__slot *slot;
    enum hr_status status;

    if (!l->params.map || l->mapping >= l->params.map_threads ||
        !(slot = hr__slot_find(l, SLOT_MAP, NULL)))
        return false;
    slot->state = SLOT_MAPPING;
    l->mapping++;
    hr__loader_wake(l);
    pthread_mutex_unlock(&l->lock);
    // (Of a part its own: slot->classes are those of the whole batch.)
    status = l->params.map(l->params.map_ctx, &slot->pub,
                           slot->classes + slot->begin);
    pthread_mutex_lock(&l->lock);
    l->mapping--;  // this thread goes on, with the next one if there is one
    if (status) {
        slot->broken = status < 0 ? status : HR_EINVAL;
        snprintf(slot->broken_text, sizeof(slot->broken_text), "map: %s",
                 hr_status_text(slot->broken));
    }
    slot->state = SLOT_READY;
    hr__loader_flow(l);
    l->stats.ready++;
    hr__loader_signal(l);
    return true;
}
