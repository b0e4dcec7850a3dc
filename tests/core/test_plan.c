// SPDX-License-Identifier: Apache-2.0
// The planner against brute force: of all ways to cut the stages it finds the
// best by its own rule, for every kind of offers of one to three engines.
#include "testing.h"

struct cost {
    bool possible;
    int engines, spans;  // sum over stages of the engine's place; spans
};

static bool less(struct cost a, struct cost b)
{
    if (!a.possible || !b.possible)
        return a.possible;
    return a.engines != b.engines ? a.engines < b.engines : a.spans < b.spans;
}

enum {
    ALL = (1 << HR_NUM_STAGES) - 1,
    PLAIN = ALL & ~(1 << HR_AUGMENT),  // of a picture without such ops
};

static int count(unsigned stages, int first, int last)
{
    int n = 0;

    for (int s = first; s <= last; s++)
        n += stages >> s & 1;
    return n;
}

// Tries every cut, without memoization.
static struct cost brute(int from, unsigned stages,
                         const struct hr__offer *offers, int n)
{
    struct cost best = {0};

    if (from == HR_NUM_STAGES)
        return (struct cost){true, 0, 0};
    if (!(stages >> from & 1))
        return brute(from + 1, stages, offers, n);
    for (int e = 0; e < n; e++)
        for (int last = from; last < HR_NUM_STAGES; last++) {
            struct cost c;

            if (!(offers[e].spans & HR_SPAN_BIT(from, last)) ||
                !(stages >> last & 1))
                continue;
            c = brute(last + 1, stages, offers, n);
            c.engines += e * count(stages, from, last);
            c.spans++;
            if (less(c, best))
                best = c;
        }
    return best;
}

static void check(unsigned stages, const struct hr__offer *offers, int n)
{
    struct cost want = brute(0, stages, offers, n), got = {true, 0, 0};
    struct hr__plan plan, again;
    enum hr_status status = hr__plan_build(&plan, stages, offers, n);
    int next = 0;

    CHECK(status == (want.possible ? HR_OK : HR_EUNSUPPORTED), "%s",
          hr_status_name(status));
    if (status) {
        CHECK(plan.num_spans == 0, "spans of no plan");
        return;
    }
    for (int i = 0; i < plan.num_spans; i++) {
        struct hr_span s = plan.spans[i].span;
        int e = plan.spans[i].engine;

        while (!(stages >> next & 1))
            next++;
        CHECK((int)s.first == next && s.last >= s.first && e >= 0 && e < n &&
                  (offers[e].spans & HR_SPAN_BIT(s.first, s.last)),
              "span %d was not offered", i);
        got.engines += e * count(stages, (int)s.first, (int)s.last);
        got.spans++;
        next = s.last + 1;
    }
    CHECK(next == HR_NUM_STAGES, "ends before the store");
    CHECK(got.engines == want.engines && got.spans == want.spans,
          "cost %d in %d spans, the best is %d in %d", got.engines, got.spans,
          want.engines, want.spans);
    hr__plan_build(&again, stages, offers, n);
    CHECK(!memcmp(&plan, &again, sizeof(plan)), "not the same twice");
}

// Offers of one engine, the CPU's behind it.
TEST_CASE(offers_of_one)
{
    uint64_t seed = test_seed;
    uint32_t cpu = HR_SPAN_BIT(HR_ENTROPY, HR_COLOR) |
                   HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE) |
                   HR_SPAN_BIT(HR_ENTROPY, HR_STORE) |
                   HR_SPAN_BIT(HR_RESAMPLE, HR_RESAMPLE) |
                   HR_SPAN_BIT(HR_RESAMPLE, HR_STORE) |
                   HR_SPAN_BIT(HR_AUGMENT, HR_STORE) |
                   HR_SPAN_BIT(HR_STORE, HR_STORE);

    for (int i = 0; i < test_loops(32000); i++) {
        uint32_t set = (uint32_t)random_below(&seed, 1 << HR_NUM_SPANS);
        struct hr__offer offers[2] = {{.spans = set}, {.spans = cpu}};

        check(ALL, offers, 1);
        check(PLAIN, offers, 1);
        check(PLAIN, offers, 2);
        check(ALL & ~0u << HR_RESAMPLE, offers, 2);
    }
}

TEST_CASE(random_offers)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(100000); i++) {
        struct hr__offer offers[4];
        int n = 1 + random_below(&seed, 4);

        // From sparse to full.
        for (int e = 0; e < n; e++) {
            offers[e] = (struct hr__offer){
                .spans = (uint32_t)random_below(&seed, 1 << HR_NUM_SPANS)};
            if (i % 3)
                offers[e].spans &= (uint32_t)random_below(&seed,
                                                          1 << HR_NUM_SPANS);
        }
        check((i % 2 ? ALL : PLAIN) & ~0u << random_below(&seed, HR_NUM_STAGES),
              offers, n);
    }
}

// In words: the media engine decodes, OpenCL does the rest, the CPU nothing.
TEST_CASE(known)
{
    struct hr__offer offers[3] = {
        {.spans = HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT)},
        {.spans = HR_SPAN_BIT(HR_RECONSTRUCT, HR_STORE) |
                  HR_SPAN_BIT(HR_COLOR, HR_STORE)},
        {.spans = HR_SPAN_BIT(HR_ENTROPY, HR_ENTROPY) |
                  HR_SPAN_BIT(HR_ENTROPY, HR_STORE)}};
    struct hr__plan p;

    CHECK(hr__plan_build(&p, PLAIN, offers, 3) == HR_OK && p.num_spans == 2 &&
              p.spans[0].engine == 0 && p.spans[1].engine == 1 &&
              p.spans[1].span.first == HR_COLOR,
          "two engines");
    offers[0].spans = 0;
    CHECK(hr__plan_build(&p, PLAIN, offers, 3) == HR_OK && p.num_spans == 2 &&
              p.spans[0].engine == 2 && p.spans[1].engine == 1 &&
              p.spans[1].span.first == HR_RECONSTRUCT,
          "entropy on the CPU");
    offers[1].spans = 0;
    CHECK(hr__plan_build(&p, PLAIN, offers, 3) == HR_OK && p.num_spans == 1 &&
              p.spans[0].engine == 2,
          "the CPU alone");
}

// The real offers of media engine, device and CPU for a plain JPEG: planes go
// to engines that begin or go on with them; no other plan changes.
TEST_CASE(planes)
{
#define CUT(a, b) HR_SPAN_BIT(HR_##a, HR_##b)
    const struct hr__offer media = {.spans = CUT(ENTROPY, RECONSTRUCT)};
    const struct hr__offer device = {.spans = CUT(RECONSTRUCT, STORE) |
                                              CUT(COLOR, STORE) |
                                              CUT(RESAMPLE, STORE)};
    const struct hr__offer cpu = {
        .spans = CUT(ENTROPY, ENTROPY) | CUT(ENTROPY, RECONSTRUCT) |
                 CUT(ENTROPY, COLOR) | CUT(ENTROPY, RESAMPLE) |
                 CUT(ENTROPY, STORE) | CUT(COLOR, COLOR) |
                 CUT(COLOR, RESAMPLE) | CUT(COLOR, STORE) |
                 CUT(RESAMPLE, RESAMPLE) | CUT(RESAMPLE, STORE) |
                 CUT(STORE, STORE)};
#undef CUT
    const struct {
        struct hr__offer offers[3];
        int n, spans;
        enum hr_stage begins;  // the last span
    } cases[] = {
        {{cpu}, 1, 1, HR_ENTROPY},
        {{device, cpu}, 2, 2, HR_RECONSTRUCT},
        {{media, cpu}, 2, 2, HR_COLOR},
        {{media, device, cpu}, 3, 2, HR_COLOR},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hr__plan p;
        enum hr_status status = hr__plan_build(&p, PLAIN, cases[i].offers,
                                               cases[i].n);

        CHECK(!status && p.num_spans == cases[i].spans &&
                  p.spans[p.num_spans - 1].span.first == cases[i].begins &&
                  p.spans[p.num_spans - 1].engine == (cases[i].n == 3 ? 1
                                                      : i == 2        ? 1
                                                                      : 0),
              "case %zu: %d spans", i, p.num_spans);
    }
}

// A span that ends with color is proven by the one to resample if it makes the
// first step, and by nothing else.
TEST_CASE(exact_first_step)
{
    static struct hr__device dev;
    const struct hr__picture pic = {.geo.num_steps = 2};
    struct hr_span span = {HR_RECONSTRUCT, HR_COLOR};

    for (int proven = 0; proven < 2; proven++) {
        dev.refused[0][HR_NUM_KINDS][HR_EXACT] = ~(
            proven ? HR_SPAN_BIT(HR_RECONSTRUCT, HR_RESAMPLE)
                   : HR_SPAN_BIT(HR_RECONSTRUCT, HR_COLOR));
        CHECK(hr__device_exact(&dev, 0, span, true, &pic) == proven &&
                  hr__device_exact(&dev, 0, span, false, &pic) == !proven,
              "proven to %s", proven ? "resample" : "color");
    }
}
