import pytest

from compiled.expected import assert_sound, assert_wide_loads, cases, compiled


@pytest.mark.parametrize(("call", "architecture", "width"), cases("decode", "decode_drafts"))
def test_decoding(call, architecture, width):
    launches = compiled(call, architecture, width)
    assert [launch.kernel for launch in launches] == ["split_kernel", "merge_kernel"]
    assert_sound(launches, newest=False)  # 16 rows are too few for wgmma and tcgen05


@pytest.mark.slow
@pytest.mark.parametrize("call", ["decode", "decode_drafts"])
def test_strides_that_are_no_multiples_of_16(call):
    split, _ = compiled(call, 80, 72)
    assert_wide_loads(split)
