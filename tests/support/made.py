# SPDX-License-Identifier: Apache-2.0
"""The engines that made a sample, by its result or manifest; made.h in Python.

Equal pixels prove nothing about a device: the CPU makes the samples that it
does not take. Every comparison of a device counts with this, and fails on the
sentences of faults(). Standard library only.
"""
import collections

STAGES = ("entropy", "reconstruct", "color", "resample", "augment", "store")
# In the words of HR_WHY_MAP: the device was refused before it began, or was
# left while it worked.
REFUSED = "its pictures differed when it was tested"
LEFT = ("the device failed", "the device did not answer in time",
        "the device is gone", "the device failed too often and rests",
        "the device gave wrong pictures and is not used")


def span(first, last):
    """The stages from first to last as bits; both included."""
    return (2 << STAGES.index(last)) - (1 << STAGES.index(first))


ENTROPY = span("entropy", "entropy")
DECODED = span("reconstruct", "store")  # of an encoded sample
RESAMPLED = span("resample", "store")   # of pixels, and of a PNG
HOST = ("cpu", "cache")  # names in spans that are no device's


def stages_of(spans):
    """Returns the stages of a manifest's "spans" that engines other than the
    CPU did."""
    bits = 0
    for s in spans:
        if s["device"] not in HOST:
            first, _, last = s["span"].partition("..")
            bits |= span(first, last or first)
    return bits


class Count:
    """Samples, and how many a device made to the end."""

    def __init__(self):
        self.samples = self.encoded = self.decoded = 0
        self.entropy = 0  # encoded ones, from their bytes on
        self.pixels = self.resampled = self.fallbacks = 0
        self.begun = self.whole = 0  # by a device; from resample to the end
        self.reasons = collections.Counter()

    def add(self, stages, reasons, fallbacks, encoded):
        self.samples += 1
        self.fallbacks += fallbacks
        self.reasons.update(reasons)
        self.begun += bool(stages)
        self.whole += stages & RESAMPLED == RESAMPLED
        if encoded:
            self.encoded += 1
            self.decoded += stages & DECODED == DECODED
            self.entropy += bool(stages & ENTROPY)
        else:
            self.pixels += 1
            self.resampled += stages & RESAMPLED == RESAMPLED

    def note(self, result, encoded):
        """A result of the package's, or of headrace.validate's."""
        stages = 0
        for first, last, device in result.spans:
            stages |= span(first, last) * (device not in HOST)
        self.add(stages, result.why, result.fallbacks, encoded)

    def merge(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def words(self, device):
        text = (f"{self.samples} samples; reconstruct..store of {self.decoded} "
                f"of {self.encoded} encoded ones by {device}")
        if self.pixels:
            text += (f", resample..store of {self.resampled} of {self.pixels} "
                     "that were pixels")
        return text + f"; to the end: {self.whole} of {self.begun} begun"

    def faults(self, device, least=0.5, whole=0.0, entropy=False):
        """Why this proves nothing about the device; least: share of the
        encoded samples that it must have decoded, entropy: from their bytes
        on; whole: share of the samples that it began, and must have made to
        the end."""
        faults = []
        if self.reasons[REFUSED]:
            faults.append(f"{self.reasons[REFUSED]} samples were not {device}"
                          f"'s: {REFUSED}")
        for reason in LEFT:
            if self.reasons[reason]:
                faults.append(f"{self.reasons[reason]} samples were left by "
                              f"{device}: {reason}")
        if self.encoded and (not self.decoded or
                             self.decoded < least * self.encoded):
            faults.append(f"reconstruct..store of only {self.decoded} of "
                          f"{self.encoded} encoded samples by {device}")
        if entropy and self.entropy < least * max(self.encoded, 1):
            faults.append(f"entropy coding of only {self.entropy} of "
                          f"{self.encoded} encoded samples by {device}")
        if self.pixels and not self.resampled:
            faults.append(f"resample..store of 0 of {self.pixels} samples "
                          f"by {device}")
        if whole and self.whole < whole * max(self.begun, 1):
            faults.append(f"only {self.whole} of {self.begun} samples to the "
                          f"end by {device}")
        if not self.samples:
            faults.append("no samples at all")
        return faults
