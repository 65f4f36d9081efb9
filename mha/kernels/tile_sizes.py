"""How large a tile each kernel takes: one table by pass, architecture and width, and the check that a tile fits.

Every entry was compiled ahead of time: no register spills, and tensor-core instructions where the architecture has
them (benchmarks/compile_table.py writes what the compiler made of each).
"""

from typing import NamedTuple


class TileSize(NamedTuple):
    """Rows of queries and of keys in one tile, warps of a program, and tiles that are loaded ahead."""

    bm: int
    bn: int
    warps: int
    stages: int

    def options(self):
        """Return what a launch takes; products and sums join in one instruction, whatever a version's default."""
        return {"num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": True}


# Bytes of shared memory that one program may use, by compute capability.
SHARED_MEMORY = {75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 120: 101376}

# TABLE[pass][architecture][width of a 16-bit row] = queries, keys, warps, stages. A row serves all narrower widths too.
TABLE = {
    "forward": {
        75: {64: (32, 32, 4, 1), 128: (32, 32, 8, 1), 256: (16, 32, 8, 1), 512: (16, 16, 8, 1)},
        80: {64: (128, 64, 8, 2), 128: (128, 64, 8, 2), 256: (64, 32, 8, 2), 512: (32, 16, 8, 1)},
        90: {64: (128, 128, 8, 2), 128: (128, 64, 8, 2), 256: (128, 32, 8, 2), 512: (64, 16, 8, 1)},
        100: {64: (128, 64, 8, 2), 128: (128, 64, 8, 2), 256: (128, 32, 8, 2), 512: (64, 16, 8, 1)},
    },
    "dkdv": {
        75: {64: (32, 32, 8, 1), 128: (16, 16, 8, 1), 256: (16, 16, 8, 1), 512: (16, 16, 8, 1)},
        80: {64: (64, 32, 8, 2), 128: (32, 64, 8, 2), 256: (32, 32, 8, 2), 512: (16, 16, 8, 1)},
        90: {64: (64, 64, 8, 2), 128: (32, 64, 8, 2), 256: (32, 32, 8, 2), 512: (16, 16, 8, 1)},
        100: {64: (64, 64, 4, 1), 128: (64, 64, 8, 1), 256: (64, 64, 8, 1), 512: (16, 16, 8, 1)},
    },
    "dq": {
        75: {64: (32, 32, 8, 1), 128: (16, 16, 8, 1), 256: (16, 16, 8, 1), 512: (16, 16, 8, 1)},
        80: {64: (128, 32, 8, 2), 128: (64, 64, 8, 2), 256: (32, 32, 8, 2), 512: (16, 16, 8, 1)},
        90: {64: (128, 64, 8, 2), 128: (128, 64, 8, 2), 256: (64, 16, 8, 2), 512: (16, 16, 8, 1)},
    },
    "bias_gradient": {
        75: {64: (32, 32, 8, 1), 128: (16, 16, 8, 1), 256: (16, 16, 8, 1), 512: (16, 16, 8, 1)},
        80: {64: (32, 32, 8, 1), 128: (32, 16, 8, 1), 256: (16, 16, 8, 1), 512: (16, 16, 8, 1)},
    },
    "decode": {  # queries: the heads of one group, at least 16
        75: {64: (16, 32, 4, 1), 128: (16, 16, 4, 1), 256: (16, 16, 8, 1), 512: (16, 16, 8, 1)},
        80: {64: (16, 128, 4, 2), 128: (16, 64, 4, 2), 256: (16, 32, 4, 2), 512: (16, 16, 8, 1)},
    },
    "linear": {  # tokens of a chunk, and columns of a tile: rows of any width come in strips of one width
        75: {64: (32, 32, 4, 1), 128: (32, 32, 4, 1)},
        80: {64: (64, 64, 4, 2), 128: (32, 32, 4, 2)},
    },
}

# Scores of a tile that a thread holds at most where each takes registers of its own: for a bias, or for random bits.
CROWDED = {"forward": 8, "dq": 4, "dkdv": 4}

# Tiles in shared memory, (of queries' rows, of keys' rows): what stays there, and what every stage loads.
HELD = {"forward": (1, 0), "dkdv": (0, 2), "dq": (2, 0), "bias_gradient": (2, 0), "decode": (1, 0), "linear": (2, 2)}
STAGED = {"forward": (0, 2), "dkdv": (2, 0), "dq": (0, 2), "bias_gradient": (0, 2), "decode": (0, 2), "linear": (1, 0)}


def tile_size(kernel, architecture, width, *, itemsize=2, crowded=False):
    """Return the TileSize of a kernel for rows of `width` numbers of `itemsize` bytes; width is the wider of d and e.

    The newest entry that is no newer than the device and fits its shared memory is taken; `crowded` makes it smaller,
    for a call with a bias or dropout.
    """
    row = padded(width) * itemsize // 2
    limit = SHARED_MEMORY[_no_newer(SHARED_MEMORY, architecture)[0]]
    for entry in _no_newer(TABLE[kernel], architecture):
        wide_enough = [most for most in TABLE[kernel][entry] if most >= row]
        if not wide_enough:
            continue
        size = TileSize(*TABLE[kernel][entry][min(wide_enough)])
        if shared_memory(kernel, architecture, size, row) <= limit:
            return smaller(kernel, size) if crowded else size
    raise ValueError(f"width is {width}: no tile of the {kernel} kernel fits the {limit} bytes of sm_{architecture}")


def smaller(kernel, size):
    """Return the TileSize with so few scores a thread as CROWDED allows.

    dkdv keeps its keys and dq its queries as long as it can: the rows of their products.
    """
    while size.bm * size.bn > 32 * size.warps * CROWDED[kernel] and max(size[:2]) > 16:
        fewer_queries = {"forward": size.bm > size.bn, "dkdv": True, "dq": size.bn == 16}[kernel]
        halved = {"bm": size.bm // 2} if size.bm > 16 and fewer_queries else {"bn": size.bn // 2}
        size = size._replace(**halved)
    return size


def shared_memory(kernel, architecture, size, row):
    """Return the bytes of shared memory that a program needs, at most, with rows of `row` 16-bit numbers."""
    buffers = size.stages if architecture >= 90 else max(1, size.stages - 1)  # before sm_90 one stage is in registers
    queries, keys = (held + buffers * staged for held, staged in zip(HELD[kernel], STAGED[kernel], strict=True))
    return 2 * row * (queries * size.bm + keys * size.bn)


def padded(width):
    """Return the width that a tile has: the next power of two, at least 16, as tensor cores ask for."""
    return max(16, 1 << (width - 1).bit_length())


def _no_newer(table, architecture):
    """Return the architectures of a table that are no newer than the device, newest first."""
    return sorted((a for a in table if a <= architecture), reverse=True)
