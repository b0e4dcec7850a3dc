// SPDX-License-Identifier: Apache-2.0
// A libcurl of another release, for test_source_http_library.c: it does not
// know some options, or has no memory; it never connects.
#include <stdarg.h>
#include <stddef.h>

#include <curl/curl.h>

#undef curl_easy_setopt
#undef curl_easy_getinfo

extern int null_curl_unknown[4], null_curl_made, null_curl_performed;
extern long null_curl_protocols;
extern int null_curl_no_handle;
extern const void *null_curl_lent[];
extern int null_curl_num_lent;

int null_curl_unknown[4], null_curl_made, null_curl_performed;
long null_curl_protocols;
int null_curl_no_handle;

// The options that lend the caller's frame, and how many were set in a call.
static const int lends[] = {CURLOPT_ERRORBUFFER, CURLOPT_HEADERDATA,
                            CURLOPT_WRITEDATA, CURLOPT_XFERINFODATA};
enum { LENDS = sizeof(lends) / sizeof(*lends) };
const void *null_curl_lent[LENDS + 1];
int null_curl_num_lent;

CURLcode curl_global_init(long flags)
{
    (void)flags;
    return CURLE_OK;
}

curl_version_info_data *curl_version_info(CURLversion version)
{
    static curl_version_info_data is = {.version = "7.81.0",
                                        .version_num = 0x075100};

    (void)version;
    return &is;
}

CURL *curl_easy_init(void)
{
    null_curl_made++;
    return null_curl_no_handle ? NULL : (CURL *)&null_curl_made;
}

CURLcode curl_easy_setopt(CURL *c, CURLoption option, ...)
{
    va_list args;

    (void)c;
    for (int i = 0; i < 4; i++)
        if (null_curl_unknown[i] && (int)option == null_curl_unknown[i])
            return CURLE_UNKNOWN_OPTION;
    va_start(args, option);
    if ((int)option == 181)
        null_curl_protocols = va_arg(args, long);
    for (int i = 0; i < LENDS; i++)
        if ((int)option == lends[i])
            null_curl_lent[i] = va_arg(args, const void *);
    va_end(args);
    return CURLE_OK;
}

CURLcode curl_easy_perform(CURL *c)
{
    (void)c;
    null_curl_performed++;
    null_curl_num_lent = 0;
    for (int i = 0; i < LENDS; i++)
        null_curl_num_lent += null_curl_lent[i] != NULL;
    return CURLE_COULDNT_CONNECT;
}

CURLcode curl_easy_getinfo(CURL *c, CURLINFO info, ...)
{
    (void)c, (void)info;
    return CURLE_UNKNOWN_OPTION;
}

const char *curl_easy_strerror(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT  ? "no connection"
           : code == CURLE_UNKNOWN_OPTION ? "unknown option"
                                          : "something else";
}

void curl_easy_cleanup(CURL *c)
{
    (void)c;
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    (void)list, (void)text;
    return NULL;
}

void curl_slist_free_all(struct curl_slist *list)
{
    (void)list;
}
