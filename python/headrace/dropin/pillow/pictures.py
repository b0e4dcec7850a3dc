# SPDX-License-Identifier: Apache-2.0
"""Pictures that record what is done to them.

Pillow's own registry of formats hands JPEG files to ``open_jpeg``. The stock
code reads the header; then the picture's class is swapped:

  HeadraceJpeg    is a JpegImageFile: what Image.open() returns
  HeadraceImage   is an Image.Image: what convert, copy, crop, resize and
                  transpose return

Both have everything a picture has but pixels. A reader of pixels goes
through the attribute ``im`` (all of Pillow does, C code included). It makes
them, and the picture becomes a plain JpegImageFile or Image.Image: from then
on it is stock Pillow in every respect. ``load()`` only lets go of the file:
it takes the path, or the bytes.

A picture that Headrace must not decode is never recorded: its class is swapped
back at the moment when Pillow would have decoded it, and the reason counted.

Threads: as Pillow: one picture belongs to one thread at a time, different
pictures to any. Pixels are set before the class, so doing it twice at once is
harmless.
"""

from __future__ import annotations

import pickle
import sys
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.JpegImagePlugin import jpeg_factory as stock_factory

from ... import _core
from ..base import fetch
from ..base.report import caller, count, total
from . import files, headers, jobs, pixels
from .asked import DECODE_OPS, FLIP_OPS, converted, resize_op
from .jobs import CROP, Recording, recorded
from .originals import is_stock

# Set by hooks.py. A picture that was recorded before stays valid after.
active = False
# Name of the reference that the installed Pillow's resize follows, or None:
# unknown, so no resize is recorded.
reference: str | None = None

# Pillow 10.1 and later keep the mode in _mode; im is a property since 11.
_MODE = "_mode" if isinstance(vars(Image.Image).get("mode"), property) else (
    "mode"
)
_CORE = "_im" if isinstance(vars(Image.Image).get("im"), property) else "im"
# Attributes of every picture, besides pixels, size, mode and info.
_PLAIN = {
    name: value
    for name, value in vars(Image.Image()).items()
    if name not in ("im", "_im", "_size", "mode", "_mode", "info")
}
_copy_info = getattr(
    Image.Image, "_copy_info", lambda image: image.info.copy()
)
_new = object.__new__
# Work on any picture, also where our class answers otherwise.
_own = vars(Image.Image)["__dict__"].__get__
_set_own = vars(Image.Image)["__dict__"].__set__
_set_class = vars(object)["__class__"].__set__
recording, record, _derive = _core.recording, _core.record, _core.derive


class _Pixels:
    """The result of load(): pixel access that decodes at its first use."""

    __slots__ = ("_picture", "found", "__weakref__")

    def __init__(self, picture: Image.Image) -> None:
        self._picture = picture
        self.found: Any = None  # set when the picture is made
        _own(picture)["_hr_pixels"] = weakref.ref(self)

    def _access(self) -> Any:
        if self.found is None:
            materialise(self._picture)
        if self.found is None:
            self.found = self._picture.load()
        return self.found

    def __getitem__(self, xy: Any) -> Any:
        return self._access()[xy]

    def __setitem__(self, xy: Any, color: Any) -> None:
        self._access()[xy] = color

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access(), name)


class _Recorder:
    """Where both classes of recorded pictures differ from Pillow."""

    # None in a file that nothing was asked of yet.
    _hr: Recording | None = None
    if TYPE_CHECKING:  # what every picture has
        _size: tuple[int, int]
        mode: str
        info: dict[Any, Any]

    def _set_class(self, kind: type) -> None:
        _make_plain(self)
        self.__class__ = kind

    __class__ = property(type, _set_class)

    @property
    def __dict__(self) -> dict[str, Any]:
        _make_plain(self)
        return _own(self)

    @__dict__.setter
    def __dict__(self, own: dict[str, Any]) -> None:
        _swap_back(self)
        _set_own(self, own)

    @property
    def im(self) -> Any:
        _make_plain(self)
        return self.im  # the stock attribute by now

    @im.setter
    def im(self, core: Any) -> None:
        # The program sets other pixels: thumbnail(), exif_transpose(in_place).
        _leave(self)
        _become_plain(self, core)

    if _CORE == "_im":

        @property
        def _im(self) -> Any:
            if _own(self).get("_hr") is not None:
                materialise(self)
            return _own(self).get("_im")

        @_im.setter
        def _im(self, core: Any) -> None:
            self.im = core

    def load(self) -> Any:
        # Pillow's own methods want the pixels next; save() wants them before
        # it opens the file, which may be the picture's own.
        asks = sys._getframe(1).f_globals.get("__name__")
        if asks == "PIL.Image" or not (
            asks == "PIL.ImageOps" or fetch.is_lazy()
        ):
            materialise(self)
        elif recording(self, asks != "PIL.ImageOps") is not None:
            return _Pixels(self)
        return self.load()  # the stock method by now

    def close(self) -> None:
        _leave(self)
        _forget(self)
        self.close()

    def __eq__(self, other: object) -> bool:
        for picture in (self, other):
            if isinstance(picture, _Recorder):
                materialise(picture)
        return self == other

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> Any:
        materialise(self)
        return self.__getstate__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Pixels, not paths: a pickle may outlive the file. Between processes of
        # one program transport() reduces pictures.
        materialise(self)
        return self.__reduce_ex__(protocol)

    def copy(self) -> Image.Image:
        hr = _recording_for(self, "copy")
        if hr is None:
            return _stock(self, "copy")
        return _derive(self, hr, hr.ops, self._size)

    def __copy__(self) -> Image.Image:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Image.Image:
        # Stock copies pixels through its state; the class stays.
        if type(self) is HeadraceImage:
            return self.copy()
        materialise(self)
        import copy

        return copy.deepcopy(self, memo)

    def convert(
        self, mode: str | None = None, *args: Any, **kwargs: Any
    ) -> Image.Image:
        hr = _recording_for(self, "convert")
        if hr is not None and not args and not kwargs:
            ops = converted(
                hr.ops, self.mode, _native(self), mode or self.mode
            )
            if ops is not None and not _is_transparent(self):
                picture = _derive(self, hr, ops, self._size)
                if _native(self) != "L" or jobs.SINGLE in hr.ops:
                    picture._hr_native = "L" if jobs.SINGLE in ops else "RGB"
                if mode == "L" and self.mode == "RGB":
                    _own(picture)["_hr_colours"] = weakref.ref(self)
                return picture
        return _stock(self, "convert", mode, *args, **kwargs)

    def crop(self, box: Any = None) -> Image.Image:
        hr = _recording_for(self, "crop")
        if hr is None or type(box) not in (tuple, list):
            return _stock(self, "crop", box)
        ops = hr.ops
        width, height = self._size
        try:
            x0, y0, x1, y1 = box
            if not type(x0) is type(y0) is type(x1) is type(y1) is int:
                x0, y0, x1, y1 = map(int, map(round, box))
        except (TypeError, ValueError, OverflowError):
            return _stock(self, "crop", box)
        w, h = x1 - x0, y1 - y0
        if w <= 0 or h <= 0 or len(ops) >= jobs.MAX_OPS:
            return _stock(self, "crop", box)
        outside = x0 < 0 or y0 < 0 or x1 > width or y1 > height
        if outside:
            if max(w, h) > 65535 or x1 <= 0 or y1 <= 0:
                return _stock(self, "crop", box)
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and w * h > limit:
            Image._decompression_bomb_check((w, h))
        ops += ((CROP, x0, y0, w, h, outside),)
        return _derive(self, hr, ops, (w, h))

    def resize(
        self,
        size: Any,
        resample: Any = None,
        box: Any = None,
        reducing_gap: Any = None,
    ) -> Image.Image:
        hr = _recording_for(self, "resize")
        if hr is not None and reducing_gap is None:
            op = resize_op(self._size, size, resample, box, reference)
            if op == ():
                return self.copy()
            if op is not None and len(hr.ops) < jobs.MAX_OPS:
                ops = hr.ops + (op,)
                return _derive(self, hr, ops, (op[1], op[2]))
        return _stock(self, "resize", size, resample, box, reducing_gap)

    def transpose(self, method: Any) -> Image.Image:
        hr = _recording_for(self, "transpose")
        flip = FLIP_OPS.get(method) if type(method) is not float else None
        if hr is None or flip is None or len(hr.ops) >= jobs.MAX_OPS:
            return _stock(self, "transpose", method)
        size = self._size
        if flip[3]:
            size = (size[1], size[0])
        return _derive(self, hr, hr.ops + (flip,), size)

    def filter(self, filter: Any) -> Image.Image:
        if is_stock("filter"):
            picture = record(self, pixels.filtered(filter))
            if picture is not None:
                return picture
        materialise(self)
        return self.filter(filter)

    def point(self, lut: Any, mode: str | None = None) -> Image.Image:
        if mode is None and is_stock("point") and recording(self) is not None:
            bands = 3 if self.mode == "RGB" else 1
            if callable(lut) and not isinstance(lut, Image.ImagePointHandler):
                lut = [lut(value) for value in range(256)] * bands
            picture = record(self, pixels.looked_up(lut, bands))
            if picture is not None:
                return picture
        materialise(self)
        return self.point(lut) if mode is None else self.point(lut, mode)

    def transform(
        self,
        size: Any,
        method: Any,
        data: Any = None,
        resample: Any = 0,
        fill: Any = 1,
        fillcolor: Any = None,
    ) -> Image.Image:
        if is_stock("transform"):
            op = pixels.transformed(
                self.mode, size, method, data, resample, fillcolor
            )
            picture = record(self, op, size)
            if picture is not None:
                return picture
        return _stock(
            self, "transform", size, method, data, resample, fill, fillcolor
        )

    def putpalette(self, *args: Any, **kwargs: Any) -> None:
        materialise(self)
        self.putpalette(*args, **kwargs)


class HeadraceJpeg(_Recorder, JpegImageFile):
    """A JPEG file that was opened and not decoded. A JpegImageFile."""

    def draft(self, mode: Any, size: Any) -> Any:
        if self._hr is None:  # else it counts as loaded: no effect
            _refuse(self, "draft")
        return JpegImageFile.draft(self, mode, size)

    def verify(self) -> None:
        if self._hr is None:
            _swap_back(self)
        JpegImageFile.verify(self)

    def load_prepare(self) -> None:
        if self._hr is None:
            _refuse(self, "decoded in pieces")
            JpegImageFile.load_prepare(self)
        else:
            materialise(self)


class HeadraceImage(_Recorder, Image.Image):
    """A picture that is still to be made. An Image.Image."""

    # Until info is first read: what it is made of, which pictures share.
    _hr_info: dict[Any, Any] | _core.FileBytes
    _hr_native: str  # if it is not RGB

    @property
    def info(self) -> dict[Any, Any]:
        own = _own(self)  # of a plain picture, if another thread was faster
        shared = own.get("_hr_info")
        if "info" not in own:
            if type(shared) is _core.FileBytes:
                own["info"] = jobs.open_stock(shared.header).info
            else:
                own["info"] = _copy_info(SimpleNamespace(info=shared))
        info: dict[Any, Any] = own["info"]
        return info

    @info.setter
    def info(self, info: dict[Any, Any]) -> None:
        _own(self)["info"] = info


for _name, _value in _PLAIN.items():
    setattr(HeadraceImage, _name, _value)
setattr(HeadraceImage, _MODE, "RGB")

RECORDERS = (HeadraceImage, HeadraceJpeg)
# In texts they are what they stand for.
_Pixels.__name__ = _Pixels.__qualname__ = "PixelAccess"
_Pixels.__module__ = "builtins"
for _kind in RECORDERS:
    _base = _kind.__bases__[1]
    _kind.__name__, _kind.__qualname__ = _base.__name__, _base.__qualname__
    _kind.__module__ = _base.__module__


# ---- what becomes of a picture --------------------------------------------


def _recording_for(picture: Any, name: str) -> Recording | None:
    """The recording of a picture whose method of this name is Pillow's."""
    return recording(picture) if is_stock(name) else None


# Recorded pictures that were made outside of a fetch and are there still.
_kept: dict[int, weakref.ref[Any]] = {}


def _keep(picture: Any) -> None:
    key = id(picture)
    _kept[key] = weakref.ref(picture, lambda _: _kept.pop(key, None))


def make_kept() -> None:
    """Before workers are forked: each would make them, in each epoch."""
    for ref in list(_kept.values()):
        materialise(ref())
    _kept.clear()


def materialise(picture: Any) -> None:
    """Makes the pixels now; the picture is plain Pillow afterwards."""
    if not isinstance(picture, _Recorder):
        return
    hr = _own(picture).get("_hr") or recording(picture)
    if hr is None:
        picture.load()
        return
    count("materialised", caller())
    image = _from_colours(picture)
    if image is None:
        try:
            image = jobs.decode(hr, picture.mode, picture._size)
        except Exception as error:
            raise fetch.late(error)
    if isinstance(picture, _Recorder):  # another thread was not faster
        _become_plain(picture, image.im)


def _from_colours(picture: Any) -> Image.Image | None:
    """Luma of a picture that still records: it will be needed as well.

    ImageEnhance asks for the mean of convert("L"), then for the colours.
    """
    parent = _own(picture).get("_hr_colours", lambda: None)()
    if not isinstance(parent, _Recorder):
        return None  # gone, or its pixels may have been changed since
    materialise(parent)
    return parent.convert("L")


def _make_plain(picture: Any) -> None:
    """The program wants to see all of it, or to change what it is."""
    if _own(picture).get("_hr") is None:
        _swap_back(picture)  # nothing was read of it
    else:
        materialise(picture)


def _leave(picture: Any) -> None:
    """Its pixels go: a PixelAccess to them stays valid."""
    pixels = _own(picture).get("_hr_pixels", lambda: None)()
    if pixels is not None:
        materialise(picture)


def _become_plain(picture: Any, core: Any) -> None:
    own = _own(picture)
    if isinstance(picture, HeadraceImage):
        for name, value in _PLAIN.items():
            own.setdefault(name, value)
        own.setdefault(_MODE, "RGB")
        own["info"] = picture.info
    own[_CORE] = core
    pixels = own.get("_hr_pixels", lambda: None)()
    _swap_back(picture)
    if pixels is not None and pixels.found is None and core is not None:
        pixels.found = picture.load()


def _forget(picture: Any) -> None:
    """Turns it into stock Pillow without making pixels."""
    if isinstance(picture, HeadraceImage):
        _become_plain(picture, None)
    else:
        _swap_back(picture)


def _swap_back(picture: Any) -> None:
    if isinstance(picture, HeadraceJpeg):
        _set_class(picture, JpegImageFile)
    elif isinstance(picture, HeadraceImage):
        _set_class(picture, Image.Image)
    own = _own(picture)
    for name in [name for name in own if name.startswith("_hr")]:
        own.pop(name, None)


def _refuse(picture: Any, reason: str) -> None:
    count("pillow", reason)
    _swap_back(picture)


def _stock(picture: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Runs the stock method; it finds the pixels through im by itself."""
    stock = JpegImageFile if isinstance(picture, JpegImageFile) else (
        Image.Image
    )
    while args and args[-1] is None:  # one that a program put there may not
        args = args[:-1]  # take as many
    return getattr(stock, name)(picture, *args, **kwargs)


def again(image: Any) -> Any:
    """Records from here on, if stock has made this picture in a fetch."""
    if type(image) is not Image.Image or image.mode != "RGB" or not active:
        return image
    if not fetch.is_lazy() or fetch.is_off():
        return image
    picture = _new(HeadraceImage)
    picture._hr = jobs.given(image)
    picture._size = image.size
    picture.info = image.info
    total("recorded again")
    return picture


def blended(
    degenerate: HeadraceImage, picture: Any, factor: Any
) -> HeadraceImage | None:
    """Image.blend() of them, if the first is a degenerate of the second."""
    first, second = recording(degenerate), recording(picture)
    if first is None or second is None:
        return None
    if first.source is not second.source or first.ops[:-1] != second.ops:
        return None
    op = pixels.blended(first.ops[-1], factor)
    if op is None:
        return None
    return _derive(degenerate, second, second.ops + (op,), picture._size)


def _native(picture: Any) -> str:
    """The mode of its file, which says if ops commute with convert."""
    native: str = _own(picture).get("_hr_native", "RGB")
    return native


def _is_transparent(picture: Any) -> bool:
    """A JPEG says no such thing of itself."""
    own = _own(picture)
    if "info" not in own and type(own.get("_hr_info")) is _core.FileBytes:
        return False
    return picture.info.get("transparency") is not None


# ---- which file -----------------------------------------------------------


def open_jpeg(stock: Any) -> Any:
    """The factory for Image.OPEN["JPEG"], around the stock one."""

    def jpeg_factory(fp: Any = None, filename: Any = None) -> Any:
        # (Another module's factory may do anything: it is called.)
        file = None
        if fetch.is_off():
            return stock(fp, filename)
        if active and stock is stock_factory and type(filename) is str:
            file = headers.identify(fp)
            if file is not None:
                header = headers.find(file)
                if header is not None:
                    return _open_again(header, fp, filename)
        image = stock(fp, filename)
        if active:
            if type(image) is JpegImageFile:
                if file is not None:
                    headers.learn(file, image)
                image.__class__ = HeadraceJpeg
            else:
                count("pillow", type(image).__name__)
        return image

    return jpeg_factory


def _open_again(header: headers.Header, fp: Any, filename: str) -> Any:
    """The picture that the stock factory would make of an unchanged file."""
    picture = _new(HeadraceJpeg)
    _set_own(picture, header.attributes())
    picture.fp = fp
    picture.filename = filename
    fp.seek(header.place)
    return picture


def _detach(picture: Any, check: bool) -> Recording | None:
    """Lets go of the file, at the moment when Pillow would have decoded it.

    None: the picture is a plain JpegImageFile now, and Pillow will decode it,
    or was no other before. It does so, and raises, here and now if the file is
    damaged, unless that can be put right later: then nothing is checked.
    """
    if type(picture) is not HeadraceJpeg:
        return None
    source = _source_of(picture, check or not fetch.can_ask_again())
    if source is None:
        return None
    fetch.recorded(source)
    return _let_go(picture, source)


def _source_of(picture: Any, check: bool) -> jobs.Source | None:
    """None: the picture is a plain JpegImageFile now."""
    off = not active or fetch.is_off()
    reason, source = (None, None) if off else files.source_of(picture)
    if source is not None and check:
        reason, source = files.checked(source)
    if source is None:
        if reason:
            count("pillow", reason)
        _swap_back(picture)
    return source


def _let_go(picture: Any, source: jobs.Source) -> Recording:
    """Takes over what stock load() leaves behind: no tile, no file."""
    mode = picture.mode
    hr = picture._hr = recorded((source, DECODE_OPS[mode]))
    picture._hr_native = mode
    picture.tile = []
    picture.map = None
    picture.readonly = 0
    if picture._exclusive_fp and picture._close_exclusive_fp_after_loading:
        picture.fp.close()
    picture.fp = None
    if not fetch.is_lazy():
        _keep(picture)
    total("recorded")
    return hr


def unread(picture: Any) -> Recording | None:
    """The recording of a file that nothing was asked of and that its picture
    keeps, for a job at once: nothing is checked. Then comes read().

    None: it is another picture, or stock Pillow's now.
    """
    if type(picture) is not HeadraceJpeg or picture._hr is not None:
        return None
    source = _source_of(picture, False)
    if source is None:
        return None
    return recorded((source, DECODE_OPS[picture.mode]))


def read(picture: Any, hr: Recording) -> None:
    """A job has made what unread() gave: it lets go of the file."""
    if type(picture) is HeadraceJpeg and picture._hr is None:
        _let_go(picture, hr.source)


# ---- between processes ----------------------------------------------------


def transport(picture: HeadraceImage) -> Any:
    """Reduces a picture for a queue of multiprocessing: the recording."""
    hr = _own(picture)["_hr"]
    if type(hr.ops[0]) is jobs.Given:
        return picture.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    return _arrive, (
        hr,
        _native(picture),
        picture._size,
        picture.mode,
        picture.info,
    )


def _arrive(
    hr: Recording,
    native: str,
    size: tuple[int, int],
    mode: str,
    info: dict[Any, Any],
) -> HeadraceImage:
    picture = _new(HeadraceImage)
    own = _own(picture)
    own["_hr"] = hr
    own["_hr_native"] = native
    own["_size"] = size
    if mode != "RGB":
        own[_MODE] = mode
    own["info"] = info
    return picture


_core.set_pictures(
    HeadraceImage,
    Recording,
    jobs.MAX_OPS,
    _MODE,
    jobs.SINGLE,
    _set_own,
    _detach,
    materialise,
    _keep,
    _copy_info,
    pixels.has_colors,
)
