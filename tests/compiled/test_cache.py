import pytest

from compiled.expected import assert_sound, cases, compiled


@pytest.mark.parametrize(("call", "architecture", "width"), cases("decode"))
def test_decoding(call, architecture, width):
    launches = compiled(call, architecture, width)
    assert [launch.kernel for launch in launches] == ["split_kernel", "merge_kernel"]
    assert_sound(launches, newest=False)  # 16 rows are too few for wgmma and tcgen05
