// SPDX-License-Identifier: Apache-2.0
#include "shard_data.h"

#include <endian.h>

void shard_append(struct shard *m, const void *data, size_t size)
{
    m->data = realloc(m->data, m->size + size + 1);
    if (size)
        memcpy(m->data + m->size, data, size);
    m->size += size;
    m->data[m->size] = 0;  // it may be read as a text
}

void shard_pad(struct shard *m, size_t to)
{
    static const char zeros[1024];

    shard_append(m, zeros, (to - m->size % to) % to);
}

const char *shard_write(const struct shard *m, const char *ending)
{
    struct bytes b = {m->data, m->size};

    return test_file(&b, ending);
}

void shard_finish(struct shard *m)
{
    free(m->data);
    *m = (struct shard){0};
}

// ---- RecordIO --------------------------------------------------------------

void shard_word(struct shard *m, uint32_t value)
{
    value = htole32(value);
    shard_append(m, &value, sizeof(value));
}

void shard_record(struct shard *m, const uint8_t *data, size_t size)
{
    uint32_t magic = htole32(SHARD_MAGIC), kind = 0;
    size_t from = 0;

    for (size_t at = 0; at + 4 <= size; at += 4) {
        if (memcmp(data + at, &magic, 4))
            continue;
        shard_word(m, SHARD_MAGIC);
        shard_word(m, (kind ? 2u : 1u) << 29 | (uint32_t)(at - from));
        shard_append(m, data + from, at - from);
        from = at + 4;
        kind = 3;
    }
    shard_word(m, SHARD_MAGIC);
    shard_word(m, kind << 29 | (uint32_t)(size - from));
    shard_append(m, data + from, size - from);
    shard_pad(m, 4);
    if (m->num < SHARD_ENDS)
        m->ends[m->num++] = m->size;
}

void shard_image(struct shard *m, const struct bytes *file, float label,
                 uint32_t more)
{
    OWN(shard_finish) struct shard own = {0};
    uint32_t bits;

    memcpy(&bits, &label, sizeof(bits));
    shard_word(&own, more);
    shard_word(&own, more ? 0 : bits);
    for (uint32_t i = 0; i < 4; i++)
        shard_word(&own, more % 2 && i == more ? SHARD_MAGIC : 7);
    for (uint32_t i = 0; i < more; i++)
        shard_word(&own, i ? 9 : bits);
    shard_append(&own, file->data, file->size);
    shard_record(m, own.data, own.size);
}

void shard_header(struct shard *m, const char *name, char type, uint64_t size)
{
    unsigned sum = 0;
    char h[512] = "";

    snprintf(h, 100, "%s", name);
    memcpy(h + 100,
           "0000644\0"
           "0000000\0"
           "0000000\0",
           24);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)size);
    snprintf(h + 136, 12, "%011o", 0);
    memset(h + 148, ' ', 8);
    h[156] = type;
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    if (type == '2')
        snprintf(h + 157, 100, "/tmp");
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    shard_append(m, h, sizeof(h));
}

void shard_member(struct shard *m, const char *name, const void *data,
                  size_t size)
{
    shard_header(m, name, '0', size);
    shard_append(m, data, size);
    shard_pad(m, 512);
}

void shard_end_tar(struct shard *m)
{
    char zeros[1024] = "";

    shard_append(m, zeros, sizeof(zeros));
}

const char *shard_tar(hr_source source)
{
    OWN(shard_finish) struct shard m = {0};
    struct hr_encoded sample = {0};
    const char *path;

    for (uint64_t i = 0; i < source->num; i++) {
        char name[4200];
        const char *label = hr_source_item(source, i).label;

        if (hr_source_read(source, i, 0, &sample))
            abort();
        hr_source_name(source, i, name, sizeof(name));
        shard_member(&m, name, sample.data, sample.size);
        strcpy(strrchr(name, '.'), ".cls");
        shard_member(&m, name, label, strlen(label));
    }
    hr_encoded_finish(&sample);
    shard_end_tar(&m);
    path = shard_write(&m, ".tar");
    return path;
}

const char *shard_rec(hr_source source)
{
    OWN(shard_finish) struct shard m = {0};
    struct hr_encoded sample = {0};
    const char *path;

    for (uint64_t i = 0; i < source->num; i++) {
        if (hr_source_read(source, i, 0, &sample))
            abort();
        shard_image(&m, &(struct bytes){(uint8_t *)sample.data, sample.size},
                    (float)(i % 3), 0);
    }
    hr_encoded_finish(&sample);
    path = shard_write(&m, ".rec");
    return path;
}

bool shard_have_tar(void)
{
    struct shard m = {0};
    hr_source s;

    shard_end_tar(&m);
    s = hr_source_open(shard_write(&m, ".tar"));
    shard_finish(&m);
    if (s) {
        hr_source_close(&s);
        return true;
    }
    if (hr_last_status() == HR_EUNSUPPORTED)
        test_not_run("no libarchive");
    else
        CHECK(false, "%s", hr_last_error());
    return false;
}

hr_source shard_open(struct shard *m, const char *ending)
{
    hr_source s = hr_source_open(shard_write(m, ending));

    shard_finish(m);
    return s;
}
