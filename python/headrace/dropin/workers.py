# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers of the drop-in.

What this file asks of tensor.py (imported inside functions, never at import):

``lazy_types() -> tuple[type, ...]``
    The exact classes of lazy tensors that exist in this process (LazyTensor,
    LazyTVImage). A lazy tensor is one sample, shape (C, H, W), **or a
    collated batch, shape (N, C, H, W)**: in a worker (``workers.in_worker()``)
    collating must not run a job and must not decode: it makes one lazy
    tensor of shape (N, C, H, W) that holds the N recordings. Any use of it
    inside the worker (a mix-up in the user's collate function) materialises
    it there with stock Pillow, as for a single one.
``record_of(lazy) -> object | None``
    A picklable recording (plain data: sources, ops, table bytes, dtype,
    shape, class of the result; no pixels, no open file). None where it was
    materialised already. Byte sources stay bytes-like objects.
``submit_batch(records: list) -> list[Handle]``
    In the process that owns the device: submits all samples of all records
    as one job and returns one handle per record. Waits only for room in the
    budget; never raises for a bad picture. Called on a thread of ours.
    Handle: ``result() -> Tensor`` waits and returns the tensor that stock
    would have made (plain, or tv_tensors.Image for an uncollated one), or
    raises what stock Pillow raises for the first bad sample, same type and
    text; ``cancel()`` any thread, any time, twice is harmless.
    A handle that is dropped cancels its job.
``plain(lazy) -> Tensor``
    Materialised here and now (in a worker with stock Pillow).

What tensor.py may ask of this file: ``in_worker() -> bool``.
``hooks() -> list[(owner, name, new)]`` for the list in hooks.py: owner is an
object (setattr) or a dict (item); a new value that wraps the old one calls
what stood there when ``hooks()`` was asked.
"""
