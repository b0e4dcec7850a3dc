# SPDX-License-Identifier: Apache-2.0
"""erase and random_erasing, against torch's assignment and torchvision."""

import io
import random
import unittest

import headrace
import numpy as np
from headrace import _core, _oracle, ops
from PIL import Image

W, H = 50, 40
NORMALIZE = ops.normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def _file(seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (H, W, 3))
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def _made(steps, source, key=None, **how):
    out = _core.Batch(1, 3, H, W, **how)
    _core.submit([(source, tuple(steps), key)], out).wait()
    return np.array(out)[0]


def _block(rnd, w, h):
    noise = np.random.default_rng(rnd.randrange(1 << 30))
    return noise.normal(100, 90, 3 * w * h).astype(np.float32).tobytes()


def _erase(rnd):
    x, y = rnd.randrange(W + 5), rnd.randrange(H + 5)
    w, h = rnd.randrange(W), rnd.randrange(H)
    how = rnd.choice([
        {},
        {"value": rnd.uniform(-9, 300)},
        {"value": tuple(rnd.uniform(-9, 300) for _ in range(3))},
        {"values": _block(rnd, w, h)},
        {"noise": rnd.randrange(1, 1 << 31)},
    ])
    return ops.erase(x, y, w, h, **how)


class Erase(unittest.TestCase):
    def test_lists(self):
        """Several rectangles, types and layouts: as NumPy assigns."""
        seed = random.randrange(1 << 30)
        rnd = random.Random(seed)
        source = _file(seed)
        picture = Image.open(io.BytesIO(source)).convert("RGB")
        for _ in range(150):
            erases = [_erase(rnd) for _ in range(rnd.randrange(1, 4))]
            dtype = rnd.choice(["f32", "f16", "u8"])
            layout = rnd.choice(["nchw", "nhwc"])
            first = [] if dtype == "u8" else [NORMALIZE]
            want = _oracle.apply(picture, first + erases)
            if dtype == "u8":
                want = want.transpose(2, 0, 1)
            elif dtype == "f16":
                want = want.astype(np.float16)
            if layout == "nhwc":
                want = want.transpose(1, 2, 0)
            got = _made([ops.decode(), *first, *erases], source, dtype=dtype,
                        layout=layout)
            self.assertTrue(np.array_equal(got, want), (seed, erases, dtype))

    def test_torch(self):
        """As torchvision's erase() does."""
        try:
            import torch
            from torchvision.transforms import functional as F
        except ImportError:
            self.skipTest("torchvision is not installed")
        rnd = random.Random(random.randrange(1 << 30))
        source = _file(3)
        plain = torch.from_numpy(_made([ops.decode(), NORMALIZE], source))
        for _ in range(50):
            x, y, w, h = (rnd.randrange(1, 30) for _ in range(4))
            h, w = min(h, H - y), min(w, W - x)
            value = torch.randn(3, 1, 1)
            op = ops.erase(x, y, w, h, value=value.flatten().tolist())
            if rnd.random() < 0.5:
                value = torch.randn(3, h, w)
                op = ops.erase(x, y, w, h, values=value.numpy())
            want = F.erase(plain, y, x, h, w, value)
            got = _made([ops.decode(), NORMALIZE, op], source)
            self.assertTrue(np.array_equal(got, want.numpy()), op)

    def test_random(self):
        """The draws' distribution; their list of ops makes the same."""
        source = _file(5)
        op = ops.random_erasing(0.7, value="random", scale=(0.1, 0.2))
        share, drawn = [], 0
        for i in range(300):
            key = (7, i, 1)
            plain = _core.draw_ops((ops.decode(), NORMALIZE, op), key, W, H)
            for _, x, y, w, h, *_rest in plain[2:]:
                drawn += 1
                share.append(w * h / (W * H))
                self.assertTrue(0 <= x <= W - w and 0 <= y <= H - h)
            if i < 20:
                got = _made((ops.decode(), NORMALIZE, op), source, key)
                again = _made(plain, source)
                self.assertTrue(np.array_equal(got, again))
        self.assertTrue(160 < drawn < 260, drawn)
        self.assertTrue(0.09 < min(share) and max(share) < 0.21)

    def test_draw_keeps_buffers(self):
        """A list that was drawn has the table and the blocks it had."""
        table = ops.table(np.zeros((3, 256), np.float32).tobytes())
        block = ops.erase(1, 2, 3, 4, values=b"1234" * 36)
        steps = (ops.decode(), table, ops.random_erasing(1.0), block,
                 ops.erase(1, 1, 2, 2))
        drawn = _core.draw_ops(steps, (1, 2, 3), W, H)
        self.assertEqual((drawn[1], drawn[3]), (table, block))

    def test_refused(self):
        for op, words in (
            (ops.erase(-1, 0, 2, 2), "erase: x must be 0"),
            (ops.erase(0, 0, 2, 2, value=float("nan")), "not finite"),
            (ops.erase(0, 0, 2, 2, values=b"12345678"), "erase: 8 bytes"),
            (ops.random_erasing(1.5), "random_erasing: p must be 0 .. 1"),
            (ops.random_erasing(0.5, scale=(0.1, 2.0)), "scale must be"),
        ):
            with self.assertRaisesRegex(headrace.ArgumentError, words):
                _made((ops.decode(), op), _file(1), (1, 2, 3))
        with self.assertRaisesRegex(headrace.ArgumentError, '"random"'):
            ops.random_erasing(value="noise")
        with self.assertRaisesRegex(headrace.ArgumentError, "must stand"):
            _core.output_size((ops.decode(), ops.erase(0, 0, 1, 1),
                               ops.flip()), 5, 5)

    def test_pipeline(self):
        """The numbers are float32 where normalize stands before an erase."""
        size = ops.center_crop(8)
        random_one = ops.random_erasing(1.0, value=(1.0, 2.0, 3.0))
        make = headrace.Pipeline(
            (ops.decode(), size, ops.normalize(), random_one))
        self.assertEqual(make.dtype, "f32")
        make = headrace.Pipeline((ops.decode(), size, random_one))
        self.assertEqual(make.dtype, "u8")

    def test_text(self):
        text = "decode,to_tensor,erase=1,2,3,4,random_erasing=0.25"
        self.assertEqual(ops.text(ops.parse(text)), text)
        for text in "erase=1,2,3,4,hflip", "random_erasing,to_tensor":
            with self.assertRaisesRegex(
                    headrace.ArgumentError, "cannot follow"):
                ops.parse(text)


if __name__ == "__main__":
    unittest.main()
