// SPDX-License-Identifier: Apache-2.0
// Contexts, which may know a VADisplay: the extensions that a driver reports if
// it shares surfaces (fault_sharing.c), and the properties that it takes.
// Builds without VA-API.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fault_calls.h"

#ifndef CL_CONTEXT_VA_API_DISPLAY_INTEL
#define CL_CONTEXT_VA_API_DISPLAY_INTEL 0x4097
#define CL_INVALID_VA_API_MEDIA_ADAPTER_INTEL -1098
#endif

enum { MOST = 256, PROPERTIES = 16 };

static const char words[] = " cl_intel_va_api_media_sharing";
static const char query_word[] = " cl_intel_sharing_format_query";

static struct {
    pthread_mutex_t lock;
    unsigned how;
    struct {
        cl_context context;
        void *display;
    } contexts[MOST];
    int filled;
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_valid(void *display)
{
    void *library = dlopen("libva.so.2", RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "vaDisplayIsValid") : NULL;
    int (*valid)(void *);

    memcpy(&valid, &entry, sizeof(entry));
    return entry && valid(display);
}

// ---- How it is --------------------------------------------------------------

// For programs that have no control of us.
static void first(void)
{
    const char *text = getenv("HEADRACE_FAULT_SHARES");

    s.how = text ? (unsigned)strtoul(text, NULL, 0) : 0;
}

void fault_sharing(unsigned how)
{
    pthread_once(&once, first);
    pthread_mutex_lock(&s.lock);
    s.how = how;
    s.filled = 0;
    pthread_mutex_unlock(&s.lock);
}

unsigned fault_how(void)
{
    unsigned how;

    pthread_once(&once, first);
    pthread_mutex_lock(&s.lock);
    how = s.how;
    pthread_mutex_unlock(&s.lock);
    return how;
}

void fault_note_filled(void)
{
    pthread_mutex_lock(&s.lock);
    s.filled++;
    pthread_mutex_unlock(&s.lock);
}

int fault_filled(void)
{
    int n;

    pthread_mutex_lock(&s.lock);
    n = s.filled;
    pthread_mutex_unlock(&s.lock);
    return n;
}

cl_int fault_extensions(cl_device_id id, size_t size, void *value, size_t *used)
{
    char more[sizeof(words) + sizeof(query_word)] = "";
    unsigned how = fault_how();
    size_t own = 0, n;
    cl_int code;

    if (how & FAULT_SHARES)
        strcat(more, words);
    if (how & (FAULT_SHARES_NV12 | FAULT_SHARES_OTHERS))
        strcat(more, query_word);
    code = fault_real.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &own);
    n = own + strlen(more);
    if (used)
        *used = n;
    if (code || !value)
        return code;
    if (size < n)
        return CL_INVALID_VALUE;
    code = fault_real.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, size, value,
                                      NULL);
    if (!code)
        strcat(value, more);
    return code;
}

// ---- Contexts ---------------------------------------------------------------

// Takes out the properties that the driver below does not know. Returns false
// if they are not as they should be.
static bool read_properties(const cl_context_properties *from,
                            cl_context_properties to[PROPERTIES],
                            void **display)
{
    bool user_sync = false;
    int n = 0;

    *display = NULL;
    for (int i = 0; from && from[i] && n < PROPERTIES - 3; i += 2) {
        if (from[i] == CL_CONTEXT_VA_API_DISPLAY_INTEL) {
            *display = (void *)from[i + 1];
        } else if (from[i] == CL_CONTEXT_INTEROP_USER_SYNC) {
            user_sync = from[i + 1] == CL_TRUE;
        } else {
            to[n++] = from[i];
            to[n++] = from[i + 1];
        }
    }
    to[n] = 0;
    return !*display ||
           (user_sync && fault_how() & FAULT_SHARES && is_valid(*display));
}

// The entry of a context, which may have the address of an older one.
static void note_context(cl_context context, void *display)
{
    int at = -1;

    pthread_mutex_lock(&s.lock);
    for (int i = 0; i < MOST; i++)
        if (s.contexts[i].context == context ||
            (at < 0 && !s.contexts[i].context))
            at = i;
    if (at < 0)
        abort();
    s.contexts[at].context = display ? context : NULL;
    s.contexts[at].display = display;
    pthread_mutex_unlock(&s.lock);
}

void *fault_display_of(cl_context context)
{
    void *display = NULL;

    pthread_mutex_lock(&s.lock);
    for (int i = 0; i < MOST; i++)
        if (context && s.contexts[i].context == context)
            display = s.contexts[i].display;
    pthread_mutex_unlock(&s.lock);
    return display;
}

CALL cl_context clCreateContext(
    const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
    void *arg, cl_int *err)
{
    struct fault_rule rule = fault_begin(FAULT_clCreateContext);
    cl_context_properties plain[PROPERTIES];
    cl_int code = rule.code;
    cl_context context = NULL;
    void *display = NULL;

    if (!code && !read_properties(properties, plain, &display)) {
        fault_note(1, 0, 0);
        code = CL_INVALID_PROPERTY;
    }
    if (!code && display && fault_how() & FAULT_SHARES_REFUSES)
        code = CL_INVALID_VA_API_MEDIA_ADAPTER_INTEL;
    if (!code)
        context = fault_real.clCreateContext(plain, n, ids, notify, arg, &code);
    if (!code) {
        fault_made(context);
        note_context(context, display);
    }
    fault_finish(&rule);
    if (err)
        *err = code;
    return context;
}

// The display must be there as long as a context knows it.
CALL cl_int clReleaseContext(cl_context context)
{
    struct fault_rule rule = fault_begin(FAULT_clReleaseContext);
    void *display = fault_display_of(context);

    if (!fault_use(context, true))
        return CL_INVALID_VALUE;
    fault_note(display && !is_valid(display), 0, 0);
    if (display)
        note_context(context, NULL);
    if (!rule.code)
        rule.code = fault_real.clReleaseContext(context);
    fault_finish(&rule);
    return rule.code;
}

CALL void *clGetExtensionFunctionAddressForPlatform(cl_platform_id id,
                                                    const char *name)
{
#if HR_FAULT_SHARING
    void *entry = fault_sharing_entry(name);

    if (entry)
        return entry;
#endif
    return fault_real.clGetExtensionFunctionAddressForPlatform(id, name);
}
