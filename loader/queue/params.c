// SPDX-License-Identifier: Apache-2.0
// The table of a loader's numbers, switches and words. A new one is a row here
// and a member of struct hr_loader_params; docs/loader.md has a line for it.
#include <limits.h>

#include "hal/engine/base.h"
#include "loader.h"

static const char *const tiers[] = {"exact", "close", "fast", NULL};
static const char *const on_errors[] = {"fail", "zero", "skip", NULL};

// clang-format off
#define ROW(name, kind, lo, hi, words, fallback, help) \
    {#name, HR_PARAM_##kind, offsetof(struct hr_loader_params, name), \
     lo, hi, words, fallback, help}
#define NUMBER(name, kind, lo, hi, ...) ROW(name, kind, lo, hi, NULL, __VA_ARGS__)
#define SWITCH(name, help) ROW(name, BOOL, 0, 1, NULL, "false", help)
static const struct hr_loader_param params[] = {
    NUMBER(batch, INT, 0, INT_MAX, "64", "samples of a batch"),
    ROW(tier, WORD, 0, 2, tiers, "exact", "the contract of its pixels"),
    SWITCH(strict, "no fallback to another engine"),
    NUMBER(timeout_ns, INT64, 0, INT64_MAX, "none",
           "for the making of a batch, without reading"),
    ROW(on_error, WORD, 0, 2, on_errors, "fail",
        "what becomes of a sample that cannot be made"),
    SWITCH(shuffle, "another order each epoch"),
    NUMBER(shuffle_buffer, UINT64, 0, UINT64_MAX, "anywhere",
           "places that a shuffled sample is moved by, at most"),
    NUMBER(seed, UINT64, 0, UINT64_MAX, "0", "of order and random ops"),
    NUMBER(epochs, INT64, HR_ENDLESS, UINT32_MAX, "1", "-1: no end"),
    NUMBER(first_epoch, UINT32, 0, UINT32_MAX, "0", "number of the first"),
    NUMBER(shards, UINT32, 0, UINT32_MAX, "1",
           "loaders that share the samples of an epoch"),
    NUMBER(shard, UINT32, 0, UINT32_MAX, "0", "which of them this is"),
    SWITCH(shard_drop, "the last samples are left out if they do not go evenly"),
    SWITCH(epochs_apart, "an epoch begins when the one before was delivered"),
    SWITCH(drop_remainder, "no batch that is not full"),
    NUMBER(samples, UINT64, 0, UINT64_MAX, "those of the source",
           "of an epoch, of all shards"),
    NUMBER(map_threads, INT, 0, INT_MAX, "1", "batches in map at a time"),
    SWITCH(as_ready, "batches come in the order in which they are made"),
    NUMBER(budget, SIZE, 0, SIZE_MAX, "256 MiB",
           "bytes of batches and encoded samples"),
    NUMBER(reads, INT, 0, HR__LOADER_READS, "8; of URLs 32; tuned: as many as pay",
           "threads that read samples"),
    SWITCH(by_path, "the device reads files when it makes them"),
    SWITCH(autotune, "the settings follow what is measured"),
    NUMBER(start.threads, INT, 0, INT_MAX, "those in use", "settings to begin with"),
    NUMBER(start.reads, INT, 0, INT_MAX, "as reads", "of them, reads in flight"),
    NUMBER(start.depth, INT, 0, INT_MAX, "what budget has room for",
           "of them, batches ahead"),
    NUMBER(start.bytes, SIZE, 0, SIZE_MAX, "what budget has room for",
           "of them, bytes of encoded samples"),
    NUMBER(reserve, INT, 0, INT_MAX, "0", "usable cores that are left to others"),
    NUMBER(cpu_share, DOUBLE, 0, 1, "all", "of the usable cores, what may be used"),
};
// clang-format on

const struct hr_loader_param *hr_loader_param(int number)
{
    const int num = (int)(sizeof(params) / sizeof(*params));

    return number >= 0 && number < num ? &params[number] : NULL;
}

static enum hr_status check(const struct hr_loader_param *row, const void *at)
{
    double share = row->kind == HR_PARAM_DOUBLE ? *(const double *)at : 0;
    int64_t number = row->lo;

    if (row->kind == HR_PARAM_INT || row->kind == HR_PARAM_WORD)
        number = *(const int *)at;
    else if (row->kind == HR_PARAM_INT64)
        number = *(const int64_t *)at;
    if (!(share >= 0 && share <= 1))
        return hr__fail(HR_EINVAL, "%s: %g is not in 0 .. 1", row->name, share);
    // (The others hold nothing that is out of their range.)
    if (number < row->lo || (number > 0 && (uint64_t)number > row->hi))
        return hr__fail(HR_EINVAL, "%s: %lld is not in %lld .. %llu", row->name,
                        (long long)number, (long long)row->lo,
                        (unsigned long long)row->hi);
    return HR_OK;
}

enum hr_status hr__loader_check(const struct hr_loader_params *p)
{
    for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++)
        if (check(&params[i], (const char *)p + params[i].offset))
            return HR_EINVAL;
    return HR_OK;
}
