// SPDX-License-Identifier: Apache-2.0
// Arguments of calls: devices, caches, pack files, paths, sources.
#ifndef HR_PY_INPUTS_H
#define HR_PY_INPUTS_H

#include "core.h"

// ---- device -----------------------------------------------------------------

// Takes None (NULL: the default device, or that of a batch), a name, or a
// Device. *out is a reference, for hr_device_close() without the GIL, or for
// device_leave(). False with an exception.
bool device_find(struct core *core, PyObject *device, hr_device *out);
void device_leave(hr_device device);
PyObject *device_list(PyObject *module, PyObject *none);
PyObject *device_set_default(PyObject *module, PyObject *name);
PyObject *device_get_default(PyObject *module, PyObject *none);

// ---- cache ------------------------------------------------------------------

bool cache_add_stats(PyObject *module, struct core *core);
// Takes None (NULL), or a Cache, which owns *out. False with an exception.
bool cache_find(struct core *core, PyObject *cache, hr_cache *out);
PyObject *cache_set(PyObject *module, PyObject *value);
PyObject *cache_get(PyObject *module, PyObject *none);
PyObject *cache_pack(PyObject *module, PyObject *source);

// ---- pack -------------------------------------------------------------------

// A PackEntry's picture as the source of a sample, perhaps not checked yet.
// False with an exception.
bool entry_sample(struct core *core, PyObject *self, struct hr_sample *sample);
// A sample as entry_sample() left it was made.
void entry_passed(PyObject *self);
// Path of the pack file, /, and name: a new reference, or an exception.
PyObject *entry_place(PyObject *self);
// (name, label, bytes of its file) that a pack file would say of sample i.
PyObject *pack_writer_entry_of(struct core *core, hr_source source, uint64_t i);

// ---- probe ------------------------------------------------------------------

PyObject *probe(PyObject *module, PyObject *source);
PyObject *probe_end_marker(PyObject *module, PyObject *args);
bool probe_add_constants(PyObject *module);
// A path as a new reference to bytes, or to a str whose UTF-8 is the path;
// *out points into it. NULL with an exception.
PyObject *path_of(struct core *core, PyObject *source, const char **out);

// ---- file -------------------------------------------------------------------

PyObject *file_read(PyObject *module, PyObject *source);
PyObject *file_share(PyObject *module, PyObject *none);
void file_forking(void);       // before a fork,
void file_forked(bool child);  // and after it
// The picture of a cache that a FileBytes has; NULL.
hr_cached file_cached(PyObject *file);
// Makes it the source of *sample.
void file_sample(PyObject *file, struct hr_sample *sample);

// ---- source -----------------------------------------------------------------

hr_source source_get(PyObject *source);
// The path of a sample that failed so, a new reference; None: it has none.
PyObject *source_file(PyObject *source, uint64_t i,
                      const struct hr_result *result);
// The class of sample i, for which the library found this one.
int64_t source_class(PyObject *source, uint64_t i, int64_t found);
// Frees what was read and is not used any more.
void source_settle(PyObject *source);
// Says whether this thread is one of a loader's, which must not end a loader.
bool source_reading(void);

#endif
