// SPDX-License-Identifier: Apache-2.0
// Fuzz target of web servers' answers: the first byte selects the request, the
// lines behind it are the header. An answer that is accepted must match the
// request. Then the same bytes as a URL.
#include <string.h>

#include "fuzz.h"
#include "loader/http/http.h"

static void check(const struct hr__http_verdict *v,
                  const struct hr__http_want *want)
{
    promise(v->take <= HR__HTTP_REFUSE);
    promise(v->take == HR__HTTP_TAKE ? !v->why : v->why && *v->why);
    promise(v->take != HR__HTTP_REFUSE || v->status < 0);
    if (v->take != HR__HTTP_TAKE || !v->has_size)
        return;
    promise(!want->size || v->size <= want->size);
    promise(v->version.size == UINT64_MAX || v->version.size <= want->most);
    if (v->size && want->size)
        promise(want->offset + v->size <= v->version.size);
    if (want->known) {
        promise(v->version.size == want->known->size);
        promise(!want->known->tag || v->version.tag == want->known->tag);
        // With If-Range all of it is another object, or asked for without.
        promise(!want->if_range || v->size <= want->size);
    }
}

static void url(const char *text)
{
    size_t host = hr__http_origin(text), path = hr__http_path_end(text);

    promise(host <= strlen(text) && path <= strlen(text));
    if (!hr__http_url_fault(text)) {
        promise(hr__http_is_url(text) && path >= host);
        promise(!memchr(text, '@', host));
        promise(hr__http_same_origin(text, text));
    }
}

static uint64_t tag_of(const char *text)
{
    struct hr__http_answer a = {.status = 200};
    char line[HR__HTTP_TAG + 16];

    snprintf(line, sizeof(line), "ETag: %s", text);
    hr__http_answer_line(&a, line, strlen(line));
    return a.tag;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr__http_version known = {1000, 0, 0};
    struct hr__http_want want = {.most = 1 << 20};
    struct hr__http_answer a = {0};
    char text[5000];
    struct hr__http_verdict v;
    unsigned kind;

    if (!size)
        return 0;
    kind = *data++;
    size--;
    if (kind & 1)
        want.offset = kind & 2 ? 100 : 0, want.size = 50;
    want.may_end = kind & 4;
    want.known = kind & 8 ? &known : NULL;
    want.if_range = kind & 16 && want.known && want.size;
    known.tag = kind & 32 ? tag_of("\"a\"") : 0;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) + 1 - at : size - at;

        hr__http_answer_line(&a, (const char *)data + at, length);
        at += length;
    }
    promise(strlen(a.strong) < sizeof(a.strong) && !strpbrk(a.strong, " \r\n"));
    promise(!*a.strong || a.tag == tag_of(a.strong));
    v = hr__http_judge(&a, &want);
    check(&v, &want);
    size = size < sizeof(text) - 9 ? size : sizeof(text) - 9;
    memcpy(text, "https://", 8);
    memcpy(text + 8, data, size);
    text[8 + size] = '\0';
    url(text);
    url(text + 8);
    return 0;
}
