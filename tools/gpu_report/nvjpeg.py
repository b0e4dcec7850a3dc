# SPDX-License-Identifier: Apache-2.0
"""nvJPEG beside us, by its own library: decoding of the same files to RGB in
the device's memory, in batches; nothing is resized. Its pixels differ from ours
and are not compared. Standard library only."""
import ctypes as C
import ctypes.util
import time

RGBI = 5  # NVJPEG_OUTPUT_RGBI
BACKENDS = (("default", 0), ("hardware", 3))  # nvjpegBackend_t


class Image(C.Structure):  # nvjpegImage_t
    _fields_ = [("channel", C.c_void_p * 4), ("pitch", C.c_size_t * 4)]


class NotRun(Exception):
    pass


def library(name):
    for soname in (ctypes.util.find_library(name), f"lib{name}.so",
                   f"lib{name}.so.13", f"lib{name}.so.12", f"lib{name}.so.11"):
        try:
            if soname:
                return C.CDLL(soname)
        except OSError:
            pass
    raise NotRun("no library" if name == "nvjpeg" else f"no lib{name}")


def check(code, what):
    if code:
        raise NotRun(f"{what}: {code}")


class Decoder:
    def __init__(self, backend):
        self.jpeg, self.cuda = library("nvjpeg"), library("cudart")
        self.handle, self.state = C.c_void_p(), C.c_void_p()
        check(self.jpeg.nvjpegCreateEx(backend, None, None, 0,
                                       C.byref(self.handle)), "nvjpegCreateEx")
        check(self.jpeg.nvjpegJpegStateCreate(self.handle,
                                              C.byref(self.state)),
              "nvjpegJpegStateCreate")

    def image(self, data):
        """Memory on the device for a picture."""
        n, chroma = C.c_int(), C.c_int()
        w, h = (C.c_int * 4)(), (C.c_int * 4)()
        check(self.jpeg.nvjpegGetImageInfo(
            self.handle, data, C.c_size_t(len(data)), C.byref(n),
            C.byref(chroma), w, h), "nvjpegGetImageInfo")
        memory, image = C.c_void_p(), Image()
        check(self.cuda.cudaMalloc(C.byref(memory),
                                   C.c_size_t(3 * w[0] * h[0])), "cudaMalloc")
        image.channel[0], image.pitch[0] = memory.value, 3 * w[0]
        return image

    def prepare(self, files):
        n = self.n = len(files)
        self.keep = files
        self.data = (C.c_char_p * n)(*files)
        self.sizes = (C.c_size_t * n)(*map(len, files))
        self.images = (Image * n)(*map(self.image, files))
        check(self.jpeg.nvjpegDecodeBatchedInitialize(
            self.handle, self.state, n, 1, RGBI),
              "nvjpegDecodeBatchedInitialize")

    def run(self):
        check(self.jpeg.nvjpegDecodeBatched(
            self.handle, self.state, self.data, self.sizes, self.images, None),
              "nvjpegDecodeBatched")
        check(self.cuda.cudaDeviceSynchronize(), "cudaDeviceSynchronize")

    def close(self):
        for image in self.images:
            self.cuda.cudaFree(C.c_void_p(image.channel[0]))
        self.jpeg.nvjpegJpegStateDestroy(self.state)
        self.jpeg.nvjpegDestroy(self.handle)


def measure(files, batch, backend, seconds):
    files = [files[i % len(files)] for i in range(batch)]
    decoder = Decoder(backend)
    decoder.prepare(files)
    decoder.run()
    runs, start, cpu = 0, time.monotonic(), time.process_time()
    while not runs or time.monotonic() - start < seconds:
        decoder.run()
        runs += 1
    wall, cpu = time.monotonic() - start, time.process_time() - cpu
    decoder.close()
    made = runs * batch
    return {"img_per_s": made / wall, "cpu_s_per_1000": 1000 * cpu / made,
            "file_gbps": sum(map(len, files)) * runs / wall / 1e9}


def peer(paths, batches, seconds):
    """{"rows": [..]} or {"not_run": why}."""
    rows, why = [], {}
    files = [open(p, "rb").read() for p in paths]
    for name, backend in BACKENDS:
        for batch in batches:
            try:
                rows.append({"backend": name, "batch": batch} |
                            measure(files, batch, backend, seconds))
            except NotRun as e:
                why[name] = f"nvJPEG: {e}"
    if not rows:
        return {"not_run": next(iter(why.values()))}
    return {"rows": rows, "not_run": why.get("hardware")}
