// SPDX-License-Identifier: Apache-2.0
// Small promises that engines rely on, each by itself: where a task may not be
// stopped, which clocks stand while it waits, which payloads are too small,
// which thread waits for which at the end.
#include "backends/cpu/cpu.h"
#include "cpu_fallback/pixel/planes.h"
#include "hal/job/work.h"
#include "testing.h"

// A sample of a device with two engines and the host.
static struct hr__engine engines[3];
static struct hr__device dev;
static struct hr__job job;
static struct hr__work work;

static void set_up(void)
{
    memset(&dev, 0, sizeof(dev));
    memset(&job, 0, sizeof(job));
    memset(&work, 0, sizeof(work));
    for (int i = 0; i < 3; i++) {
        engines[i] = (struct hr__engine){.index = i,
                                         .device = &dev,
                                         .host = i == 2,
                                         .params.deadline_ns = 1000 * TEST_MS};
        dev.engines[i] = &engines[i];
        work.tasks[i].work = &work;
    }
    dev.num_engines = 3;
    job.dev = &dev;
    work.job = &job;
}

// The tasks of a cancelled job stop, except one that clears the memory of a
// failed sample.
TEST_CASE(stops)
{
    struct hr__memory memory = {.owner = &engines[0]};
    uint8_t byte;
    struct hr__task *task = &work.tasks[0].task;

    set_up();
    CHECK(!hr__task_stop(task), "stopped before it was asked to");
    atomic_store(&job.stop, HR_ECANCELED);
    CHECK(hr__task_stop(task), "a span");
    task->copy = (struct hr__copy){.memory = &memory, .to = &byte};
    CHECK(hr__task_stop(task), "a read");
    task->copy = (struct hr__copy){.memory = &memory, .from = &byte};
    CHECK(hr__task_stop(task), "a write");
    task->copy = (struct hr__copy){.memory = &memory};
    CHECK(!hr__task_stop(task), "a clear is not stopped");
    atomic_store(&job.stop, HR_ETIMEDOUT);
    CHECK(!hr__task_stop(task), "nor if the job has run out of time");
}

// While a task waits for its engine, so does the engine in front that cannot
// go on without it.
TEST_CASE(clocks)
{
    int64_t before = hr__now();

    set_up();
    hr__task_defer(&work.tasks[1].task);
    CHECK(atomic_load(&dev.alive[0]) >= before, "the engine in front ages");
    CHECK(!atomic_load(&dev.alive[2]), "the host was asked");
    CHECK(atomic_load(&work.tasks[1].deadline) < 0, "its own clock stands");
    hr__task_begun(&work.tasks[1].task);
    CHECK(atomic_load(&work.tasks[1].deadline) > before, "and runs again");
}

// Rows between two engines must lie in the payload to the last byte.
TEST_CASE(sizes)
{
    static uint8_t bytes[1000];
    struct hr__payload *p = &work.payloads[0];

    set_up();
    work.plan.num_spans = 2;
    work.plan.spans[0].span = (struct hr_span){HR_ENTROPY, HR_COLOR};
    work.pic.channels = 3;
    *p = (struct hr__payload){.after = HR_COLOR,
                              .data = bytes,
                              .size = 9 * 40 + 30,
                              .stride = 40,
                              .rect = {0, 0, 10, 10}};
    CHECK(hr__payload_made(&work), "it just fits");
    p->size--;
    CHECK(!hr__payload_made(&work), "a byte too small");
    p->size++;
    p->stride = 29;
    CHECK(!hr__payload_made(&work), "rows that overlap");
    p->stride = SIZE_MAX / 4;
    CHECK(!hr__payload_made(&work), "a product that overflows");
    p->stride = 40;
    p->after = HR_ENTROPY;
    CHECK(!hr__payload_made(&work), "another stage's");
}

// A file without an end must be searched for where it stops: not cut in stages.
TEST_CASE(damaged_files)
{
    const struct hr_op op = hr_op_decode(0);
    auto_bytes jpeg = test_jpeg(40, 30, &test_seed);
    struct hr__picture pic = {
        .data = jpeg.data, .size = jpeg.size, .width = 40, .height = 30};
    char text[128];

    CHECK(!hr_probe(jpeg.data, jpeg.size, NULL, &pic.info), "%s",
          hr_last_error());
    CHECK(!hr__geometry_build(&pic.geo, &op, 1, HR_REFERENCE_DEFAULT, 40, 30, 1,
                              text),
          "%s", text);
    CHECK(cpu_planes_takes(&pic) && cpu_entropy_takes(&pic), "a whole one");
    pic.info.ends = false;
    CHECK(!cpu_planes_takes(&pic) && !cpu_entropy_takes(&pic),
          "without an end");
}

// Planes of another engine end where it says, and not a byte behind that.
TEST_CASE(planes)
{
    static uint8_t bytes[16 * 16];
    struct hr__planes head = {.num_components = 1,
                              .color = HR_COLOR_GRAY,
                              .h_max = 1,
                              .v_max = 1,
                              .w = 16,
                              .h = 16};
    struct cpu_planes_params p = {.planes = &head,
                                  .data = bytes,
                                  .size = sizeof(bytes),
                                  .width = 16,
                                  .height = 16,
                                  .window = {0, 0, 16, 16},
                                  .channels = 1};
    struct hr__rect need;

    head.comp[0].h = head.comp[0].v = 1;
    head.comp[0].width = head.comp[0].height = 16;
    head.comp[0].cols = head.comp[0].rows = 16;
    head.comp[0].stride = 16;
    head.comp[0].step = 1;
    CHECK(cpu_planes_need(&p, 0, &need) && need.w == 16, "it just fits");
    p.size--;
    CHECK(!cpu_planes_need(&p, 0, &need), "a byte too small");
}

// Traces, profiles and reports speak of parts by these names.
TEST_CASE(names)
{
    static const struct {
        enum hr_part part;
        const char *name;
    } parts[] = {
        {HR_PART_READ, "read"},
        {HR_PART_PREPARE, "prepare"},
        {HR_PART_DECODE, "decode"},
        {HR_PART_ENTROPY, "entropy"},
        {HR_PART_RECONSTRUCT, "reconstruct"},
        {HR_PART_COLOR, "color"},
        {HR_PART_RESAMPLE, "resample"},
        {HR_PART_STORE, "store"},
        {HR_PART_PACK, "pack"},
        {HR_PART_UPLOAD, "upload"},
        {HR_PART_DOWNLOAD, "download"},
        {HR_PART_DELIVER, "deliver"},
        {HR_PART_IMPORT, "import"},
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        CHECK(!strcmp(hr_part_name(parts[i].part), parts[i].name), "%s is %s",
              parts[i].name, hr_part_name(parts[i].part));
}

// ---- Calls with a deadline -------------------------------------------------

static atomic_int back;
static atomic_bool may_end;

static void sleep_well(void *arg)
{
    while (*(bool *)arg && !atomic_load(&may_end))
        test_sleep(TEST_MS);
    atomic_fetch_add(&back, 1);
}

static bool *that_waits(bool waits)
{
    bool *arg = hr__alloc(NULL, sizeof(*arg));

    *arg = waits;
    return arg;
}

// The caller waits for the call or leaves it behind; then the call frees its
// own memory and its argument. (AddressSanitizer sees leaks.)
TEST_CASE(deadlines)
{
    bool *none = that_waits(false);

    CHECK(hr__call_with_deadline(sleep_well, none, 60000 * TEST_MS),
          "it came back");
    CHECK(atomic_load(&back) == 1, "done");
    hr__free(none);
    CHECK(!hr__call_with_deadline(sleep_well, that_waits(true), 10 * TEST_MS),
          "it was left behind");
    CHECK(atomic_load(&back) == 1, "it is still on its way");
    atomic_store(&may_end, true);
    CHECK(test_reaches(&back, 2), "it came back in the end");
    test_sleep(50 * TEST_MS);
}

// ---- A revocable pointer ---------------------------------------------------

static struct hr__engine_ref ref;
static atomic_int inside;

static void *guest(void *arg)
{
    (void)arg;
    CHECK(hr__engine_ref_get(&ref) == &engines[0], "it is open");
    atomic_store(&inside, 1);
    test_sleep(100 * TEST_MS);
    atomic_store(&inside, 2);
    hr__engine_ref_put(&ref);
    return NULL;
}

TEST_CASE(refs)
{
    pthread_t thread;

    hr__engine_ref_init(&ref, &engines[0]);
    pthread_create(&thread, NULL, guest, NULL);
    CHECK(test_reaches(&inside, 1), "inside");
    hr__engine_ref_revoke(&ref);
    CHECK(atomic_load(&inside) == 2, "revoked while it is in use");
    CHECK(!hr__engine_ref_get(&ref), "it is revoked");
    pthread_join(thread, NULL);
}
