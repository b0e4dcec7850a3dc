# SPDX-License-Identifier: Apache-2.0
"""The C API for the scripts of tests/, by way of bench_shim.c.

    lib = Shim("build")
    dev = lib.open(threads=1)
    pixels = dev.make(jpeg_bytes, [decode(), resize(224, 224)])

Not the Python package of the project: no asynchrony, no images, no speed of
its own. What is timed runs inside the shim.
"""
import collections
import ctypes as C
import os
import sys

import numpy as np

import made

FILTERS = ("bilinear", "nearest", "box", "hamming", "bicubic", "lanczos")
DTYPES = {"f32": (0, np.float32), "f16": (1, np.float16), "u8": (2, np.uint8)}
ORDERS = ("reference", "horizontal", "vertical")
LAYOUTS = {"nchw": 0, "nhwc": 1}
MEMORY = {"host": 0, "pinned": 1, "device": 2}
LEVELS = {"c": 1, "avx2": 3, "avx512": 7}  # as cpu_mask
STATUS = {0: "OK", -1: "EINVAL", -2: "ECORRUPT", -3: "ETRUNCATED",
          -4: "EUNSUPPORTED", -5: "ELIMIT", -6: "ENOMEM", -7: "EAGAIN",
          -8: "ETIMEDOUT", -9: "ECANCELED", -10: "EIO", -11: "EDEVICE",
          -12: "ENODEVICE", -13: "EFORK", -14: "EINPUT", -15: "EFORMAT"}


# hr_resize_fn
RESIZE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(C.c_uint8), C.c_int,
                     C.c_int, C.c_int, C.POINTER(C.c_uint8), C.c_int, C.c_int)


class HrError(Exception):
    """A status other than OK; .status is its name."""

    def __init__(self, status, text=""):
        self.status = STATUS.get(status, str(status))
        super().__init__(f"HR_{self.status}: {text}")


# ---- ops: (name of the shim function, arguments) ---------------------------

def decode(gray=False, exif=False):
    return "decode", (gray, exif)


def crop(x, y, w, h, pad=False):
    return "crop", (x, y, w, h, False, pad)


def center_crop(w, h, pad=False):
    return "crop", (0, 0, w, h, True, pad)


def resize(w, h, filter="bilinear", box=None, order="reference"):
    return "resize", (w, h, 0, FILTERS.index(filter), box,
                      ORDERS.index(order))


def resize_short(side, filter="bilinear", order="reference"):
    return "resize", (0, 0, side, FILTERS.index(filter), None,
                      ORDERS.index(order))


def fit(w, h, filter="bilinear", enlarge=False):
    return "fit", (w, h, FILTERS.index(filter), enlarge)


def flip(horizontal=False, vertical=False, transpose=False):
    return "flip", (horizontal, vertical, transpose)


def normalize(mean=None, std=None, mul=False, table=None):
    """table: float32 array of 3 x 256 (1 x 256 for grey), kept alive here."""
    return "normalize", (mean, std, mul, table)


class Planes:
    """A u8 source C x H x W instead of H x W x C; planes may be apart."""

    def __init__(self, array):
        self.array = array


class Made(C.Structure):
    """Who made a sample, and why not the engine that was asked for."""
    _fields_ = [("why", C.c_uint32), ("stages", C.c_int32),
                ("fallbacks", C.c_int32)]


class Source(C.Structure):
    _fields_ = [("data", C.c_void_p), ("size", C.c_size_t),
                ("image", C.c_void_p), ("ops", C.c_void_p),
                ("num_ops", C.c_int64), ("verified", C.c_int64),
                ("path", C.c_char_p)]


class Packed:
    """A picture of a pack file, which is borrowed; see Shim.pack_file()."""

    def __init__(self, source, file):
        self.data, self.size = source.data, source.size
        self.verified, self.file = source.verified, file


class PackFile:
    """A pack file that is open for as long as this lives."""

    def __init__(self, lib, path):
        self.lib = lib
        self.handle = lib.shim_pack_open(os.fsencode(path))

    def __del__(self):
        self.lib.shim_pack_close(self.handle)


# Of shim_stages(): those of a file, those of a packed picture, and packing.
STAGES = ("entropy", "reconstruct", "color", "unpack", "unpack_reconstruct",
          "unpack_color", "pack")


class Stages(C.Structure):
    """Ticks of each stage of all files that were taken; their blocks and
    bytes."""
    _fields_ = [("ticks", C.c_double * len(STAGES)),
                ("ticks_per_ns", C.c_double), ("blocks", C.c_double),
                ("bytes", C.c_double), ("packed_bytes", C.c_double),
                ("files", C.c_int64)]


def output_channels(source, ops):
    if isinstance(source, bytes):
        return 1 if ops[0][1][0] else 3
    if isinstance(source, Planes):
        return source.array.shape[0]
    return 1 if source.ndim == 2 else source.shape[2]


class Ops:
    """An op list in C's layout, and the memory it points to."""

    def __init__(self, lib, ops):
        self.num = len(ops)
        step = lib.shim_op_size()
        self.buf = C.create_string_buffer(max(1, step * self.num))
        self.address = C.addressof(self.buf)
        self.keep = []
        for i, (name, args) in enumerate(ops):
            at = C.c_void_p(self.address + i * step)
            if name == "resize":
                args = args[:4] + (self.floats(args[4]), args[5])
            elif name == "normalize":
                args = (self.floats(args[0]), self.floats(args[1]), args[2],
                        self.floats(args[3]))
            getattr(lib, "shim_op_" + name)(at, *args)

    def floats(self, values):
        if values is None:
            return None
        array = np.ascontiguousarray(values, dtype=np.float32)
        self.keep.append(array)
        return C.c_void_p(array.ctypes.data)


class Shim:
    def __init__(self, build, reference="pillow-12"):
        """reference: of this process; Debian's Pillow is a pillow-12."""
        path = os.path.join(build, "tests", "libbench_shim.so")
        if not os.path.exists(path):
            sys.exit(f"{path} is missing: build the target bench_shim")
        self.path = path
        self.lib = lib = C.CDLL(path)
        p, i, z = C.c_void_p, C.c_int, C.c_size_t
        for name, result, args in (
                ("shim_malloc_calls", C.c_ulonglong, []),
                ("shim_op_size", z, []),
                ("shim_op_decode", None, [p, i, i]),
                ("shim_op_crop", None, [p] + [i] * 6),
                ("shim_op_resize", None, [p, i, i, i, i, p, i]),
                ("shim_op_fit", None, [p, i, i, i, i]),
                ("shim_op_flip", None, [p, i, i, i]),
                ("shim_op_normalize", None, [p, p, p, i, p]),
                ("shim_cpu_sets", C.c_uint, []),
                ("shim_open", p, [C.c_char_p, i, C.c_uint, z, i, z]),
                ("shim_name", C.c_char_p, [p]),
                ("shim_why_text", C.c_char_p, [C.c_uint]),
                ("shim_description", C.c_char_p, [p]),
                ("shim_heap_allocations", C.c_uint64, [p]),
                ("shim_image", p, [p, p, i, i, i, i, z, z]),
                ("shim_image_release", None, [p]),
                ("shim_batch", p, [p, p] + [i] * 6 + [z] * 3),
                ("shim_batch_in", p, [p] + [i] * 7),
                ("shim_batch_destroy", None, [p]),
                ("shim_probe", i, [p, z, p, i, p]),
                ("shim_pack_open", p, [C.c_char_p]),
                ("shim_pack_close", None, [p]),
                ("shim_pack_source", i, [p, z, i, p]),
                ("shim_stages", None, [p, i, C.c_uint, p, p]),
                ("shim_stages_peer", i, [p, i, p]),
                ("shim_set_create", p, [p, p, i, p]),
                ("shim_set_free", None, [p]),
                ("shim_set_run", i, [p, p, p, p]),
                ("shim_set_time", i, [p, i, p, p]),
                ("shim_set_mallocs", C.c_int64, [p, i]),
                ("shim_stream", i, [p, i, i, p]),
                ("shim_opencl_counts", i, [p, p, p]),
                ("shim_probe_ns", C.c_double, [p, i, i]),
                ("shim_open_ns", C.c_double, [C.c_char_p, i]),
                ("hr_last_status", i, []),
                ("hr_last_error", C.c_char_p, []),
                ("hr_version", C.c_char_p, []),
                ("hr_reference_find", i, [C.c_char_p]),
                ("hr_set_reference", i, [i]),
                ("hr_reference_name", C.c_char_p, [i]),
                ("hr_reference_probe", i, [RESIZE, p, C.POINTER(i)]),
                ("hr_device_close", None, [p])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, args
        self.set_reference(reference)

    def set_reference(self, name):
        self.lib.hr_set_reference(self.lib.hr_reference_find(name.encode()))

    def probe_reference(self, resize):
        """Name of the reference that a resize follows: resize(u8 array
        H x W x 3, filter, w, h) gives such an array."""
        def call(_, pixels, width, height, filter, out, w, h):
            try:
                source = np.ctypeslib.as_array(pixels, (height, width, 3))
                made = resize(source.copy(), FILTERS[filter], w, h)
                np.ctypeslib.as_array(out, (h, w, 3))[...] = made
            except Exception as e:
                print("resize:", e, file=sys.stderr)
                return 1
            return 0
        found = C.c_int()
        if self.lib.hr_reference_probe(RESIZE(call), None, C.byref(found)):
            raise self.error()
        return self.lib.hr_reference_name(found).decode()

    def levels(self):
        """Names of the instruction sets this machine has, C first."""
        have = self.lib.shim_cpu_sets()
        return [n for n, mask in LEVELS.items() if mask & ~have == 0]

    def error(self):
        return HrError(self.lib.hr_last_status(),
                       self.lib.hr_last_error().decode(errors="replace"))

    def open(self, name="cpu", threads=1, level=None, budget=0, strict=None,
             cache=0):
        """cache: bytes of one of its own. strict: nothing may fall back; by
        default on the CPU only."""
        if strict is None:
            strict = name == "cpu"
        return Device(self, name, threads, LEVELS[level] if level else 0,
                      budget, strict, cache)

    def pack_file(self, path, n, check):
        """Its first n pictures as sources. check: they are checked now, as
        readers check what they use again; else each job checks its own."""
        file, found = PackFile(self.lib, path), []
        if not file.handle:
            raise self.error()
        for i in range(n):
            source = Source()
            status = self.lib.shim_pack_source(file.handle, i, check,
                                               C.byref(source))
            if status:
                raise HrError(status, self.lib.hr_last_error().decode())
            found.append(Packed(source, file))
        return found

    def sources(self, files):
        """Encoded files for the functions that want no set."""
        array = (Source * len(files))()
        for at, data in zip(array, files):
            at.data = C.cast(C.c_char_p(data), C.c_void_p).value
            at.size = len(data)
        return array

    def stages(self, files, level=None):
        """(Stages of the files that our own decoder takes, which these are)."""
        out, taken = Stages(), (C.c_uint8 * len(files))()
        self.lib.shim_stages(self.sources(files), len(files),
                             LEVELS[level] if level else 0, taken,
                             C.byref(out))
        return out, [bool(t) for t in taken]

    def stages_peer(self, files):
        """Nanoseconds that libjpeg-turbo takes for the coefficients, the
        samples and the pixels of all files."""
        ns = (C.c_double * 3)()
        if self.lib.shim_stages_peer(self.sources(files), len(files), ns):
            raise HrError(-2, "libjpeg-turbo does not decode a file")
        return list(ns)

    def reasons(self, why):
        """Words for each bit of a result's why."""
        bits = [1 << b for b in range(32) if why >> b & 1]
        return [self.lib.shim_why_text(bit).decode() for bit in bits]

    def probe(self, data, ops):
        """(w, h) that ops make of encoded bytes; source w, h, orientation."""
        out = (C.c_int32 * 5)()
        o = Ops(self.lib, ops)
        status = self.lib.shim_probe(data, len(data), o.address, o.num, out)
        if status:
            raise self.error()
        return (out[0], out[1]), (out[2], out[3], out[4])


def strides_of(array, layout):
    """stride_n, stride_c, stride_h of an N x C x H x W or N x H x W x C
    array, as the batch wants them."""
    s = array.strides
    return (s[0], s[1], s[2]) if layout == "nchw" else (s[0], 0, s[1])


class Device:
    def __init__(self, shim, name, threads, mask, budget, strict, cache):
        self.shim, self.lib = shim, shim.lib
        # Of what run() has made; see made.py.
        self.made = made.Count()
        self.handle = self.lib.shim_open(name.encode(), threads, mask, budget,
                                         strict, cache)
        if not self.handle:
            raise shim.error()

    def close(self):
        handle = C.c_void_p(self.handle)
        self.lib.hr_device_close(C.byref(handle))
        self.handle = None

    def name(self):
        return self.lib.shim_name(self.handle).decode()

    def description(self):
        return self.lib.shim_description(self.handle).decode()

    def heap_allocations(self):
        return self.lib.shim_heap_allocations(self.handle)

    def opencl_counts(self):
        """(batches, launches) so far of an OpenCL device."""
        counts = (C.c_uint64 * 2)()
        self.lib.shim_opencl_counts(self.handle, C.byref(counts),
                                    C.byref(counts, 8))
        return counts[0], counts[1]

    def note(self, results, encoded):
        for result, is_encoded in zip(results, encoded):
            self.made.add(result.stages, self.shim.reasons(result.why),
                          result.fallbacks, is_encoded)

    def make(self, source, ops, dtype="u8", layout="nhwc", out=None,
             size=None):
        """One picture as an array: H x W x C or C x H x W. source: encoded
        bytes, a u8 array H x W x C or H x W, or Planes. size: (w, h) of the
        result, needed unless the source is bytes. out: an array of any
        strides instead of a new one."""
        encoded = isinstance(source, bytes)
        if size is None and encoded:
            size = self.shim.probe(source, ops)[0]
        w, h = size
        if out is None:
            c = output_channels(source, ops)
            shape = (c, h, w) if layout == "nchw" else (h, w, c)
            out = np.empty(shape, DTYPES[dtype][1])
        job = Set(self, [(source, ops)], out[None], layout)
        job.run()
        return out


def stream(sets, depth):
    """Runs sets with that many jobs in flight; the nanoseconds that were
    spent in hr_submit()."""
    array = (C.c_void_p * len(sets))(*(s.set for s in sets))
    submit = C.c_double()
    status = sets[0].lib.shim_stream(array, len(sets), depth,
                                     C.byref(submit))
    if status:
        raise HrError(status, sets[0].lib.hr_last_error().decode())
    return submit.value


class Set:
    """A prepared job: [(source, ops)] into out, N x ... of any strides.
    memory: a batch of the library's instead, like out, which is not used."""

    def __init__(self, dev, samples, out, layout, memory=None):
        self.dev, self.lib, self.n = dev, dev.lib, len(samples)
        self.out, self.images, self.keep = out, [], []
        self.batch = self.set = None
        ops_of = {}
        array = (Source * self.n)()
        for at, (source, ops) in zip(array, samples):
            if id(ops) not in ops_of:
                ops_of[id(ops)] = Ops(self.lib, ops)
            at.ops, at.num_ops = ops_of[id(ops)].address, ops_of[id(ops)].num
            self.keep.append((source, ops))
            if isinstance(source, Packed):
                at.data, at.size = source.data, source.size
                at.verified = source.verified
            elif isinstance(source, str):  # a path
                at.path = os.fsencode(source)
            elif isinstance(source, bytes):
                at.data = C.cast(C.c_char_p(source), C.c_void_p).value
                at.size = len(source)
            else:
                at.image = self.image(source)
        self.keep.append(ops_of)
        self.encoded = [isinstance(s, (bytes, str, Packed)) for s, _ in samples]
        dtype = [i for i, t in DTYPES.values() if t == out.dtype][0]
        shape = (out.shape[1:] if layout == "nchw" else
                 (out.shape[3],) + out.shape[1:3])
        if memory:
            self.batch = self.lib.shim_batch_in(
                dev.handle, out.shape[0], *shape, dtype, LAYOUTS[layout],
                MEMORY[memory])
        else:
            self.batch = self.lib.shim_batch(
                dev.handle, out.ctypes.data, out.shape[0], *shape, dtype,
                LAYOUTS[layout], *strides_of(out, layout))
        if not self.batch:
            raise dev.shim.error()
        self.array = array
        self.set = self.lib.shim_set_create(dev.handle, array, self.n,
                                            self.batch)

    def image(self, source):
        if isinstance(source, Planes):
            pixels, layout = source.array, "nchw"
            c, h, w = pixels.shape
            strides = pixels.strides[0], pixels.strides[1]
        else:
            pixels, layout = source, "nhwc"
            h, w = pixels.shape[:2]
            c = 1 if pixels.ndim == 2 else pixels.shape[2]
            strides = 0, pixels.strides[0]
        handle = self.lib.shim_image(self.dev.handle, pixels.ctypes.data, w,
                                     h, c, LAYOUTS[layout], *strides)
        if not handle:
            raise self.dev.shim.error()
        self.images.append(handle)
        return handle

    def run(self):
        statuses = (C.c_int32 * self.n)()
        messages = C.create_string_buffer(384 * self.n)
        results = (Made * self.n)()
        status = self.lib.shim_set_run(self.set, statuses, messages, results)
        self.dev.note(results, self.encoded)
        if status:
            for i, s in enumerate(statuses):
                if s:
                    text = messages.raw[384 * i:384 * (i + 1)].split(b"\0")[0]
                    raise HrError(s, text.decode(errors="replace"))
            raise HrError(status)

    def time(self, rounds=1, submit=False):
        """Nanoseconds of each run, or of its hr_submit() alone."""
        times = np.zeros(rounds)
        at = C.c_void_p(times.ctypes.data)
        status = self.lib.shim_set_time(self.set, rounds,
                                        None if submit else at,
                                        at if submit else None)
        if status:
            raise HrError(status, self.lib.hr_last_error().decode())
        return times

    def mallocs(self, rounds=1):
        """Calls of malloc and the like during the runs; see bench_shim.c."""
        return self.lib.shim_set_mallocs(self.set, rounds)

    def probe_ns(self, rounds=1):
        return self.lib.shim_probe_ns(self.array, self.n, rounds)

    def close(self):
        if self.set:
            self.lib.shim_set_free(self.set)
        if self.batch:
            self.lib.shim_batch_destroy(self.batch)
        for image in self.images:
            self.lib.shim_image_release(image)
        self.set = self.batch = None
        self.images = []

    __del__ = close
