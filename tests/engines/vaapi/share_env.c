// SPDX-License-Identifier: Apache-2.0
#include "share_env.h"

const char share_shared[] = "shared with the next engine";
const char share_got[] = "image got from the driver";
const char share_linear[] = "personality=ihd";
const char share_tiled[] = "personality=ihd,modifier=1";

void share_set_up(const char *options, unsigned how, bool discrete)
{
    imports.deadline_ms = 10000;
    imports.ctl.set(NULL, 0);
    imports.ctl.discrete(discrete);
    imports.ctl.sharing(how);
    vaapi_driver("default,reset,%s", options);
}

void share_check_top(hr_device dev, const char *top)
{
    CHECK(strstr(dev->description, top) != NULL, "%s: %s", imports.label,
          dev->description);
}

uint64_t share_samples_by(hr_device dev, const char *rung)
{
    struct hr_engine_profile p = imports_engine(dev, 0);

    for (int i = 0; i < HR_PROFILE_RUNGS && p.rungs[i].name; i++)
        if (strstr(p.rungs[i].name, rung))
            return p.rungs[i].samples;
    CHECK(false, "%s: no rung is '%s'", imports.label, rung);
    return 0;
}

int share_falls(hr_device dev)
{
    return (int)(imports_engine(dev, 0).import_falls +
                 imports_engine(dev, 1).import_falls);
}

void share_run_together(int times)
{
    for (int k = 0; k < times; k++)
        CHECK(imports_run(20000) == IMPORTS_MADE, "%s: not made together",
              imports.label);
}

void share_check_next(const char *rung)
{
    hr_device dev = imports.scene.dev;
    uint64_t had = share_samples_by(dev, rung),
             before = share_samples_by(dev, share_shared);

    share_run_together(2);
    CHECK(share_samples_by(dev, rung) - had == 2 * IMPORTS_MADE &&
              share_samples_by(dev, share_shared) == before,
          "%s: %d by %s, %d shared", imports.label,
          (int)(share_samples_by(dev, rung) - had), rung,
          (int)(share_samples_by(dev, share_shared) - before));
}

void share_new_scene(const char *options, bool discrete)
{
    share_set_up(options, FAULT_SHARES, discrete);
    imports_open_scene(IMPORTS_N);
    share_check_top(imports.scene.dev, share_shared);
}
