"""Memory for the kernels of ptx_machine.py: global buffers, the shared memory of a work-group, the
local memory of its work-items.

Each access is checked: it must be inside one buffer or variable, and aligned to its size ([PTX ISA]
"Addresses as Operands"). Two neighbouring bytes of shared memory are one place. Each place stores
which warps wrote and read it since the last barrier. Another warp may only access it after both
have met at a barrier. Writing the same word twice is no race.
"""
import numpy as np

from ptx_text import PtxError

# Windows of generic addresses ([PTX ISA] "Generic Addressing"): one each for shared and local
# memory, and buffers 64 GiB apart.
SHARED_WINDOW, LOCAL_WINDOW, BUFFER_SHIFT = 1 << 33, 1 << 34, 36
SEVERAL = 99  # in place of a warp's number: several warps have read


def aligned(addresses, size, what):
    if (addresses % np.uint64(size)).any():
        raise PtxError(f"{what}: address {int(addresses[addresses % np.uint64(size) != 0][0])} is no multiple of {size}")


class Buffers:
    """Global memory: numpy arrays, each at its own address. Kernels access copies."""

    def __init__(self):
        self.sizes, self.bytes = [], []

    def place(self, array):
        data = np.frombuffer(array.tobytes(), np.uint8)
        self.sizes.append(len(data))
        self.bytes.append(np.concatenate([data, np.zeros(-len(data) % 16, np.uint8)]))
        return len(self.sizes) << BUFFER_SHIFT

    def content(self, address, dtype):
        n = (address >> BUFFER_SHIFT) - 1
        return self.bytes[n][:self.sizes[n]].view(dtype)

    def _each(self, addresses, size, what):
        """Returns (bytes of a buffer, offsets, which of the addresses) for each addressed buffer.
        """
        aligned(addresses, size, what)
        numbers, offsets = (addresses >> np.uint64(BUFFER_SHIFT)).astype(np.int64) - 1, addresses & np.uint64((1 << BUFFER_SHIFT) - 1)
        for n in np.unique(numbers):
            chosen = numbers == n
            if not 0 <= n < len(self.sizes) or int(offsets[chosen].max()) + size > self.sizes[n]:
                raise PtxError(f"{what}: {size} bytes at {int(offsets[chosen].max())} of buffer {n + 1}, which has "
                               f"{self.sizes[n] if 0 <= n < len(self.sizes) else 'no'} bytes")
            yield self.bytes[n], offsets[chosen].astype(np.int64), chosen

    def load(self, addresses, size, what):
        """One row of bytes for each address."""
        rows = np.empty((len(addresses), size), np.uint8)
        for data, offsets, chosen in self._each(addresses, size, what):
            rows[chosen] = data.view(f"V{size}")[offsets // size].view(np.uint8).reshape(-1, size)
        return rows

    def store(self, addresses, rows, what):
        size = rows.shape[1]
        for data, offsets, chosen in self._each(addresses, size, what):
            data.view(f"V{size}")[offsets // size] = np.ascontiguousarray(rows[chosen]).view(f"V{size}")[:, 0]


class Shared:
    """Variables have exactly their declared alignment, with a gap between any two. Unwritten memory
    is NaN in every type."""

    def __init__(self, variables):
        self.places, at = {}, 1024
        for name, (align, size) in variables.items():
            at = (at + 2 * align - 1) // (2 * align) * 2 * align + align
            self.places[name] = at
            at += (size + 15) // 16 * 16 + 16
        self.variables, self.count = variables, (at + 16) // 2
        self.reset()

    def reset(self):
        self.bytes = np.full(2 * self.count, 0xff, np.uint8)
        self.words = self.bytes.view(np.uint16)
        self.inside, self.flying = np.zeros(self.count, bool), np.zeros(self.count, bool)
        self.writer, self.reader, self.unfenced = (np.zeros(self.count, np.int16) for _ in range(3))
        for name, (_, size) in self.variables.items():
            self.inside[self.places[name] // 2:(self.places[name] + size + 1) // 2] = True

    def meet(self):
        """All work-items have met at a barrier."""
        self.writer[:], self.reader[:] = 0, 0

    def _units(self, addresses, size, what):
        aligned(addresses, size, what)
        first = (addresses >> np.uint64(1)).astype(np.int64)
        units = first[:, None] + np.arange((size + 1) // 2)
        if first.min() < 0 or int(units.max()) >= self.count or not self.inside[units].all():
            raise PtxError(f"{what}: outside all variables of shared memory")
        return units

    def note_read(self, units, warps, what):
        own = (warps + 1).astype(np.int16)[:, None]
        if self.flying[units].any():
            raise PtxError(f"{what}: reads what cp.async was not yet waited for")
        if ((self.writer[units] != 0) & (self.writer[units] != own)).any():
            raise PtxError(f"{what}: reads what another warp wrote since the last barrier")
        before = self.reader[units]
        now = np.where((before == 0) | (before == own), own, SEVERAL)
        self.reader[units] = now
        self.reader[units[self.reader[units] != now]] = SEVERAL

    def load(self, addresses, size, warps, what):
        """One row of bytes for each address. A single byte is read with its neighbour."""
        units = self._units(addresses, size, what)
        self.note_read(units, warps, what)
        rows = self.words[units].view(np.uint8)
        return rows if size > 1 else rows[np.arange(len(rows)), (addresses & np.uint64(1)).astype(np.int64)][:, None]

    def note_write(self, units, words, warps, what):
        """words: the new contents, or None if unknown."""
        own = (warps + 1).astype(np.int16)[:, None]
        others = ((self.writer[units] != 0) & (self.writer[units] != own)) | ((self.reader[units] != 0) & (self.reader[units] != own))
        if others.any() and (words is None or (self.words[units] != words)[others].any()):
            raise PtxError(f"{what}: writes what another warp read or wrote since the last barrier")
        self.writer[units] = own

    def store(self, addresses, rows, warps, threads, what):
        size = rows.shape[1]
        units = self._units(addresses, size, what)
        if size == 1:
            raise PtxError(f"{what}: stores of single bytes are not known here")
        words = np.ascontiguousarray(rows).view(np.uint16)
        self.note_write(units, words, warps, what)
        self.words[units] = words
        if (self.words[units] != words).any():
            raise PtxError(f"{what}: two work-items write different words to one place")
        self.unfenced[units] = (threads + 1)[:, None]

    # cp.async: the place is reserved when the copy begins, and has its words once it was waited
    # for.
    def begin_copy(self, addresses, size, warps, what):
        units = self._units(addresses, size, what)
        self.note_write(units, None, warps, what)
        self.flying[units] = True

    def end_copy(self, addresses, rows, warps, threads, what):
        self.flying[self._units(addresses, rows.shape[1], what)] = False
        self.store(addresses, rows, warps, threads, what)

    # Reads of the async proxy ([PTX ISA] "Async proxy") must follow the write and a fence by the
    # writer.
    def fence(self, threads):
        """fence.proxy.async of these work-items."""
        self.unfenced[np.isin(self.unfenced, threads + 1)] = 0

    def load_async(self, addresses, warp, what):
        """16-bit numbers, read by the four warps starting with `warp`."""
        units = self._units(addresses.ravel().astype(np.uint64), 2, what)
        for w in range(warp, warp + 4):
            self.note_read(units, np.full(len(units), w), what)
        if self.unfenced[units].any():
            raise PtxError(f"{what}: reads what was written without a fence.proxy.async behind it")
        return self.words[units].reshape(addresses.shape)


class Local:
    """Variables of each work-item."""

    def __init__(self, variables, lanes):
        self.places, at = {}, 0
        for name, (align, size) in variables.items():
            at = (at + align - 1) // align * align
            self.places[name] = at
            at += size
        self.bytes = np.full((lanes, at), 0xff, np.uint8)

    def _columns(self, addresses, size, what):
        aligned(addresses, size, what)
        if int(addresses.max()) + size > self.bytes.shape[1]:
            raise PtxError(f"{what}: outside local memory")
        return addresses.astype(np.int64)[:, None] + np.arange(size)

    def load(self, addresses, size, lanes, what):
        return self.bytes[lanes[:, None], self._columns(addresses, size, what)]

    def store(self, addresses, rows, lanes, what):
        self.bytes[lanes[:, None], self._columns(addresses, rows.shape[1], what)] = rows
