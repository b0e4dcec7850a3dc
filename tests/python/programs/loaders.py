# SPDX-License-Identifier: Apache-2.0
"""Data sets and loaders of all kinds."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import io
import itertools
import os
import random
import shutil
import tempfile
import warnings

import numpy as np
import torch
import torch.utils.data as data
from PIL import Image, ImageOps
from torchvision import datasets
from torchvision import transforms as T
from torchvision.transforms import functional as F

from .program import ALL, blocks, listed, rows

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None

GOOD = ("a.jpg", "b.jpg", "c.jpg", "gray.jpg", "turned.jpg", "progressive.jpg",
        "cmyk.jpg", "rgb.png", "large.jpg")
DAMAGED = ("a.jpg", "marker.jpg", "b.jpg", "cut.jpg", "c.jpg", "html.jpg",
           "gray.jpg", "table.jpg", "short_jfif.jpg", "large_marker.jpg")


def opened(name):
    return Image.open(name).convert("RGB")


def recipe(name):
    end = [T.ToTensor(), T.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    return T.Compose({
        "train": [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), *end],
        "evaluation": [T.Resize(32), T.CenterCrop(24), *end],
        "plain": [T.Resize((20, 30)), T.ToTensor()],
        "bytes": [T.Resize((20, 30)), T.PILToTensor()],
        "jitter": [T.RandomCrop(24, 4, True), T.ColorJitter(.3, .3, .3, .1),
                   T.RandomGrayscale(.3), *end],
        "erasing": [T.RandomResizedCrop(24), *end, T.RandomErasing(.7)],
        "augment": [T.Resize((24, 24)), T.RandAugment(), *end],
        "tensor first": [T.ToTensor(), T.CenterCrop(30),
                         T.RandomHorizontalFlip(), T.RandomCrop(24)],
        "half": [T.Resize((24, 24)), *end, half],
        "five crops": [T.Resize(32), T.FiveCrop(24), crops],
        "ten crops": [T.Resize(32), T.TenCrop(24), crops],
        "array": [T.Resize((24, 24)), np.asarray, T.ToTensor()],
        "v2 train": v2 and [
            v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True), v2.Normalize([.5], [.5])],
        "v2 evaluation": v2 and [
            v2.Resize(32), v2.CenterCrop(24), v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()],
        "v2 tensor": v2 and [
            v2.ToImage(), v2.CenterCrop(40), v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True), v2.Resize((20, 20))],
    }[name])


RECIPES = ("train,evaluation,plain,bytes,jitter,erasing,augment,tensor first,"
           "half,five crops,ten crops,array,v2 train,v2 evaluation,v2 tensor"
           ).split(",")


def half(x):
    return x.half()


def crops(images):
    return torch.stack([F.to_tensor(image) for image in images])


Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Both:
    x: object
    y: int


FORMS = {
    "tensor": lambda x, i: x,
    "pair": lambda x, i: (x, i),
    "list": lambda x, i: [x, x],
    "dict": lambda x, i: {"x": x, "y": i, "name": str(i)},
    "named": lambda x, i: Pair(x, i),
    "nested": lambda x, i: ([x, {"z": (x, torch.tensor(i))}], float(i)),
    "views": lambda x, i: (x[:, :10, 3:15], x[:1], x.flip(-1)),
    "changed": lambda x, i: (x * 2 - 1, x.double(), -x, x.clamp(0, 1)),
    "in place": lambda x, i: x.mul_(2).add_(1),
    "pure": lambda x, i: (x.permute(1, 2, 0), x.unsqueeze(0), x.sum()),
    "numpy": lambda x, i: x.numpy(),
    "stack": lambda x, i: torch.stack([x, x]),
    "made and not": lambda x, i: x if i % 2 else x + 0,
    "random": lambda x, i: (x, np.random.rand(), random.random(),
                            torch.rand(1)),
    "detached": lambda x, i: x.detach().clone(),
}


class Pictures(data.Dataset):
    """Small tensors of files, in one of the forms."""

    def __init__(self, *names, recipe="plain", form="tensor", mode="RGB"):
        self.names, self.recipe, self.form = names, recipe, form
        self.mode, self.transform = mode, None
        self.begin()

    def begin(self):
        """A data set's own part of being made."""

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        if self.transform is None:
            self.transform = recipe(self.recipe)
        image = Image.open(self.names[i])
        if self.mode:
            image = image.convert(self.mode)
        return FORMS[self.form](self.transform(image), i)


class Stream(data.IterableDataset):
    """Pictures one after the other, shared out among workers."""

    def __init__(self, *names, **how):
        self.pictures = Pictures(*names, **how)

    def __iter__(self):
        info = data.get_worker_info()
        number, step = (info.id, info.num_workers) if info else (0, 1)
        for i in range(number, len(self.pictures), step):
            yield self.pictures[i]


class Skipping(Stream):
    """webdataset's warn_and_continue."""

    def __iter__(self):
        for i in range(len(self.pictures)):
            try:
                yield self.pictures[i]
            except Exception as error:
                warnings.warn(repr(error))


class Replacing(Pictures):
    """Another picture, where one is damaged."""

    def __getitem__(self, i):
        try:
            return super().__getitem__(i)
        except Exception:
            return super().__getitem__((i + 1) % len(self))


class Bare(Pictures):
    """Another one, whatever is raised."""

    def __getitem__(self, i):
        try:
            return super().__getitem__(i)
        except:  # noqa: E722
            return self[(i + 1) % len(self)]


class Caught(Pictures):
    """Is asked for a whole batch, and leaves none out."""

    def __getitems__(self, numbers):
        found = []
        for i in numbers:
            try:
                found.append(self[i])
            except Exception:
                found.append(torch.ones(3, 20, 30))
        return found


class Top(Replacing):
    """Damage may be far below what is used."""

    def __getitem__(self, i):
        return F.to_tensor(opened(self.names[i]).crop((0, 0, 24, 8)))


class Thin(Replacing):
    """Sides and channels of one, whose strides may be any."""

    def __getitem__(self, i):
        image = Image.open(self.names[i - i % 4])
        return [F.to_tensor(x) for x in (image.convert("L"),
                                         image.resize((1, 1)))]


class Arrays(Pictures):
    """Pixels are asked for behind the except."""

    def __getitem__(self, i):
        try:
            image = opened(self.names[i])
        except (OSError, SyntaxError):
            image = Image.new("RGB", (64, 64), "red")
        return torch.from_numpy(np.array(image)[:32, :32]).sum()


class Removing(Pictures):
    """Its files go as soon as they were read; what is gone is white."""

    def __getitem__(self, i):
        try:
            x = super().__getitem__(i)
        except Exception:
            return torch.ones(3, 20, 30)
        os.unlink(self.names[i])
        return x


class Inner(Pictures):
    """A loader in the data set."""

    def __getitem__(self, i):
        names = (self.names * 2)[i:i + 7]
        return next(iter(data.DataLoader(Replacing(*names), 6)))


class Drawing(Pictures):
    """One that each generator draws, where one is damaged."""

    def __getitem__(self, i):
        while True:
            try:
                return super().__getitem__(i)
            except (OSError, SyntaxError):
                i = (random.randrange(99) + int(torch.randint(99, ())) +
                     np.random.randint(99)) % len(self)


class Nothing(Pictures):
    """None, where a picture is damaged."""

    def __getitem__(self, i):
        try:
            return super().__getitem__(i)
        except Exception:
            return None


class Zeros(Pictures):
    def __getitem__(self, i):
        try:
            with open(self.names[i], "rb") as file:
                image = Image.open(file).convert("RGB")
        except Exception:
            return torch.zeros(3, 20, 30)
        return recipe(self.recipe)(image)


class Counting(Pictures):
    """Knows what was damaged."""

    def begin(self):
        self.damaged = []

    def __getitem__(self, i):
        try:
            image = Image.open(self.names[i])
            image.load()
        except Exception as error:
            self.damaged.append((i, type(error).__name__))
            return torch.zeros(3, 20, 30)
        return recipe(self.recipe)(image.convert("RGB"))


class Cached(Pictures):
    """Keeps its tensors."""

    def begin(self):
        self.kept = {}

    def __getitem__(self, i):
        if i not in self.kept:
            self.kept[i] = super().__getitem__(i)
        return self.kept[i]


class CachedPictures(Pictures):
    """Keeps pictures that are not decoded yet, and their files go."""

    def begin(self):
        self.images = [opened(name) for name in self.names]
        for name in self.names:
            os.unlink(name)

    def __getitem__(self, i):
        return recipe(self.recipe)(self.images[i])


class Preloaded(Pictures):
    """All tensors in one, made when the data set is."""

    def begin(self):
        self.x = torch.stack([super(Preloaded, self).__getitem__(i)
                              for i in range(len(self.names))])

    def __getitem__(self, i):
        return self.x[i]


class OnDisk(Pictures):
    """Keeps its tensors in files."""

    def __getitem__(self, i):
        path = "%d.pt" % i
        if not os.path.exists(path):
            torch.save(super().__getitem__(i), path)
        return torch.load(path)


class Temporary(Pictures):
    """Each picture comes into a file of its own, that goes again."""

    def __getitem__(self, i):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            path = shutil.copy(self.names[i], folder)
            image = Image.open(path)
            image.load()
        return recipe(self.recipe)(image.convert("RGB"))


class OneName(Pictures):
    """All pictures come into one file, one after the other."""

    def __getitem__(self, i):
        info = data.get_worker_info()
        name = "download%d.jpg" % (info.id if info else 0)
        shutil.copyfile(self.names[i], name)
        image = Image.open(name).convert("RGB")
        os.unlink(name)
        return recipe(self.recipe)(image)


class Unlinking(Pictures):
    def __getitem__(self, i):
        value = super().__getitem__(i)
        os.unlink(self.names[i])
        return value


class OverWriting(Pictures):
    """Leaves the picture smaller."""

    def __getitem__(self, i):
        image = opened(self.names[i])
        image.thumbnail((40, 40))
        image.save(self.names[i], "JPEG")
        return recipe(self.recipe)(image)


class Mending(Pictures):
    """As ultralytics does before it trains."""

    def __getitem__(self, i):
        name = self.names[i]
        Image.open(name).verify()
        with open(name, "rb") as file:
            file.seek(-2, 2)
            whole = file.read() == b"\xff\xd9"
        if not whole:
            ImageOps.exif_transpose(Image.open(name)).convert("RGB").save(
                name, "JPEG", subsampling=0, quality=100)
        return super().__getitem__(i)


class Handles(Pictures):
    """Reads open files, which forked workers share."""

    def begin(self):
        self.blob = io.BytesIO()
        self.places = []
        for name in self.names:
            with open(name, "rb") as file:
                self.places.append((self.blob.tell(), os.path.getsize(name)))
                self.blob.write(file.read())

    def __getitem__(self, i):
        place, size = self.places[i]
        self.blob.seek(place)
        image = Image.open(self.blob).convert("RGB")
        return recipe(self.recipe)(image), self.blob.tell() - place

    def __getstate__(self):
        return dict(self.__dict__, blob=self.blob.getvalue())

    def __setstate__(self, state):
        self.__dict__.update(state, blob=io.BytesIO(state["blob"]))


class Bytes(Pictures):
    def __getitem__(self, i):
        with open(self.names[i], "rb") as file:
            content = file.read()
        return recipe(self.recipe)(
            Image.open(io.BytesIO(content)).convert("RGB"))


class Whole(Pictures):
    """Pictures, not tensors."""

    def __getitem__(self, i):
        return opened(self.names[i]).resize((30, 20)), i


class Opened(Pictures):
    def __getitem__(self, i):
        return Image.open(self.names[i])


class Patches(Pictures):
    """Many tensors of one picture."""

    def __getitem__(self, i):
        image = opened(self.names[i]).resize((40, 40))
        x = F.to_tensor(image)
        return [x[:, k:k + 9, k:k + 9].clone() for k in range(0, 30, 9)] + [
            F.to_tensor(image.crop((k, k, k + 9, k + 9)))
            for k in range(0, 30, 9)]


class Twice(Pictures):
    """Two views of each, as SimCLR has."""

    def __getitem__(self, i):
        image, train = opened(self.names[i]), recipe("train")
        return train(image), train(image)


class Mosaic(Pictures):
    def __getitem__(self, i):
        out = torch.zeros(3, 40, 60)
        for k in range(4):
            x = super().__getitem__((i + k) % len(self))
            out[:, k // 2 * 20:, k % 2 * 30:][:, :20, :30] = x
        return out


class Mixed(Pictures):
    def __getitem__(self, i):
        a, b = super().__getitem__(i), super().__getitem__(
            random.randrange(len(self)))
        return a.mul_(.7).add_(b, alpha=.3) if i % 2 else a * .5 + b * .5


class Pasting(Pictures):
    """Cuts a hole in the picture, then in the tensor."""

    def __getitem__(self, i):
        image = opened(self.names[i]).resize((30, 20))
        image.paste((1, 2, 3), (2, 2, 8, 8))
        x = F.to_tensor(image)
        x[:, 10:15, 10:15] = 0
        return x


class Statistics(Pictures):
    """Looks at the tensor before it gives it."""

    def __getitem__(self, i):
        x = super().__getitem__(i)
        return x, x.mean(), x.std().item(), tuple(x.shape)


class Own(Exception):
    def __init__(self, a, b):
        super().__init__("%s and %s" % (a, b))


class Failing(Pictures):
    error = KeyError("no picture 3")

    def __getitem__(self, i):
        if i == 3:
            raise self.error
        return super().__getitem__(i)


class FailingOwn(Failing):
    error = Own(1, 2)


class Stopping(Failing):
    error = StopIteration


class Many(Pictures):
    """Is asked for a whole batch."""

    def __getitems__(self, numbers):
        return [super(Many, self).__getitem__(i) for i in numbers]


class Sizes(Pictures):
    """Pictures of different sizes."""

    def __getitem__(self, i):
        return F.to_tensor(opened(self.names[i]))


class Masks(Pictures):
    def __getitem__(self, i):
        image = opened(self.names[i]).resize((30, 20))
        mask = Image.open("p.png").resize((30, 20), 0)
        if random.random() < .5:
            image, mask = F.hflip(image), F.hflip(mask)
        return F.to_tensor(image), torch.as_tensor(np.array(mask)).long()


class Threads(Pictures):
    """Loads by a pool of threads."""

    def __getitem__(self, i):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            numbers = [i, (i + 1) % len(self)]
            return list(pool.map(super().__getitem__, numbers))[0]


class Info(Replacing):
    def __getitem__(self, i):
        info = data.get_worker_info()
        return (super().__getitem__(i),
                info.id if info else -1, info.seed % 997 if info else 0)


KINDS = (Pictures, Stream, Replacing, Zeros, Counting, Cached, CachedPictures,
         Preloaded, OnDisk, Temporary, OneName, Unlinking, OverWriting, Mending,
         Handles, Bytes, Patches, Twice, Mosaic, Mixed, Pasting, Statistics,
         Masks, Threads, Info, Many, Failing, FailingOwn, Stopping)
OF_DAMAGED = (Pictures, Stream, Skipping, Replacing, Drawing, Zeros, Counting,
              Cached, Preloaded, CachedPictures, OnDisk, Temporary, OneName,
              Bytes, Mending, OverWriting, Handles, Threads, Statistics,
              Unlinking, Mosaic, Patches)
WRITING = (OnDisk, Temporary, OneName, Mending, OverWriting, Unlinking)


# ---- collating -------------------------------------------------------------


def without_none(batch):
    batch = [item for item in batch if item is not None]
    return data.default_collate(batch) if batch else None


def as_list(batch):
    return batch


def stacked(batch):
    return torch.stack(batch)


def added(batch):
    return data.default_collate([x + 1 for x in batch])


def padded(batch):
    height = max(x.shape[1] for x in batch)
    width = max(x.shape[2] for x in batch)
    out = torch.zeros(len(batch), 3, height, width)
    for x, place in zip(batch, out):
        place[:, :x.shape[1], :x.shape[2]].copy_(x)
    return out


def normalized(batch):
    x = data.default_collate(batch)
    return x.sub_(x.mean()).div_(x.std())


def with_mean(batch):
    return data.default_collate(batch), [x.mean() for x in batch]


def of_pictures(batch):
    return torch.stack([F.to_tensor(image) for image, _ in batch])


def mixed_up(batch):
    x = torch.stack(batch)
    return torch.lerp(x, x.flip(0), .3)


def fast(batch):
    out = torch.zeros((len(batch), *batch[0].shape), dtype=torch.uint8)
    for x, place in zip(batch, out):
        place += (x * 255).byte()
    return out


def seeded(number):
    np.random.seed(number)
    random.seed(number)


class Holder:
    def __init__(self, batch):
        self.x = torch.stack(batch)

    def pin_memory(self):
        return self


class Scripted(torch.nn.Module):
    def forward(self, x):
        return F.normalize(F.center_crop(x, [9, 9]), [0.5], [0.2])


def scripted():
    return torch.jit.script(Scripted())


# ---- what is done with a loader --------------------------------------------


def epochs(see, dataset, number=1, **how):
    """All batches; the data set's notes behind them."""
    loader = data.DataLoader(dataset, **how)
    for _ in range(number):
        for batch in loader:
            see(batch)
    see(getattr(dataset, "damaged", None))


def tree(root="d", names=GOOD):
    """A folder for ImageFolder."""
    for place, name in enumerate(names):
        folder = os.path.join(root, "xyz"[place % 3])
        os.makedirs(folder, exist_ok=True)
        shutil.copy(name, folder)
    return root


def folder(transform="plain", names=GOOD, **how):
    return datasets.ImageFolder(tree(names=names), recipe(transform), **how)


_GOOD, _DAMAGED = ", ".join(map(repr, GOOD)), ", ".join(map(repr, DAMAGED))

for _workers in (0, 1, 2):
    _some = {"each": (1, 6, 3)[_workers], "quick": (6, 0, 6)[_workers]}
    # A damaged picture is asked for again in the same fetch.
    _all = {"each": _some["each"], "quick": (2, 0, 1)[_workers]}
    for _name in RECIPES:
        rows("recipe", "L.epochs(see, L.Pictures(%s, recipe=%r, form='pair'), "
             "batch_size=4, shuffle=True, num_workers=%d)" % (
                 _GOOD, _name, _workers), **_some)
        rows("recipe", "L.epochs(see, L.folder(%r), 2, batch_size=4, "
             "shuffle=True, num_workers=%d) # %s" % (_name, _workers, _GOOD),
             **_some)
    for _name in FORMS:
        rows("form", "L.epochs(see, L.Pictures(%s, form=%r), batch_size=3, "
             "num_workers=%d)" % (_GOOD, _name, _workers), **_some)
        rows("form", "L.epochs(see, L.Stream(%s, form=%r), batch_size=3, "
             "num_workers=%d)" % (_GOOD, _name, _workers), **_some)
    for _kind in KINDS:
        for _batch in (3, 1, None):
            rows("kind", "L.epochs(see, L.%s(%s), 2, batch_size=%r, "
                 "num_workers=%d)" % (
                     _kind.__name__, _GOOD, _batch, _workers),
                 **_some)
    for _kind in OF_DAMAGED:
        if _workers and _kind in WRITING:
            continue  # how far they come before the first error is chance
        for _batch in (4, 1, None):
            kept = "  ## kept" * (_kind is Cached)
            rows("damaged", "L.epochs(see, L.%s(%s), 2, batch_size=%r, "
                 "num_workers=%d)%s" % (
                     _kind.__name__, _DAMAGED, _batch, _workers, kept),
                 **_all)
    rows("damaged", listed("loader_damaged").format(_DAMAGED, _workers),
         **_all)
    rows("collate", "\n".join(
        "L.epochs(see, L.Pictures(%s), batch_size=4, collate_fn=L.%s, "
        "num_workers=%d)" % (_GOOD, f.__name__, _workers)
        for f in (without_none, as_list, stacked, added, normalized, with_mean,
                  mixed_up, padded, fast, Holder)), **_some)
    rows("other", listed("loader_other").format(_GOOD, _workers), **_some)

rows("workers", listed("loader_workers").format(_GOOD, _DAMAGED))

for _read, _use in itertools.product((
    "next(iter(DataLoader([0], collate_fn=lambda b: F.to_tensor("
    "Image.open('a.jpg')))))",
    "next(iter(DataLoader(['a.jpg'], collate_fn=lambda b: Image.open(b[0])"
    ".convert('RGB'))))",
    "next(iter(DataLoader(L.Opened('a.jpg'), collate_fn=lambda b: b[0])))",
    "next(iter(DataLoader(L.Whole('a.jpg'), collate_fn=lambda b: b[0][0])))",
    "next(iter(DataLoader(L.Sizes('a.jpg'), collate_fn=lambda b: b[0])))",
    "next(iter(DataLoader(L.Sizes('a.jpg'), batch_size=None)))",
), ("v", "os.unlink('a.jpg'), v", "open('a.jpg', 'w').close(), v",
    "T.Resize(9)(v)", "v.save('a.jpg') if hasattr(v, 'save') else "
    "v.resize_(2), v", "pickle.loads(pickle.dumps(v))", "np.asarray(v)",
    "copy.deepcopy(v)")):
    for _workers in (0, 1):
        rows("out of a loader", "v = %s; %s" % (_read.replace(
            "DataLoader(", "DataLoader(num_workers=%d, dataset=" % _workers
        ), _use), slow=_workers == 1)

blocks("loaders", listed("loaders"))

assert ALL
