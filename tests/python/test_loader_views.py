# SPDX-License-Identifier: Apache-2.0
"""headrace.Loader with several views of a picture."""

import unittest

import numpy

import headrace
from headrace import ops

import core_samples as samples
from test_loader import STEPS, TRAIN, loader



class Views(unittest.TestCase):
    LISTS = TRAIN, TRAIN, (ops.decode(), ops.random_resized_crop(20, 40),
                           ops.random_grayscale(0.5))

    def check(self, batches, seed):
        """Each view is what a Pipeline makes with its key."""
        count = 0
        for x, y in batches:
            self.assertEqual(len(x), 3)
            last = batches.last
            for view, tensor in enumerate(x):
                self.assertEqual(len(tensor), len(y))
                for i, key in enumerate(last.keys):
                    steps = self.LISTS[view]
                    path = batches.path(last.indices[i])
                    want = headrace.Pipeline(
                        steps, size=tensor.shape[3:1:-1], dtype="u8",
                        seed=seed)([path], indices=[key[1] * 3 + view],
                                   epoch=key[2]).numpy()[0]
                    numpy.testing.assert_array_equal(tensor[i], want)
                    drawn = headrace.Pipeline(
                        batches.drawn(i, view), size=tensor.shape[3:1:-1],
                        dtype="u8")([path]).numpy()[0]
                    numpy.testing.assert_array_equal(tensor[i], drawn)
                    count += 1
        return count

    def test_lists(self):
        paths = samples.photos()
        for options in {}, {"threads": 3}, {"cache": 1 << 26}, {"threads": 1}:
            batches = loader(
                [(path, 7) for path in paths], None, views=self.LISTS,
                dtype="u8", shuffle=True, seed=9, epochs=2, **options)
            for _ in range(2):
                self.assertEqual(self.check(batches, 9), 3 * len(paths))

    def test_a_number(self):
        paths = samples.photos()
        batches = loader(paths, TRAIN, views=2, dtype="u8", seed=3, epochs=1)
        one = loader(paths, None, views=[TRAIN], dtype="u8", seed=3, epochs=1)
        plain = loader(paths, TRAIN, dtype="u8", seed=3, epochs=1)
        for (x, _), ((y,), _), (z, _) in zip(batches, one, plain):
            self.assertEqual(x[0].shape, x[1].shape)
            self.assertFalse(numpy.array_equal(x[0], x[1]))
            numpy.testing.assert_array_equal(y, z)

    def test_going_on(self):
        def begin():
            return loader(samples.photos(), TRAIN, views=2, dtype="u8",
                          seed=4, shuffle=True)

        whole, half = begin(), begin()
        want = [[x.copy() for x in views] for views, _ in whole]
        next(iter(half))
        again = begin()
        again.load_state_dict(half.state_dict())
        for views, (x, _) in zip(want[1:], again):
            for a, b in zip(views, x):
                numpy.testing.assert_array_equal(a, b)

    def test_kept_batches_are_copies(self):
        batches = loader(samples.photos(), TRAIN, views=2, dtype="u8",
                         batch=1, epochs=1)
        kept = [(x, [view.copy() for view in x]) for x, _ in batches]
        for views, copies in kept:
            for a, b in zip(views, copies):
                numpy.testing.assert_array_equal(a, b)

    def test_refused(self):
        paths = samples.photos()
        for steps, views, text in (
            (TRAIN, [TRAIN], "steps must be None"), (TRAIN, 0, "views"),
            (TRAIN, 65, "views"), (None, [], "views"),
            (None, [TRAIN, STEPS], "dtype"),
            (None, [TRAIN, (ops.decode("L"), *TRAIN[1:])], "decode alike"),
            (None, [(ops.decode(),)], "sizes"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, text):
                next(iter(loader(paths, steps, views=views)))

    def test_no_such_view(self):
        for views, number in (None, 1), (2, 2), (2, -1):
            batches = loader(samples.photos(), TRAIN, views=views, dtype="u8")
            next(iter(batches))
            with self.assertRaisesRegex(headrace.ArgumentError, "view"):
                batches.drawn(0, number)

    def test_a_broken_picture(self):
        paths = [*samples.photos()[:2], b"no picture"]
        batches = loader([(path, 0) for path in paths], TRAIN, views=2,
                         dtype="u8", on_error="zero", batch=3, epochs=1)
        for x, _ in batches:
            self.assertEqual(
                [result.ok for result in batches.last.results],
                [True, True, False])
            self.assertFalse(x[0][2].any() or x[1][2].any())
