# SPDX-License-Identifier: Apache-2.0
"""How sure a median of few noisy values is."""
import math
import statistics


def median_and_doubt(values):
    """The median, and twice its standard error.

    The spread is taken from the median of the distances, so that single
    values that are far off count no more than in the median itself: 1.4826
    times that is the deviation of normal values, of whose mean the error is
    1 / sqrt(n), of whose median 1.2533 times as much.
    """
    middle = statistics.median(values)
    spread = statistics.median(abs(x - middle) for x in values)
    return middle, 2 * 1.2533 * 1.4826 * spread / math.sqrt(len(values))
