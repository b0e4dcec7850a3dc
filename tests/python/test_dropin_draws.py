# SPDX-License-Identifier: Apache-2.0
"""Transforms that draw: the numbers are stock's, of its generator."""

from unittest import mock

import dropin_case as case  # first: it may skip this file
import numpy
import torch
from dropin_case import on
from headrace import dropin
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.transforms import functional as F

SEEDS = 30
SIZES = (224, 224), (31, 200), (300, 7), (1, 1)


class Asked(Dataset):
    """A sample is the result of a function of a picture."""

    def __init__(self, ask):
        self.ask = ask
        self.path = str(case.Samples.photo())

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.ask(Image.open(self.path).convert("RGB"))


def agrees(picture):
    from headrace.dropin.torch import draws

    return draws.agree


def as_is(sample):
    return sample


def asked(ask):
    """With the drop-in, and as stock."""
    with on():
        ours = DataLoader(Asked(ask), None, collate_fn=as_is)
        found = next(iter(ours))
    return found, Asked(ask)[0]


def drawn(ask):
    """Its results for several seeds, with a later number of each generator."""
    made = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        made += [ask(), torch.rand(1).item()]
    return made


def jittered(kind):
    jitter = kind(0.4, 0.3, (0.2, 1.9), 0.1)
    return lambda picture: drawn(
        lambda: jitter(picture.resize((20, 30))).tobytes())


class Draws(case.Case):
    def equal(self, ask):
        found, wanted = asked(ask)
        self.assertEqual(found, wanted)

    def counted(self, name, ask):
        """The calls of a function in asked(), ours and stock's."""
        wraps = getattr(torch, name)
        with on(), mock.patch.object(torch, name, wraps=wraps) as ours:
            next(iter(DataLoader(Asked(ask), None, collate_fn=repr)))
        with mock.patch.object(torch, name, wraps=wraps) as stock:
            Asked(ask)[0]
        return ours.call_count, stock.call_count

    def windows(self, scale, ratio):
        params = T.RandomResizedCrop.get_params
        self.equal(lambda picture: [
            drawn(lambda: params(picture.resize(size), scale, ratio))
            for size in SIZES])

    def test_windows(self):
        for scale, ratio in (
            ([0.08, 1.0], [3 / 4, 4 / 3]),
            ((0.4, 1.0), (0.5, 2)),
            ([1.0, 3.0], [0.9, 1.1]),  # most of them fall back
            ([2.0, 3.0], [1.5, 2.0]),
            ([2.0, 3.0], [0.1, 0.2]),
        ):
            with self.subTest(scale=scale, ratio=ratio):
                self.windows(scale, ratio)

    def test_ratios_of_other_types(self):
        """Torch takes logarithms in the type of the ratio's numbers."""
        try:
            torch.log(torch.ones(1, dtype=torch.half))
        except RuntimeError:
            self.skipTest("this torch has no logarithms of halves")
        params = T.RandomResizedCrop.get_params
        ratio = [0.71, 1.37]
        half = [numpy.float16(x) for x in ratio]

        def ask(picture):
            made, wide = [], picture.resize((9000, 7000))
            for each in (
                numpy.array(ratio), ratio, half, list(map(float, half)), half,
            ):
                torch.manual_seed(3)
                made += [
                    params(wide, [0.1, 1.0], each)
                    for _ in range(9)
                ]
            return made

        self.equal(ask)

    def test_a_ratio_of_one_number(self):
        def ask(picture):
            with self.assertRaises(IndexError) as raised:
                T.RandomResizedCrop.get_params(picture, [0.1, 1.0], [0.5])
            return str(raised.exception)

        self.equal(ask)

    def test_constants_of_each_type(self):
        def ask(picture):
            for dtype in torch.float32, torch.float64:
                torch.set_default_dtype(dtype)
                for _ in range(3):
                    T.RandomResizedCrop.get_params(
                        picture, [0.1, 1.0], [0.5, 2.5])

        self.addCleanup(torch.set_default_dtype, torch.float32)
        ours, stock = self.counted("log", ask)
        self.assertEqual((ours, stock), (2, 6))

    def test_colors(self):
        self.equal(jittered(T.ColorJitter))

    def test_colors_of_v2(self):
        if not hasattr(T, "v2"):
            self.skipTest("torchvision has no transforms.v2")
        self.equal(jittered(T.v2.ColorJitter))

    def test_a_program_draws_itself(self):
        class Jitter(T.ColorJitter):
            @staticmethod
            def get_params(*ranges):
                return [2, 0], 0.5, None, 1.5, None

        self.equal(jittered(Jitter))

    def test_tables(self):
        for kind in T.AutoAugment, T.RandAugment, T.TrivialAugmentWide:
            augment = kind()
            with self.subTest(kind.__name__):
                self.equal(lambda picture: drawn(
                    lambda: augment(picture.resize((40, 30))).tobytes()))

    def test_tables_are_made_once(self):
        augment = T.TrivialAugmentWide()

        def ask(picture):
            for _ in range(5):
                augment(picture)

        ours, stock = self.counted("linspace", ask)
        self.assertEqual(ours * 5, stock)

    def test_a_program_changes_the_tables(self):
        with on():
            augment = T.TrivialAugmentWide()
            first = augment._augmentation_space(31)
            del first["ShearX"]
            self.assertIn("ShearX", augment._augmentation_space(31))
            wanted = first["Rotate"][0].clone()
            first["Rotate"][0].zero_()
            second = augment._augmentation_space(31)
            self.assertTrue(torch.equal(second["Rotate"][0], wanted))

    def test_a_program_asks_for_a_table_with_a_list(self):
        wanted = T.RandAugment()._augmentation_space(10, [30, 40])
        with on():
            found = T.RandAugment()._augmentation_space(10, [30, 40])
        self.assertEqual(str(found), str(wanted))

    def test_installing_seeds_no_device(self):
        state = torch.get_rng_state()
        with mock.patch.object(torch.cuda, "manual_seed_all") as seeded:
            with on():
                pass
        seeded.assert_not_called()
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

    def test_another_torchvision(self):
        """One that draws otherwise stays as it is."""
        from headrace.dropin.torch import draws

        with on():
            self.assertTrue(draws.agree)
        with mock.patch.object(draws, "_middle", lambda *about: (0, 0, 1, 1)):
            with on():
                self.assertFalse(draws.agree)
            self.windows([2.0, 3.0], [1.5, 2.0])

    def test_a_worker_is_told(self):
        with on():
            workers = DataLoader(
                Asked(agrees), None, num_workers=1, collate_fn=as_is,
                multiprocessing_context="spawn")
            self.assertTrue(next(iter(workers)))

    def test_scripts(self):
        """TorchScript compiles the stock code."""
        picture = torch.arange(3 * 40 * 50).reshape(3, 40, 50).to(torch.uint8)
        for make in (
            lambda: T.ColorJitter(0.4, 0.4, 0.4, 0.1),
            lambda: T.RandomResizedCrop(16, antialias=True),
            T.TrivialAugmentWide,
        ):
            def run():
                torch.manual_seed(5)
                return torch.jit.script(make())(picture)

            wanted = run()
            with on():
                self.assertTrue(torch.equal(run(), wanted))
            self.assertTrue(torch.equal(run(), wanted))


if __name__ == "__main__":
    case.main()
