# SPDX-License-Identifier: Apache-2.0
"""What compare.py compares: op lists, and the pictures that Pillow and the
stacks of compare_stacks.py make of them."""
import io

import numpy as np
from PIL import Image, ImageOps

import compare_stacks
import hrshim
from compare_stacks import PILLOW_FILTERS, hwc
from hrshim import (center_crop, crop, decode, fit, flip, normalize, resize,
                    resize_short)

STACKS, MISSING = compare_stacks.available()
PLAIN = STACKS[0]
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
LARGE = 6_000_000  # pixels; above, only decode and one window are compared


# ---- a comparison ----------------------------------------------------------

class Case:
    """What to make and what it must be. source: bytes, u8 array, Planes."""

    def __init__(self, check, source, ops, want, dtype="u8", layout="nhwc"):
        self.check, self.source, self.ops = check, source, ops
        self.want, self.dtype, self.layout = want, dtype, layout

    def size(self):
        s = self.want.shape
        return (s[2], s[1]) if self.layout == "nchw" else (s[1], s[0])


# ---- Pillow says how it should be ------------------------------------------

def pillow_step(im, op):
    """The same op, done by Pillow."""
    name, a = op
    if name == "crop":
        return im.crop((a[0], a[1], a[0] + a[2], a[1] + a[3]))
    if name == "resize" and a[2]:
        return PLAIN.resize_short(im, a[2], hrshim.FILTERS[a[3]])
    if name == "resize":
        return im.resize((a[0], a[1]), PILLOW_FILTERS[hrshim.FILTERS[a[3]]],
                         box=a[4])
    if name == "fit" and a[3]:
        im = ImageOps.contain(im, a[:2], PILLOW_FILTERS[hrshim.FILTERS[a[2]]])
        if not im.width or not im.height:  # not refused by newer ones
            raise ValueError("an empty picture")
        return im
    if name == "fit":
        im = im.copy()
        im.thumbnail(a[:2], PILLOW_FILTERS[hrshim.FILTERS[a[2]]],
                     reducing_gap=None)
        return im
    if name == "flip":
        if a[2]:
            im = im.transpose(Image.Transpose.TRANSPOSE)
        if a[0]:
            im = im.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if a[1]:
            im = im.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        return im
    raise ValueError(name)


def as_type(tensor, dtype, layout):
    """float32 C x H x W in another type and order of axes."""
    if dtype == "f16":
        tensor = tensor.astype(np.float16)
    elif dtype == "u8":
        tensor = np.clip(np.rint(tensor), 0, 255).astype(np.uint8)
    return tensor if layout == "nchw" else tensor.transpose(1, 2, 0)


def resize_array(pixels, filter, w, h):
    """Pillow's, of u8 H x W x 3; for hr_reference_probe()."""
    return np.asarray(Image.fromarray(pixels).resize((w, h),
                                                     PILLOW_FILTERS[filter]))


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
                    rng.randint(-(ch // 2), max(0, h - 1)), cw, ch, True)
    cw, ch = rng.randint(1, w), rng.randint(1, h)
    return crop(rng.randint(0, w - cw), rng.randint(0, h - ch), cw, ch)


def pick_norm(rng):
    if rng.random() < 0.3:
        return IMAGENET
    return ([rng.uniform(-1, 1) for _ in range(3)],
            [rng.uniform(0.05, 2) for _ in range(3)])


def pick_step(rng, w, h):
    kind = rng.randrange(8)
    if kind <= 2:
        rw, rh = pick_size(rng, w, h)
        box = pick_box(rng, w, h) if rng.random() < 0.3 else None
        return resize(min(rw, 500), min(rh, 500), rng.choice(hrshim.FILTERS),
                      box)
    if kind == 3 and rng.random() < 0.3:
        return fit(rng.randint(1, 200), rng.randint(1, 200),
                   rng.choice(hrshim.FILTERS), rng.random() < 0.5)
    if kind == 3:
        return resize_short(rng.randint(1, 150), rng.choice(
            ("bilinear", "nearest", "bicubic", "lanczos", "box")))
    if kind <= 5:
        return pick_crop(rng, w, h, rng.random() < 0.3)
    return flip(*(rng.random() < 0.5 for _ in range(3)))


# ---- the checks: each yields cases of one file -----------------------------

class Picture:
    """A file and what Pillow reads in it."""

    def __init__(self, name, group, data):
        self.name, self.group, self.data = name, group, data
        opened = Image.open(io.BytesIO(data), formats=("JPEG", "PNG"))
        self.exif = ImageOps.exif_transpose(opened)
        opened = Image.open(io.BytesIO(data), formats=("JPEG", "PNG"))
        self.orientation = opened.getexif().get(0x0112, 1)
        self.rgb = opened.convert("RGB")
        self.gray = opened.convert("L")
        self.size = self.rgb.size
        self.large = self.size[0] * self.size[1] > LARGE

    def of(self, rng):
        """(source, head of the op list, picture) for checks of what follows:
        the file in colour or grey, or its pixels."""
        kind = rng.randrange(6)
        if kind == 0:
            return self.data, [decode(gray=True)], self.gray
        if kind == 1:
            im = rng.choice((self.rgb, self.gray))
            return as_source(rng, hwc(im)), [], im
        if kind == 2:
            return (self.data, [decode(exif=True)],
                    self.exif.convert("RGB"))
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
    return hrshim.Planes(planes[:, :h, :w])


def decode_cases(p, rng, long):
    yield Case("decode rgb", p.data, [decode()], hwc(p.rgb))
    if p.large and not long:
        return
    yield Case("decode grey", p.data, [decode(gray=True)], hwc(p.gray))
    if p.group != "photos" or p.orientation != 1 or long:
        turned = p.exif
        yield Case("decode exif", p.data, [decode(exif=True)],
                   hwc(turned.convert("RGB")))
        yield Case("decode exif", p.data, [decode(gray=True, exif=True)],
                   hwc(turned.convert("L")))


def resize_cases(p, rng, long):
    filters = hrshim.FILTERS if long else rng.sample(hrshim.FILTERS, 2)
    for filter in filters:
        for _ in range(3 if long else 1):
            source, head, im = p.of(rng)
            w, h = pick_size(rng, *im.size)
            box = pick_box(rng, *im.size) if rng.random() < 0.4 else None
            op = resize(w, h, filter, box)
            yield Case("resize " + filter, source, head + [op],
                       hwc(pillow_step(im, op)))


def fit_cases(p, rng, long):
    for _ in range(6 if long else 1):
        source, head, im = p.of(rng)
        op = fit(rng.randint(1, 300), rng.randint(1, 300),
                 rng.choice(hrshim.FILTERS), rng.random() < 0.4)
        try:
            want = pillow_step(im, op)
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
        filter = rng.choice(["bilinear"] * 2 + list(hrshim.FILTERS))
        turn = [rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.2]
        mean, std = pick_norm(rng)
        ops = head + [crop(x, y, cw, ch),
                      resize(side[1], side[0], filter), flip(*turn)]
        stack = pick_stack(rng)
        out = stack.resized_crop(im, x, y, cw, ch, side, filter)
        if turn[2]:
            out = out.transpose(Image.Transpose.TRANSPOSE)
        if turn[0]:
            out = stack.hflip(out)
        if turn[1]:
            out = stack.vflip(out)
        yield from store_cases(stack, source, ops, out, mean, std, rng, long)


def pick_stack(rng):
    """One of the real ones, or Plain where there is none."""
    return rng.choice(STACKS[1:] or STACKS)


def store_cases(stack, source, ops, im, mean, std, rng, long):
    """The float32 tensor as the stack makes it, and one (or all) of the
    other stores of the same picture."""
    mul = rng.random() < 0.5 if stack.mul is None else stack.mul
    yield Case("train " + stack.name, source,
               ops + [normalize(mean, std, mul)],
               stack.tensor(im, mean, std, mul), "f32", "nchw")
    f32, norm = PLAIN.tensor(im, mean, std), [normalize(mean, std)]
    table = np.array([[rng.uniform(-300, 300) for _ in range(256)]
                      for _ in range(3)], np.float32)
    c = f32.shape[0]
    looked_up = np.stack([table[i][hwc(im)[:, :, i]] for i in range(c)])
    stores = [
        ("store f16", norm, f32, "f16"),
        ("store divided", norm, f32, "f32"),
        ("store multiplied", [normalize(mean, std, mul=True)],
         PLAIN.tensor(im, mean, std, True), "f32"),
        ("store ToTensor", [normalize()], PLAIN.tensor(im), "f32"),
        ("store bytes", [], hwc(im).transpose(2, 0, 1).astype(np.float32),
         rng.choice(["f32", "f16", "u8"])),
        ("store table", [normalize(table=table)], looked_up,
         rng.choice(["f32", "f16", "u8"])),
    ]
    for name, tail, tensor, dtype in stores if long else [rng.choice(stores)]:
        layout = rng.choice(["nchw", "nhwc"])
        yield Case(name, source, ops + tail, as_type(tensor, dtype, layout),
                   dtype, layout)


def eval_cases(p, rng, long):
    for resized, side in ([(256, 224)] + ([(232, 224), (64, 96), (96, 33)]
                                          if long else [])):
        yield eval_case(p, rng, "eval", resized, [side, side], *IMAGENET)
    # What is smaller than the crop is padded.
    if long or rng.random() < 0.5:
        side = [rng.randint(30, 120), rng.randint(30, 120)]
        yield eval_case(p, rng, "eval padded", rng.randint(10, 60), side,
                        *pick_norm(rng))


def eval_case(p, rng, check, resized, side, mean, std):
    source, head, im = ((p.data, [decode()], p.rgb) if check == "eval"
                        else p.of(rng))
    if max(im.size) / min(im.size) > 40:  # no need for 65535 pixels wide
        resized = min(resized, 16)
    stack = pick_stack(rng)
    mul = rng.random() < 0.5 if stack.mul is None else stack.mul
    out = stack.center_crop(stack.resize_short(im, resized, "bilinear"), side)
    ops = head + [resize_short(resized), center_crop(side[1], side[0], True),
                  normalize(mean, std, mul)]
    return Case(f"{check} {stack.name}", source, ops,
                stack.tensor(out, mean, std, mul), "f32", "nchw")


def chain_cases(p, rng, long):
    """Lists that need several resample steps, named ones and random ones."""
    source, head, im = p.of(rng)
    w, h = im.size
    named = [
        [resize(150, 110, "bicubic"), crop(11, 7, 101, 83),
         resize(64, 48, "lanczos")],
        [flip(True), resize(max(1, w // 3), max(1, h // 2), "box")],
        [flip(False, False, True), resize(90, 70, "bilinear")],
        [crop(-7, -5, w + 9, h + 3, True), resize(80, 77, "hamming")],
        [resize(50, 60), flip(True, False, True), resize(70, 20, "nearest")],
    ]
    lists = named if long else [rng.choice(named)]
    for ops in lists:
        yield chain_case(source, head, im, ops)
    for _ in range(6 if long else 1):
        source, head, im = p.of(rng)
        ops, now = [], im
        for _ in range(rng.randint(2, 7)):
            op = pick_step(rng, *now.size)
            try:
                now = pillow_step(now, op)
            except ValueError:  # an empty picture
                break
            if now.size[0] * now.size[1] > 700_000:
                break
            ops.append(op)
        yield chain_case(source, head, im, ops)


def chain_case(source, head, im, ops):
    for op in ops:
        im = pillow_step(im, op)
    return Case("op chain", source, head + ops, hwc(im))


def exif_cases(p, rng, long):
    """Orientation, then geometry: Pillow turns first, then resizes."""
    if p.orientation not in range(2, 9):
        return
    im = p.exif.convert("RGB")
    for filter in hrshim.FILTERS if long else ["bilinear", "box"]:
        yield chain_case(p.data, [decode(exif=True)], im,
                         [resize(61, 83, filter)])
    yield chain_case(p.data, [decode(exif=True)], im, [
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
