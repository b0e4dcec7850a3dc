// SPDX-License-Identifier: Apache-2.0
// A training loop without the training: three epochs of a folder whose folders
// are its classes, shuffled and augmented.
//
//   cc train_loop.c -o train_loop $(pkg-config --cflags --libs headrace)
//   ./train_loop PHOTOS/
#include <stdio.h>

#include <headrace/headrace.h>

// Here the network would learn.
static double train(hr_loaded step)
{
    const float *pixels = step->batch->params.data;
    size_t n = (size_t)step->n * 3 * 224 * 224;
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += pixels[i];
    return sum / (double)n;
}

// Warns of the named files that are left out of training.
static void tell(hr_source source)
{
    char path[4200];
    enum hr_skip why;

    for (size_t i = 0; i < source->num_fault_texts; i++)
        fprintf(stderr, "%s\n", source->faults[i]);
    for (size_t i = 0; i < source->skipped; i++)
        if (hr_source_skipped(source, i, path, sizeof(path), &why))
            fprintf(stderr, "%s: %s\n", path, hr_skip_text(why));
}

int main(int argc, char **argv)
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(0),
        HR_OP_RANDOM_RESIZED_CROP(.w = 224, .h = 224),
        HR_OP_RANDOM_FLIP(.horizontal = .5),
        HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                        .std = {.229f, .224f, .225f}),
    };
    hr_source source = hr_source_open(argc > 1 ? argv[1] : ".");
    const struct hr_loader_params params = {
        .source = source,
        .ops = ops,
        .num_ops = 4,
        .on_error = HR_ON_ERROR_SKIP,
        .shuffle = true,
        .seed = 1,
        .epochs = 3,
    };
    hr_loader loader = source ? hr_loader_create(&params) : NULL;
    enum hr_status status = loader ? HR_OK : hr_last_status();
    hr_loaded step;

    if (source)
        tell(source);
    while (!status && !(status = hr_loader_next(loader, HR_FOREVER, &step)) &&
           step) {
        printf("epoch %u, batch %llu: %d pictures, mean %.4f\n", step->epoch,
               (unsigned long long)step->number, step->n, train(step));
        if (step->replaced || step->failed)
            printf("    could not be made: %d replaced by others, %d zeros\n",
                   step->replaced, step->failed);
        hr_loaded_release(&step);
    }
    if (status)
        fprintf(stderr, "%s\n", hr_last_error());
    hr_loader_destroy(&loader);
    hr_source_close(&source);
    return status != HR_OK;
}
