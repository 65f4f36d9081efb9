import pytest
import torch

from compare import assert_equal
from mha.kernels.layout import MOST_ROWS, REACH, copied_once, is_wide, strides, unit_of, with_unit_stride


def test_strides_of_axes_of_size_1_do_not_matter():
    x = torch.empty(1, 3, 5, 16).expand(2, 3, 5, 16)
    assert strides(x) == [0, 80, 16]
    assert strides(x, 8) == [0, 10, 2]
    assert strides(torch.empty(3, 1, 1, 7)) == [7, 0, 0]


@pytest.mark.parametrize(("width", "unit"), [(40, 8), (72, 8), (30, 1), (63, 1)])
def test_the_unit_divides_every_stride(width, unit):
    x, plain = torch.empty(2, 3, 5, width), torch.empty(2, 3, 5, 64)
    assert unit_of(x) == unit_of(plain, x, None) == unit
    assert unit_of(x[:1, :1, :1]) == 8


def test_the_last_axis_becomes_contiguous_and_nothing_else_is_copied():
    x = torch.randn(2, 3, 8, 8)
    turned = x.mT
    assert with_unit_stride(x.transpose(1, 2)).data_ptr() == x.data_ptr()
    assert with_unit_stride(turned).stride(-1) == 1
    assert_equal(with_unit_stride(turned), turned)
    assert with_unit_stride(x[..., ::8]).data_ptr() == x.data_ptr()  # one entry a row has no stride


@pytest.mark.parametrize("given", [torch.tensor(3.0), torch.randn(3, 1, 1)], ids=["one number", "one a head"])
def test_what_repeats_is_copied_once(given):
    x = given.expand(2, 3, 5, 7)
    found = copied_once(x)
    assert found.stride(-1) == 1
    assert found.untyped_storage().nbytes() == 4 * 7 * given.numel()
    assert_equal(found, x)


def test_wide_begins_before_an_offset_leaves_32_bits():
    memory = torch.empty(0, device="meta")
    far = REACH // (48 + MOST_ROWS)
    x, near = (memory.new_empty(1).as_strided((1, 1, 48, 16), (0, 0, step, 1)) for step in (far + 1, far - 2))
    assert is_wide(near, x, None)
    assert not is_wide(near)
