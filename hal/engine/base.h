// SPDX-License-Identifier: Apache-2.0
// For engines and the HAL alike: errors, lists of ops, the log, time, memory,
// threads, and what is kept on disk (hal/base/).
#ifndef HR__ENGINE_BASE_H
#define HR__ENGINE_BASE_H

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <headrace/headrace.h>

struct hr__device;

// Sets hr_last_status() and hr_last_error() of this thread; returns status.
enum hr_status hr__fail(enum hr_status status, const char *fmt, ...)
    HR_PRINTF(2, 3);

// Checks of a list what does not depend on the picture's size; HR_EINVAL, and
// text names the op. channels: of the image that is the source; 0: the source
// is an encoded picture.
enum hr_status hr__ops_check(const struct hr_op *ops, int num_ops, int channels,
                             char text[128]);
// Why a list goes with no tensor of dtype; NULL: it does.
const char *hr__ops_lost(const struct hr_op *ops, int num_ops,
                         enum hr_dtype dtype);

// From now on n of the device's host threads (params.threads) work, at least
// one; more than there are: all of them. The others sleep when they have ended
// what they are at; no task is lost, none waits for one that sleeps. n = 0
// changes nothing. *before, if not NULL: how many it were. NULL = the default
// device. HR_EINVAL, HR_EFORK, or the default cannot open.
enum hr_status hr__device_use_threads(hr_device dev, int n, int *before);

// Another reference; returns cache. NULL is fine.
hr_cache hr__cache_retain(hr_cache cache);

// Writes to the device's log.
void hr__log(struct hr__device *dev, enum hr_log_level level, const char *fmt,
             ...) HR_PRINTF(3, 4);

// CLOCK_MONOTONIC in nanoseconds.
int64_t hr__now(void);
// Conditions by that clock. wait: false if the deadline has passed; INT64_MAX =
// never.
void hr__cond_init(pthread_cond_t *cond);
bool hr__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                   int64_t deadline);

// Extends a deadline by a second at a time while the driver works: while its
// threads use CPU time or would if they got some, or a process that it has
// started runs (a linker). A hung driver sleeps and gets no extension after the
// first. Ends a minute of such work later, or at `most`. The rest of the
// process is not considered.
struct hr__patience {
    int64_t deadline, most;
    const pthread_t *caller;  // the thread that is in the driver; may be NULL
    int64_t cpu, used;        // CPU time when it was looked at last; ns that
                              // it has worked since
    int looks;
};
bool hr__wait_longer(struct hr__patience *p);

// Runs fn, which may hang in a driver, on a thread of its own; false if it has
// not come back in time, or never began. arg is of hr__alloc(): it is the
// caller's again after true, and freed when fn no longer uses it after false.
bool hr__call_with_deadline(void (*fn)(void *arg), void *arg,
                            int64_t timeout_ns);

// Around calls in which a driver may compile: the static objects of its library
// end in exit(), and a thread that uses them then crashes. exit() waits for
// release, as long as closing a device would. hold false: exit() has begun, and
// the driver must not be called any more; no release then. The first call of a
// process is not waited for: the objects that the driver makes in it end before
// any handler that was registered earlier, and PoCL's compiler then crashes.
bool hr__exit_hold(void);
void hr__exit_release(void);

// Drivers that were touched before fork() hang the child. *user: the process
// that has used this one, from the first call with use. HR_EFORK with the
// reason: a parent has.
enum hr_status hr__fork_check(_Atomic pid_t *user, bool use, const char *what);

// Differs between a process and its children, once it was asked.
unsigned hr__forks(void);

// Identifies the loaded library that has that address: by its build id, or else
// its file's size, date and name. One line without its end; "" if none has it.
void hr__library_text(uintptr_t address, char *text, size_t size);

// Functions of a library that is opened at run time. open: the file of its row
// in hr_library_info(), or the one that an environment variable names instead;
// NULL as dlopen(). fill: writes their addresses into a table; the name of one
// that is missing and not optional, or NULL.
enum hr__library {
    HR__LIBRARY_WEBP,  // linked
    HR__LIBRARY_ARCHIVE,
    HR__LIBRARY_CURL,
    HR__LIBRARY_OPENCL,
    HR__LIBRARY_VA,
    HR__LIBRARY_VA_DRM,
    HR__LIBRARY_HWLOC,
};
struct hr__entry {
    const char *name;
    size_t at;  // in the table
    bool optional;
};
void *hr__library_open(enum hr__library library);
const char *hr__library_fill(void *library, void *table,
                             const struct hr__entry *entries, size_t n);

// The files that the library keeps on disk, in $XDG_CACHE_HOME/headrace or
// ~/.cache/headrace; in no folder for a program with more rights than its user
// (secure_getenv()). They are read only if no other user can have written them:
// folder and file belong to the effective user or to root, and others may not
// write there.
//
// open: a descriptor of a regular file, at its begin; -1: as if there were
// none, and why says so if something is there ("" if not). write: the parts as
// one file, there with all its bytes or not at all; false with errno. name:
// without '/'.
enum { HR__CACHE_WHY = 160 };
int hr__cache_open(const char *name, size_t *size, char why[HR__CACHE_WHY]);
bool hr__cache_write(const char *name, const struct iovec *parts, int n);
// Reads size bytes. False: there are not so many.
bool hr__read_all(int fd, void *to, size_t size);
// Reads size bytes from `at` on, and returns how many they were. If they are
// fewer errno says why; 0: the file ends.
size_t hr__read_at(int fd, void *to, size_t size, uint64_t at);
// open() of a file that may be slow (it is asked again after a signal) or a
// FIFO without a writer (which must not keep the caller); flags: O_RDONLY or
// more.
int hr__open_file(const char *path, int flags);

// The only way the library gets heap memory: counted, and failed on purpose
// by tests. dev may be NULL. Memory is 64-byte aligned, not cleared.
void *hr__alloc(struct hr__device *dev, size_t size);
// Returns the same, all zero; the memory to use is *aligned, the result is to
// be freed.
void *hr__alloc_clear(struct hr__device *dev, size_t size, void **aligned);
void hr__free(void *mem);

// Starts a thread of the library with all signals blocked. The only way: the
// HAL must know its threads (they may not take a device down), and tests fail
// them. False if the system says no.
bool hr__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

// For threads that take spare time: the thread that wakes one keeps its core,
// which the kernel would otherwise give to the woken one. (A consumer that
// submits lost a millisecond of each batch to a worker while another core was
// idle.) A policy other than the default was chosen by the program, and stays.
void hr__thread_gives_way(pthread_t thread);

// Cores that this process may use by its affinity mask and its cgroup's quota.
// At least 1.
int hr__usable_cores(void);

// The NUMA nodes with cores that the caller may run on, and which these are,
// for so many threads to stay on. num: 0 if they may be anywhere: where there
// is one node, where hwloc is not there, in a program with more rights than its
// user, and if there are more cores than threads, for other processes may have
// the others, and all would have the same.
enum { HR__MAX_NODES = 64 };
struct hr__nodes {
    int num;
    cpu_set_t cpus[HR__MAX_NODES];
};
void hr__nodes_find(struct hr__nodes *out, int threads);
// Returns the cores for thread i, of num > 0: each node gets threads by its
// number of cores, also among the first few.
const cpu_set_t *hr__nodes_cpus(const struct hr__nodes *nodes, int i);

// *out = a * b; false if it does not fit.
static inline bool hr__mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
