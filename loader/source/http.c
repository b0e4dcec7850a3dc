// SPDX-License-Identifier: Apache-2.0
// Inputs that are URLs. Names of objects are the ends of their URLs' paths. The
// program's headers go to URLs that the program named, not to those of others'
// lists.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

struct hr__http *hr__source_web(struct hr__source *s)
{
    if (!s->http)
        s->http = hr__http_create(hr_http_params(0));
    return s->http;
}

enum hr_status hr_source_set_http(hr_source source,
                                  const struct hr_http_params *params)
{
    struct hr__source *s = hr__source_of(source);

    if (!s || !params || s->calls.read)
        return hr__fail(HR_EINVAL, "there is no source, or nothing to set");
    if (s->http)
        return hr__fail(HR_EINVAL, "it was set before, or a URL was added");
    s->http = hr__http_create(params);
    return s->http ? HR_OK : hr_last_status();
}

// ---- Objects that are samples ----------------------------------------------

// Returns where its name begins: behind the last slash of the path. 0: it has
// none.
static size_t name_of(const char *url)
{
    size_t host = hr__http_origin(url), end = hr__http_path_end(url), at = end;

    while (at > host && url[at - 1] != '/')
        at--;
    return at > host && at < end ? at : 0;
}

bool hr__source_put_object(struct hr__source *s, const char *url, uint8_t web,
                           size_t rel, const char *label)
{
    const char *why = hr__http_url_fault(url), *part;
    size_t name = why ? 0 : name_of(url), host = hr__http_origin(url);
    char folder[HR__HTTP_URL], text[192];
    bool is_name = !label;
    struct hr__source_dir dir = {.path = folder, .web = web};
    uint32_t index, own;

    if (!name)
        return hr__source_fail(HR_EINVAL, "%s: %s", hr__http_short(url, text),
                               why ? why : "the URL names no object");
    memcpy(folder, url, name - 1);
    folder[name - 1] = '\0';
    dir.rel = (uint32_t)(rel < name - 1 ? rel : name - 1);
    part = strrchr(folder, '/') + 1;
    if (is_name)
        label = part > folder + host ? part : "";
    return hr__source_web(s) && hr__source_intern(s, label, is_name, &own) &&
           hr__source_put_dir_once(s, dir, &index) &&
           hr__source_put(s, index, url + name, own, 0);
}

// ---- Lists -----------------------------------------------------------------

bool hr__source_put_listed(struct hr__source *s, const char *folder,
                           const char *entry, bool below, const char *label)
{
    bool is_url = hr__http_is_url(entry);
    int base = is_url          ? 0
               : *entry == '/' ? (int)hr__http_origin(folder)
                               : (int)strlen(folder);
    char url[2 * HR__HTTP_URL];
    uint8_t web;

    if (snprintf(url, sizeof(url), "%.*s%s", base, folder, entry) >=
        HR__HTTP_URL) {
        char text[192];

        hr__source_fault(s, hr__http_short(url, text), ENAMETOOLONG);
        return true;
    }
    web = hr__http_same_origin(folder, url) ? HR__WEB_OWN : HR__WEB_OTHERS;
    if (hr__source_put_object(
            s, url, web, below && !is_url ? strlen(folder) : SIZE_MAX, label))
        return true;
    if (hr_last_status() != HR_EINVAL)
        return false;
    hr__source_fault_text(s, hr_last_error());
    return true;
}
