# SPDX-License-Identifier: Apache-2.0
"""The cases of compare.py: op lists, and the pictures that Pillow and NumPy make
of them."""
import io

import numpy as np
from PIL import Image, ImageOps

from headrace import _core, _oracle, ops
from headrace.ops import (center_crop, crop, decode, fit, normalize, resize,
                          resize_short)

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
LARGE = 6_000_000  # pixels; above, only decode and one window are compared
EXIF = decode(apply_orientation=True)
FILTERS = ("bilinear", "nearest", "box", "hamming", "bicubic", "lanczos")
# Ops without parameters; they may stand anywhere.
VALUES = [(number,) for number, random, fields in _core.OPS.values()
          if not random and not fields]
DTYPES = {"f32": np.float32, "f16": np.float16, "u8": np.uint8}


# ---- a comparison ----------------------------------------------------------

class Case:
    """A source with ops, and the expected picture, as headrace.validate.ours
    takes it. source: bytes, or a u8 array H x W x C, or Planes."""

    def __init__(self, check, source, ops, want, dtype="u8", layout="nhwc"):
        self.check, self.source, self.ops = check, source, tuple(ops)
        self.want, self.dtype, self.layout = want, dtype, layout
        shape = want.shape if layout == "nchw" else np.roll(want.shape, 1)
        self.channels, h, w = map(int, shape)
        self.size = (w, h)

    def on(self, dev):
        """For a job on that device."""
        self.sample = source_of(self.source, dev), self.ops
        return self


class Planes:
    """Pixels C x H x W instead of H x W x C; planes may be apart."""

    def __init__(self, array):
        self.array = array


def source_of(source, dev):
    if isinstance(source, bytes):
        return source
    if isinstance(source, Planes):
        c, h, w = source.array.shape
        return _core.Pixels(w, h, c, "u8", "nchw", source.array, dev)
    h, w, c = source.shape
    return _core.Pixels(w, h, c, "u8", "nhwc", source, dev)


def flip(horizontal=False, vertical=False, transpose=False):
    return ops.flip(horizontal=horizontal, vertical=vertical,
                    transpose=transpose)


def gray(exif=False):
    return decode("L", apply_orientation=exif)


def hwc(image):
    a = np.asarray(image)
    return a[:, :, None] if a.ndim == 2 else a


def as_type(tensor, dtype, layout):
    """float32 C x H x W in another type and order of axes."""
    if dtype == "f16":
        tensor = tensor.astype(np.float16)
    elif dtype == "u8":
        tensor = np.clip(np.rint(tensor), 0, 255).astype(np.uint8)
    return tensor if layout == "nchw" else tensor.transpose(1, 2, 0)


# ---- random choices --------------------------------------------------------

def pick_size(rng, w, h):
    """A target for resize: mostly down, also up, one pixel, one axis."""
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice([(1, 1), (1, min(h, 90)), (min(w, 90), 1)])
    if kind == 1:
        return w, rng.randint(1, max(2, h))
    if kind == 2:
        return rng.randint(1, max(2, w)), h
    if kind <= 4:
        scale = rng.uniform(1.0, 2.2)
    else:
        scale = rng.uniform(0.05, 1.0)
    rw = max(1, round(w * scale))
    rh = max(1, round(h * scale * rng.uniform(0.6, 1.6)))
    return min(rw, 1400), min(rh, 1400)


def pick_box(rng, w, h):
    """A float box inside w x h, as resize(box=...) takes it."""
    def span(n):
        a, b = sorted(rng.uniform(0, n) for _ in range(2))
        if rng.random() < 0.3:
            a = float(int(a))
        if rng.random() < 0.3:
            a, b = 0.0, float(n)
        a, b = float(np.float32(a)), float(np.float32(b))
        return (a, b) if b - a > 0.01 else (0.0, float(n))
    x0, x1 = span(w)
    y0, y1 = span(h)
    return x0, y0, x1, y1


def pick_crop(rng, w, h, pad):
    if pad:
        cw = rng.randint(1, w + w // 2 + 2)
        ch = rng.randint(1, h + h // 2 + 2)
        return crop(rng.randint(-(cw // 2), max(0, w - 1)),
                    rng.randint(-(ch // 2), max(0, h - 1)), cw, ch, pad=True)
    cw, ch = rng.randint(1, w), rng.randint(1, h)
    return crop(rng.randint(0, w - cw), rng.randint(0, h - ch), cw, ch)


def pick_norm(rng):
    if rng.random() < 0.3:
        return IMAGENET
    return ([rng.uniform(-1, 1) for _ in range(3)],
            [rng.uniform(0.05, 2) for _ in range(3)])


def pick_fit(rng, most, larger):
    return fit(rng.randint(1, most), rng.randint(1, most),
               filter=rng.choice(FILTERS), enlarge=rng.random() < larger)


def pick_step(rng, w, h):
    kind = rng.randrange(8)
    if kind <= 2:
        rw, rh = pick_size(rng, w, h)
        box = pick_box(rng, w, h) if rng.random() < 0.3 else None
        return resize(min(rw, 500), min(rh, 500), filter=rng.choice(FILTERS),
                      box=box)
    if kind == 3 and rng.random() < 0.3:
        return pick_fit(rng, 200, 0.5)
    if kind == 3:
        return resize_short(rng.randint(1, 150), filter=rng.choice(
            ("bilinear", "nearest", "bicubic", "lanczos", "box")))
    if kind <= 5:
        return pick_crop(rng, w, h, rng.random() < 0.3)
    return flip(*(rng.random() < 0.5 for _ in range(3)))


# ---- the checks: each yields cases of one file -----------------------------

class Picture:
    """A file and what Pillow reads in it."""

    def __init__(self, name, group, data):
        self.name, self.group, self.data = name, group, data
        self.exif = ImageOps.exif_transpose(self.open())
        self.orientation = self.open().getexif().get(0x0112, 1)
        opened = self.open()
        self.rgb, self.gray = (_oracle.apply(opened, [decode(mode)])
                               for mode in ("RGB", "L"))
        self.size = self.rgb.size
        self.large = self.size[0] * self.size[1] > LARGE

    def open(self):
        return Image.open(io.BytesIO(self.data),
                          formats=("JPEG", "PNG", "WEBP", "BMP",
                                   "PPM"))

    def of(self, rng):
        """(source, head of the op list, picture) for checks of what follows:
        the file in colour or grey, or its pixels."""
        kind = rng.randrange(6)
        if kind == 0:
            return self.data, [gray()], self.gray
        if kind == 1:
            im = rng.choice((self.rgb, self.gray))
            return as_source(rng, hwc(im)), [], im
        if kind == 2:
            return self.data, [EXIF], self.exif.convert("RGB")
        return self.data, [decode()], self.rgb


def as_source(rng, pixels):
    """The same pixels packed, with room behind the rows, or as planes."""
    h, w, c = pixels.shape
    kind = rng.randrange(3)
    if kind == 0:
        return np.array(pixels)
    if kind == 1:
        wide = np.full((h, w + rng.randint(1, 9), c), 0xA5, np.uint8)
        wide[:, :w] = pixels
        return wide[:, :w]
    room = rng.randint(0, 5)
    planes = np.full((c, h + room, w + room), 0xA5, np.uint8)
    planes[:, :h, :w] = pixels.transpose(2, 0, 1)
    return Planes(planes[:, :h, :w])


def decode_cases(p, rng, long):
    yield Case("decode rgb", p.data, [decode()], hwc(p.rgb))
    if p.large and not long:
        return
    yield Case("decode grey", p.data, [gray()], hwc(p.gray))
    if p.group != "photos" or p.orientation != 1 or long:
        for op in EXIF, gray(exif=True):
            yield Case("decode exif", p.data, [op],
                       hwc(_oracle.apply(p.open(), [op])))


def resize_cases(p, rng, long):
    filters = FILTERS if long else rng.sample(FILTERS, 2)
    for filter in filters:
        for _ in range(3 if long else 1):
            source, head, im = p.of(rng)
            w, h = pick_size(rng, *im.size)
            box = pick_box(rng, *im.size) if rng.random() < 0.4 else None
            op = resize(w, h, filter=filter, box=box)
            yield Case("resize " + filter, source, head + [op],
                       hwc(_oracle.apply(im, [op])))


def fit_cases(p, rng, long):
    for _ in range(6 if long else 1):
        source, head, im = p.of(rng)
        op = pick_fit(rng, 300, 0.4)
        try:
            want = _oracle.apply(im, [op])
        except ValueError:  # contain() makes an empty picture
            continue
        yield Case("fit", source, head + [op], hwc(want))


def train_cases(p, rng, long):
    for _ in range(4 if long else 1):
        source, head, im = p.of(rng)
        w, h = im.size
        cw = max(1, round(w * rng.uniform(0.28, 1)))
        ch = max(1, round(h * rng.uniform(0.28, 1)))
        x, y = rng.randint(0, w - cw), rng.randint(0, h - ch)
        side = rng.choice([[224, 224], [224, 224], [64, 96], [33, 17]])
        filter = rng.choice(["bilinear"] * 2 + list(FILTERS))
        turn = [rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.2]
        mean, std = pick_norm(rng)
        steps = [crop(x, y, cw, ch), resize(side[1], side[0], filter=filter),
                 flip(*turn)]
        yield from store_cases(source, head + steps, _oracle.apply(im, steps),
                               mean, std, rng, long)


def store_cases(source, steps, im, mean, std, rng, long):
    """The float32 tensor of torchvision's v1 or v2, and one (or all) of the
    other stores of the same picture."""
    numbers = normalize(mean, std, arithmetic=rng.choice(("div", "mul")))
    yield Case("train", source, steps + [numbers],
               _oracle.apply(im, [numbers]), "f32", "nchw")
    values = np.array([[rng.uniform(-300, 300) for _ in range(256)]
                       for _ in range(len(im.getbands()))], np.float32)
    stores = [
        ("store f16", normalize(mean, std), "f16"),
        ("store divided", normalize(mean, std), "f32"),
        ("store multiplied", normalize(mean, std, arithmetic="mul"), "f32"),
        ("store ToTensor", normalize(), "f32"),
        ("store bytes", None, rng.choice(["f32", "f16", "u8"])),
        ("store table", ops.table(values), rng.choice(["f32", "f16", "u8"])),
    ]
    for name, last, dtype in stores if long else [rng.choice(stores)]:
        layout = rng.choice(["nchw", "nhwc"])
        tensor = (_oracle.apply(im, [last]) if last else
                  hwc(im).transpose(2, 0, 1).astype(np.float32))
        yield Case(name, source, steps + [last] * bool(last),
                   as_type(tensor, dtype, layout), dtype, layout)


def eval_cases(p, rng, long):
    for resized, side in ([(256, 224)] + ([(232, 224), (64, 96), (96, 33)]
                                          if long else [])):
        yield eval_case(p, rng, "eval", resized, [side, side], *IMAGENET)
    # A picture smaller than the crop is padded.
    if long or rng.random() < 0.5:
        side = [rng.randint(30, 120), rng.randint(30, 120)]
        yield eval_case(p, rng, "eval padded", rng.randint(10, 60), side,
                        *pick_norm(rng))


def eval_case(p, rng, check, resized, side, mean, std):
    source, head, im = ((p.data, [decode()], p.rgb) if check == "eval"
                        else p.of(rng))
    if max(im.size) / min(im.size) > 40:  # no need for 65535 pixels wide
        resized = min(resized, 16)
    steps = [resize_short(resized), center_crop(side[1], side[0], pad=True),
             normalize(mean, std, arithmetic=rng.choice(("div", "mul")))]
    return Case(check, source, head + steps, _oracle.apply(im, steps), "f32",
                "nchw")


def chain_cases(p, rng, long):
    """Lists that need several resample steps, named ones and random ones."""
    source, head, im = p.of(rng)
    w, h = im.size
    named = [
        [resize(150, 110, filter="bicubic"), crop(11, 7, 101, 83),
         resize(64, 48, filter="lanczos")],
        [flip(True), resize(max(1, w // 3), max(1, h // 2), filter="box")],
        [flip(False, False, True), resize(90, 70)],
        [crop(-7, -5, w + 9, h + 3, pad=True),
         resize(80, 77, filter="hamming")],
        [resize(50, 60), flip(True, False, True),
         resize(70, 20, filter="nearest")],
    ]
    lists = named if long else [rng.choice(named)]
    for steps in lists:
        yield chain_case(source, head, im, steps)
    for _ in range(6 if long else 1):
        source, head, im = p.of(rng)
        steps, now = [], im
        for _ in range(rng.randint(2, 7)):
            op = pick_step(rng, *now.size)
            try:
                after = _oracle.apply(now, [op])
            except ValueError:  # an empty picture
                break
            if after.size[0] * after.size[1] > 700_000:
                break
            now = after
            steps.append(op)
        yield chain_case(source, head, im, steps)
        # Ops that only change values, and geometry behind them.
        for op in VALUES:
            yield chain_case(source, head, im, [
                *steps, op, pick_crop(rng, *now.size, False), flip(True)])


def chain_case(source, head, im, steps):
    return Case("op chain", source, head + steps,
                hwc(_oracle.apply(im, steps)))


def exif_cases(p, rng, long):
    """Orientation, then geometry: Pillow turns first, then resizes."""
    if p.orientation not in range(2, 9):
        return
    im = p.exif.convert("RGB")
    for filter in FILTERS if long else ["bilinear", "box"]:
        yield chain_case(p.data, [EXIF], im, [resize(61, 83, filter=filter)])
    yield chain_case(p.data, [EXIF], im, [
        pick_crop(rng, *im.size, False), resize(40, 30), flip(True)])


def of_file(p, rng, long):
    yield from decode_cases(p, rng, long)
    if p.group == "bad" and not long:
        return
    yield from train_cases(p, rng, False if p.large else long)
    if p.large and not long:
        return
    for cases in (resize_cases, fit_cases, eval_cases, chain_cases, exif_cases):
        yield from cases(p, rng, long)
