# SPDX-License-Identifier: Apache-2.0
"""The parts of Pillow, torch and torchvision that install() replaces.

One list of Hook(owner, name, old, new) is the whole state. A module that is
not imported yet is hooked as soon as it is: a finder in sys.meta_path watches
for the names in SETS. Nothing is imported that the program did not import.

Attributes are checked before they are replaced: a missing or unexpected one is
an error that names it, and nothing stays replaced. Then a picture of 16 x 24
goes through stock Pillow (and torchvision) and through the recording; they must
be equal to the bit.

uninstall() goes through the list from its end and puts back what is still
ours. If another module has wrapped a function of ours since, it stays, passes
everything on to the stock one, and a warning says so.

Threads: install() and uninstall() take turns; they change the process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from .._forks import renewed
from .base.in_place import Triples, copies, in_place
from .base.in_place import function as _function
from .base.refusal import refuse
from .base.report import note
from .base.worker import in_worker

MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "MISSING"})()


class Hook(NamedTuple):
    """An attribute of owner, or an item where owner is a dict."""

    owner: Any
    name: Any
    old: Any
    new: Any


def look(owner: Any, name: Any) -> Any:
    """The value of a class or module itself, or of a dict; else MISSING."""
    if name == "__code__":
        return owner.__code__
    if isinstance(owner, dict):
        return owner.get(name, MISSING)
    return vars(owner).get(name, MISSING)


def put(owner: Any, name: Any, value: Any) -> None:
    if isinstance(owner, dict):
        if value is MISSING:
            del owner[name]
        else:
            owner[name] = value
    elif value is MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


# ---- the hooks -------------------------------------------------------------


def _around(
    ours: str, names: str, prefix: str = ""
) -> Callable[[Any], Triples]:
    """Hooks of functions that ours, of the same names, stand around."""

    def hooks(module: Any) -> Triples:
        wraps = importlib.import_module(ours, __package__)
        for name in names.split():
            yield _wrapped(module, name, getattr(wraps, prefix + name))

    return hooks


def _wrapped(owner: Any, name: str, wrap: Any, stays: bool = False) -> Any:
    return owner, name, wrap(_function(owner, name, stays))


def _pillow_hooks(plugin: Any) -> Triples:
    from .. import _oracle
    from .pillow import enhance, originals, pictures

    module = plugin.Image
    entry = look(module.OPEN, "JPEG")
    if type(entry) is not tuple or len(entry) != 2 or not callable(entry[0]):
        refuse('PIL.Image.OPEN["JPEG"] is not (factory, accept)')
    for name in ("load", *originals.STOCK):
        _function(module.Image, name)
    pictures.reference, resize = _reference, originals.stock("resize")
    if resize is not None and not (_reference or in_worker()):
        pictures.reference = _oracle.reference_of(resize)
    yield module.OPEN, "JPEG", (pictures.open_jpeg(entry[0]), entry[1])
    yield module, "blend", enhance.blend(_function(module, "blend"))
    yield _reducers(), pictures.HeadraceImage, pictures.transport


def _reducers() -> dict[Any, Any]:
    from multiprocessing.reduction import ForkingPickler

    found: Any = getattr(ForkingPickler, "_extra_reducers", None)
    if not isinstance(found, dict):
        refuse("multiprocessing's ForkingPickler has no _extra_reducers")
    return found


def _image_ops_hooks(module: Any) -> Triples:
    from .pillow import enhance, pixels

    yield module, "expand", enhance.expand(_function(module, "expand"))
    for name, op in (
        ("posterize", pixels.posterized),
        ("solarize", pixels.solarized),
        ("invert", pixels.inverted),
        ("equalize", pixels.equalized),
        ("autocontrast", pixels.autocontrasted),
    ):
        yield module, name, enhance.one_op(_function(module, name), op)


def _image_enhance_hooks(module: Any) -> Triples:
    from .pillow import enhance

    for kind in enhance.ENHANCERS:
        wrap = functools.partial(enhance.enhancer, kind=kind)
        yield _wrapped(getattr(module, kind), "__init__", wrap)


def _functional_pil_hooks(module: Any) -> Triples:
    from .pillow import enhance

    names = "adjust_hue pad to_grayscale"
    yield from _around(".pillow.enhance", names)(module)
    for name in enhance.ADJUST:
        yield module, name, enhance.adjust(_function(module, name), name)


def _functional_hooks(module: Any) -> Triples:
    yield from _around(".pillow.enhance", "gaussian_blur")(module)
    names = "to_tensor pil_to_tensor normalize"
    yield from _around(".torch.wrappers", names)(module)


def _transforms_hooks(module: Any) -> Triples:
    from .torch import draws

    jitter, crop = module.ColorJitter, module.RandomResizedCrop
    yield _wrapped(jitter, "forward", draws.color_jitter, True)
    yield _wrapped(crop, "get_params", draws.crop_params, True)


def _autoaugment_hooks(module: Any) -> Triples:
    from .torch import draws

    name, wrap = "_augmentation_space", draws.augmentation_space
    for kind in ("AutoAugment", "RandAugment", "TrivialAugmentWide"):
        yield _wrapped(getattr(module, kind), name, wrap, True)


# Functions that make each byte of one byte.
_POINTWISE = "adjust_brightness", "posterize", "solarize", "invert"


def _functional_tensor_hooks(module: Any) -> Triples:
    from .torch import images, wrappers

    for name, wrap in (
        *((name, wrappers.fast_kernel) for name in _POINTWISE),
        ("crop", images.crop),
        ("pad", images.pad_of_v1),
    ):
        stock = _function(module, name)
        yield module, name, images.of_v1(wrap(stock), stock)


def _v2_hooks(module: Any) -> Triples:
    from torchvision.transforms.v2 import functional

    from .torch import draws, tensor, v2

    if "torchvision.tv_tensors" not in sys.modules:
        refuse("torchvision.transforms.v2 has no tv_tensors (before 0.16)")
    stock_image = sys.modules["torchvision.tv_tensors"].Image
    lazy_image = tensor.define_tv_image(stock_image)
    names = "to_image pil_to_tensor"
    yield from _around(".torch.wrappers", names)(functional)
    yield from _kernel_hooks(functional, stock_image, lazy_image)
    yield _wrapped(module.ToDtype, "transform", v2.to_dtype_transform)
    if "transform" in vars(module.ColorJitter):
        wrap = draws.color_jitter_of_v2
        yield _wrapped(module.ColorJitter, "transform", wrap)
    for part in (module._geometry, module._auto_augment):
        yield _wrapped(part, "_get_fill", v2.get_fill)
    yield from _collate_hooks(lazy_image)
    yield _reducers(), lazy_image, tensor.transport


def _kernel_hooks(functional: Any, image: Any, lazy_image: Any) -> Triples:
    import PIL.Image
    from torch import Tensor

    from .pillow import enhance, pictures
    from .torch import images, tensor, wrappers

    def kernels_of(name: str) -> Any:
        found = registry.get(getattr(functional, name))
        return found if isinstance(found, dict) else {}

    registry = look(functional._utils, "_KERNEL_REGISTRY")
    if not isinstance(registry, dict):
        refuse("torchvision's _KERNEL_REGISTRY of v2 is not a dict")
    for name, wrap in (
        *((name, wrappers.fast_kernel) for name in _POINTWISE),
        ("to_dtype", wrappers.fast_kernel),
        ("normalize", wrappers.fast_kernel),
        *((wrap.__name__, wrap) for wrap in (
            images.resize, images.resized_crop, images.crop,
            images.center_crop, images.pad)),
    ):
        kernels = kernels_of(name)
        if image not in kernels:
            refuse("torchvision has no kernels of v2 %s" % name)
        stock = kernels[Tensor]
        for kind in (tensor.LazyTensor, lazy_image):
            yield kernels, kind, wrap(stock)
    for name in ("permute_channels", "gaussian_blur"):
        kernels = kernels_of(name)
        if PIL.Image.Image in kernels:
            ours = getattr(enhance, name)(kernels[PIL.Image.Image])
            for kind in pictures.RECORDERS:
                yield kernels, kind, ours


def _data_hooks(module: Any) -> Triples:
    from .torch import tensor
    from .workers import again, loader

    yield from _collate_hooks(tensor.LazyTensor)
    yield _reducers(), tensor.LazyTensor, tensor.transport
    for owner, name in again.fetchers():
        yield owner, name, again.within(owner, _function(owner, name))
    yield from loader.hooks(install)


# Functions that look behind a tensor: tracers, what takes its memory, and what
# would have begun a file when a damaged picture is found.
_DOORS = """
torch.save torch.serialization.save
torch.jit.trace torch.jit.trace_module torch.onnx.export torch.export.export
torch.utils.dlpack.to_dlpack torch._C._to_dlpack torch._C._to_dlpack_versioned
torch.utils.swap_tensors
""".split()


def _torch_hooks(torch: Any) -> Triples:
    from .torch import wrappers

    for door in _DOORS:
        module, _, name = door.rpartition(".")
        stock = getattr(sys.modules.get(module), name, None)
        if stock is not None:
            yield sys.modules[module], name, wrappers.plain_first(stock)
    parameter = torch.nn.Parameter
    new = staticmethod(wrappers.plain_first(parameter.__new__))
    yield parameter, "__new__", new
    yield torch.Tensor, "data", wrappers.data()


def _collate_hooks(kind: type) -> Triples:
    from torch import Tensor
    from torch.utils.data._utils import collate

    from .torch import wrappers

    functions = look(collate, "default_collate_fn_map")
    if not isinstance(functions, dict) or Tensor not in functions:
        refuse("torch's default_collate_fn_map has no torch.Tensor")
    yield functions, kind, wrappers.collate(functions[Tensor])


def _torchdata_hooks(module: Any) -> Triples:
    from .workers import loader

    yield loader.loop_hook(module.__name__, install)


def _timm_hooks(module: Any) -> Triples:
    if hasattr(module, "fast_collate"):
        yield from _around(".torch.wrappers", "fast_collate")(module)


def _processors_hooks(module: Any) -> Triples:
    from .torch import processors

    if "torch" not in sys.modules:
        return
    base, name = module.BaseImageProcessor, "_preprocess_image_like_inputs"
    yield _wrapped(base, name, processors.preprocess)
    yield _wrapped(base, "preprocess", processors.call)
    backend = module.TorchvisionBackend
    yield _wrapped(backend, "process_image", processors.process_image)


def _beit_hooks(module: Any) -> Triples:
    from .torch import processors

    name = "_preprocess_image_like_inputs"
    for kind in ("BeitImageProcessor", "BeitImageProcessorPil"):
        owner = getattr(module, kind, None)
        if owner is not None and name in vars(owner):
            yield _wrapped(owner, name, processors.preprocess)


# Pillow imports this plug-in, which fills OPEN["JPEG"], when it is needed.
PILLOW = "PIL.JpegImagePlugin"
_TRANSFORMERS = "transformers.image_processing_backends"
_BEIT = "transformers.models.beit.image_processing_"
# Module -> its hooks. The order is that of installing.
SETS: dict[str, Callable[[Any], Triples]] = {
    PILLOW: _pillow_hooks,
    "PIL.ImageOps": _image_ops_hooks,
    "PIL.ImageEnhance": _image_enhance_hooks,
    "torchvision.datasets.folder": _around(".pillow.folder", "pil_loader"),
    "torchvision.io.image": _around(
        ".torch.encoded", "decode_image decode_jpeg read_image"
    ),
    "torchcodec.decoders._image_decoders": _around(
        ".torch.encoded", "decode_image decode_jpeg", "codec_"
    ),
    "torchvision.transforms.functional_pil": _functional_pil_hooks,
    "torchvision.transforms._functional_pil": _functional_pil_hooks,
    "torchvision.transforms.functional": _functional_hooks,
    "torchvision.transforms.functional_tensor": _functional_tensor_hooks,
    "torchvision.transforms._functional_tensor": _functional_tensor_hooks,
    "torchvision.transforms.transforms": _transforms_hooks,
    "torchvision.transforms.autoaugment": _autoaugment_hooks,
    "torchvision.transforms.v2": _v2_hooks,
    "torch.utils.data": _data_hooks,
    "torch": _torch_hooks,
    "torchdata.stateful_dataloader.stateful_dataloader": _torchdata_hooks,
    "timm.data.loader": _timm_hooks,
    _TRANSFORMERS: _processors_hooks,
    _BEIT + "beit": _beit_hooks,
    _BEIT + "pil_beit": _beit_hooks,
}
# A set whose hooks make use of another one than Pillow's.
_NEEDS = {
    PILLOW: None,
    "torchvision.transforms.transforms": "torchvision.transforms.functional",
    "torchvision.transforms.autoaugment": "torchvision.transforms.functional",
    "torchvision.transforms.v2": "torchvision.transforms.functional",
    "torchdata.stateful_dataloader.stateful_dataloader": "torch.utils.data",
    "timm.data.loader": "torch.utils.data",
    _BEIT + "beit": _TRANSFORMERS,
    _BEIT + "pil_beit": _TRANSFORMERS,
}


# ---- installing ------------------------------------------------------------

_turn = renewed(threading.RLock())
_PATIENCE = 2.0  # seconds
_hooks: list[Hook] = []
_done: set[str] = set()
_watch: _Watch | None = None
_reference: str | None = None
_applying = False  # by the thread that has the turn
# Why the drop-in switched itself off, if it did.
_failure: str | None = None


def failure() -> str | None:
    return _failure


def installed() -> bool:
    return _watch is not None


def hooks() -> tuple[Hook, ...]:
    """The hooks in place, oldest first."""
    return tuple(_hooks)


def reference() -> str | None:
    """The reference of the installed Pillow, once that is hooked."""
    pictures: Any = sys.modules.get(__package__ + ".pillow.pictures")
    return pictures.reference if pictures else None


def install(reference: str | None = None) -> None:
    """Switches the drop-in on in this process. Twice is harmless.

    reference: that of the installed Pillow if it is known already, as in a
    worker process; by default it is found out. Raises HookError, and leaves
    nothing behind, where the installed packages are not as they should be.
    """
    global _watch, _reference, _failure
    with _turn:
        if _watch is not None:
            return
        _failure = None
        _reference = reference
        _watch = _Watch()
        try:
            if _is_imported("PIL.Image"):
                importlib.import_module(PILLOW)
            sys.meta_path.insert(0, _watch)
            _apply_new()
            _self_test()
        except BaseException:
            uninstall()
            raise


def uninstall() -> None:
    """Puts everything back. Recorded pictures and tensors stay valid."""
    global _watch
    with _turn:
        if _watch in sys.meta_path:
            sys.meta_path.remove(_watch)
        _watch = None
        _set_active(False)
        while _hooks:
            _undo(_hooks.pop())
        copies.clear()
        _done.clear()


def _undo(hook: Hook) -> None:
    if look(hook.owner, hook.name) is hook.new:
        put(hook.owner, hook.name, hook.old)
        return
    owner = getattr(hook.owner, "__name__", "a table")
    warnings.warn(
        "headrace: %s of %s was replaced by another module since; what is"
        " there stays" % (hook.name, owner),
        RuntimeWarning,
        stacklevel=4,
    )


def _set_active(active: bool) -> None:
    pictures: Any = sys.modules.get(__package__ + ".pillow.pictures")
    if pictures is not None:
        pictures.active = active
        if not active:
            pictures.pixels.forget()
    # (It may be what is importing torch.)
    speculate = sys.modules.get(__package__ + ".torch.speculate")
    drop = getattr(speculate, "drop", None)
    if drop is not None and not active:
        drop()


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def _apply_all(arrived: str | None = None) -> None:
    """Installs the hooks of all modules that are imported by now."""
    for name in SETS:
        if name not in _done and (name == arrived or _is_imported(name)):
            _apply(name, arrived)


def _apply_new(arrived: str | None = None) -> bool:
    """_apply_all(), and what is imported meanwhile; False: nothing new."""
    global _applying
    before = seen = len(_done)
    _applying = True
    try:
        _apply_all(arrived)
        while len(_done) > seen:
            seen = len(_done)
            _apply_all(arrived)
    finally:
        _applying = False
    return seen > before


def _apply(name: str, arrived: str | None) -> None:
    needed = _NEEDS.get(name, PILLOW)
    if needed is not None and needed not in _done:
        if needed != arrived and not _is_imported(needed):
            if needed in sys.modules or not _is_imported("PIL.Image"):
                return  # it is being imported; then this one's turn comes
            importlib.import_module(needed)
        _apply(needed, arrived)
    if name in _done:
        return
    _done.add(name)
    there = {(id(hook.owner), hook.name) for hook in _hooks}
    for owner, key, new in list(SETS[name](sys.modules[name])):
        old = look(owner, key)
        hooks = [(owner, key, new)]
        function = getattr(old, "__func__", old)  # of a static method
        if isinstance(function, types.FunctionType) and function in copies:
            hooks = list(in_place(function, new))
        elif isinstance(new, types.FunctionType) and callable(old):
            functools.update_wrapper(new, old)
        for owner, key, new in hooks:
            if (id(owner), key) not in there:
                there.add((id(owner), key))
                _hooks.append(Hook(owner, key, look(owner, key), new))
                put(owner, key, new)
    _set_active(True)


def _arrived(name: str) -> None:
    """A watched module was imported just now, on this thread."""
    # The lock of the import is held: the thread that has the turn may wait for
    # it, and will find the module imported when it is released.
    if not _turn.acquire(timeout=_PATIENCE):
        return
    try:
        # (Hooks import modules; the thread that applies them looks for more.)
        if _watch is not None and not _applying and _apply_new(name):
            _self_test()
    except Exception as error:
        # The program only imports a module.
        _give_up(error)
    finally:
        _turn.release()


def _give_up(error: Exception) -> None:
    """Takes all hooks away: the drop-in does not know this release."""
    global _failure
    uninstall()
    _failure = "%s" % error
    note("switched off: " + _failure)
    warnings.warn(
        "headrace: pictures and tensors stay with Pillow and torch: "
        + _failure,
        RuntimeWarning,
        stacklevel=2,
    )


class _Watch(importlib.abc.MetaPathFinder):
    """Finds nothing itself; sees watched modules being imported."""

    def __init__(self) -> None:
        self._here = threading.local()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in SETS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The loader that was found; the hooks come after it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _arrived(module.__name__)


# ---- self-test -------------------------------------------------------------


def _self_test() -> None:
    """One tiny picture, stock and recorded, must be equal."""
    if PILLOW not in _done or in_worker():
        return
    from . import selftest

    wrong = selftest.run(_done)
    if wrong:
        refuse("%s differs from stock on a picture of 16 x 24" % wrong)
