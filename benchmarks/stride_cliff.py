"""How are rows loaded whose strides are no multiples of 16?   python benchmarks/stride_cliff.py

Needs no GPU: the forward kernel is compiled for several head widths, with strides in units of 8 as the package passes
them, and with plain ones. Counted in the PTX: copies of 16 bytes, smaller copies, and loads of one number.
"""

import sys
from importlib import import_module
from pathlib import Path
from unittest import mock

from provenance import provenance, write

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from compiled.calls import forward
from mha.kernels.ahead_of_time import compiling_for

WIDTHS = 40, 64, 72, 88, 120, 128
ARCHITECTURES = 80, 90
LAUNCHER = import_module("mha.kernels.dot_product.forward")


def row(architecture, width, unit):
    """Return what one forward kernel loads by; `unit` is what its strides are counted in, None for the package's."""
    choose = (lambda *tensors: unit) if unit else LAUNCHER.unit_of
    with mock.patch.object(LAUNCHER, "unit_of", choose), compiling_for(architecture) as launches:
        forward(architecture, width)
    (launch,) = launches
    wide, copies = launch.count("cp.async 16"), launch.count("cp.async")
    counts = {"copies_16_bytes": wide, "smaller_copies": copies - wide, "loads_2_bytes": launch.count("ld 16-bit")}
    return {"architecture": architecture, "width": width, "unit": launch.constants["UNIT"], **counts}


def main():
    rows = [row(a, width, unit) for width in WIDTHS for a in ARCHITECTURES for unit in (None, 1)]
    for found in rows:
        print(found)
    write("stride_cliff", {"provenance": provenance(("torch", "triton")), "note": "compiled, on no GPU", "rows": rows})


if __name__ == "__main__":
    main()
