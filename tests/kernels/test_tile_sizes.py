import pytest

from compare import assert_equal
from mha.kernels.tile_sizes import CROWDED, SHARED_MEMORY, TABLE, padded, shared_memory, smaller, tile_size

NEWER = sorted(SHARED_MEMORY)


@pytest.mark.parametrize("kernel", TABLE)
@pytest.mark.parametrize("architecture", NEWER)
def test_every_width_up_to_256_has_a_tile_that_fits(kernel, architecture):
    for width in (1, 16, 40, 64, 96, 128, 200, 256) if kernel != "linear" else (64,):
        for itemsize in (2, 4):
            size = tile_size(kernel, architecture, width, itemsize=itemsize)
            row = padded(width) * itemsize // 2
            assert shared_memory(kernel, architecture, size, row) <= SHARED_MEMORY[architecture]
            assert min(size.bm, size.bn) >= 16, "tensor cores ask for 16 rows"


def test_rows_of_4_bytes_count_as_rows_twice_as_wide():
    assert tile_size("forward", 80, 64, itemsize=4) == tile_size("forward", 80, 128)


def test_what_does_not_fit_is_replaced_by_the_tile_of_an_older_architecture():
    """An sm_120 has the 99 KiB of an sm_89, and an entry for sm_100 may need more."""
    assert shared_memory("forward", 120, tile_size("forward", 100, 256), 256) > SHARED_MEMORY[120]
    assert tile_size("forward", 120, 256) == tile_size("forward", 80, 256)


def test_an_architecture_without_an_entry_takes_the_nearest_older_one():
    assert tile_size("forward", 86, 64) == tile_size("forward", 80, 64)
    assert tile_size("forward", 103, 64) == tile_size("forward", 100, 64)


@pytest.mark.parametrize("kernel", CROWDED)
@pytest.mark.parametrize("architecture", NEWER)
def test_a_crowded_tile_leaves_a_thread_few_scores(kernel, architecture):
    size, plain = tile_size(kernel, architecture, 128, crowded=True), tile_size(kernel, architecture, 128)
    assert size.bm * size.bn <= 32 * size.warps * CROWDED[kernel]
    assert size == smaller(kernel, plain)
    assert size[2:] == plain[2:]
    if kernel == "dkdv":
        assert size.bn == plain.bn, "the rows of its products"


def test_a_row_too_wide_is_refused_by_name():
    with pytest.raises(ValueError, match="width is 1024: no tile of the dq kernel fits"):
        tile_size("dq", 80, 1024)


def test_padded():
    assert_equal([padded(width) for width in (1, 16, 17, 40, 64, 65, 128, 129)], [16, 16, 32, 64, 64, 128, 128, 256])
