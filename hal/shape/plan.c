// SPDX-License-Identifier: Apache-2.0
// The planner: the stages of a picture, cut into spans. A pure function of the
// offers, so it is tested without any device.
//
// Backwards over the stages: best[s] is the best cut of stages s .. STORE.
// A cut is better if it leaves fewer stages to engines late in the chain
// (the weight of a stage is the engine's place), then if it has fewer spans.
#include <string.h>

#include "hal/shape/shape.h"

struct cut {
    int cost;  // -1 = none
    int spans;
    int last;  // of the first span
    int engine;
};

static bool better(int cost, int spans, const struct cut *than)
{
    if (than->cost < 0)
        return true;
    return cost != than->cost ? cost < than->cost : spans < than->spans;
}

// Counts the picture's stages from first to last.
static int stages_in(unsigned stages, int first, int last)
{
    return __builtin_popcount(stages >> first & ((2u << (last - first)) - 1));
}

static void best_from(struct cut *best, int s, unsigned stages,
                      const struct hr__offer *offers, int num_offers)
{
    best[s] = (struct cut){.cost = -1};
    if (!(stages >> s & 1)) {
        best[s] = best[s + 1];
        return;
    }
    for (int e = 0; e < num_offers; e++)
        for (int last = HR_STORE; last >= s; last--) {
            const struct cut *rest = &best[last + 1];
            int cost = rest->cost + e * stages_in(stages, s, last);

            if (rest->cost < 0 || !(stages >> last & 1) ||
                !(offers[e].spans & HR_SPAN_BIT(s, last)) ||
                !better(cost, rest->spans + 1, &best[s]))
                continue;
            best[s] = (struct cut){cost, rest->spans + 1, last, e};
        }
}

enum hr_status hr__plan_build(struct hr__plan *out, unsigned stages,
                              const struct hr__offer *offers, int num_offers)
{
    struct cut best[HR_NUM_STAGES + 1] = {[HR_NUM_STAGES] = {0}};
    int first = __builtin_ctz(stages), s;

    memset(out, 0, sizeof(*out));
    for (s = HR_STORE; s >= first; s--)
        best_from(best, s, stages, offers, num_offers);
    if (best[first].cost < 0)
        return HR_EUNSUPPORTED;
    for (s = first; s <= HR_STORE; s = best[s].last + 1) {
        if (!(stages >> s & 1))
            s++;
        out->spans[out->num_spans].span = (struct hr_span){s, best[s].last};
        out->spans[out->num_spans++].engine = best[s].engine;
    }
    return HR_OK;
}
