// SPDX-License-Identifier: Apache-2.0
// The states of a sample's way: each can be reached and leads to the end, and
// docs/architecture.md draws them as they are. (What happens in them is tested
// by what comes out: test_job.c and its neighbours.)
#include "hal/job/work.h"
#include "testing.h"

static struct hr__state_facts facts(int state)
{
    return hr__state_facts((enum hr__work_state)state);
}

// The states that can come after those, these included.
static uint32_t closure(uint32_t states)
{
    uint32_t before;

    do {
        before = states;
        for (int i = 0; i < HR__NUM_STATES; i++)
            if (states >> i & 1)
                states |= facts(i).next;
    } while (states != before);
    return states;
}

TEST_CASE(all_lead_to_the_end)
{
    uint32_t all = (UINT32_C(1) << HR__NUM_STATES) - 1;

    CHECK(closure(UINT32_C(1) << HR__TURN) == all, "some are never reached");
    CHECK(!facts(HR__DONE).next, "the end");
    for (int i = 0; i < HR__NUM_STATES; i++) {
        CHECK(facts(i).name && facts(i).what, "%d has no name", i);
        CHECK(closure(UINT32_C(1) << i) >> HR__DONE & 1, "%s never ends",
              facts(i).name);
        for (int j = 0; j < i; j++)
            CHECK(strcmp(facts(i).name, facts(j).name), "two are called %s",
                  facts(i).name);
    }
}

static void draw(FILE *f)
{
    fputs("| state | what happens | what may come next |\n|---|---|---|\n", f);
    for (int i = 0; i < HR__NUM_STATES; i++) {
        bool any = false;

        fprintf(f, "| `%s` | %s |", facts(i).name, facts(i).what);
        for (int j = 0; j < HR__NUM_STATES; j++)
            if (facts(i).next >> j & 1) {
                fprintf(f, "%s `%s`", any ? "," : "", facts(j).name);
                any = true;
            }
        fprintf(f, "%s |\n", any ? "" : " nothing");
    }
}

TEST_CASE(drawn_as_they_are)
{
    static const char begin[] = "<!-- states: begin -->\n";
    static char page[1 << 20];
    const char *at = test_read(HR_SOURCE_DIR "/docs/architecture.md", page,
                               sizeof(page))
                         ? strstr(page, begin)
                         : NULL;
    auto_heap char *drawn = NULL;
    size_t size;
    FILE *f = open_memstream(&drawn, &size);

    draw(f);
    fputs("<!-- states: end -->\n", f);
    fclose(f);
    CHECK(at && !strncmp(at + strlen(begin), drawn, size),
          "docs/architecture.md should have, between its marks:\n%s", drawn);
}
