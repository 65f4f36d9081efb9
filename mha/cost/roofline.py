"""What a machine makes of a count: it computes at one rate and moves bytes at another, and the slower one decides."""


def arithmetic_intensity(flops, nbytes):
    """Return the operations done for each byte moved.   Book: {eq}`arithmetic-intensity`."""
    if nbytes == 0:
        raise ValueError("nbytes is 0: expected at least 1, an intensity is operations for each byte moved")
    return _amount("flops", flops) / _amount("nbytes", nbytes)


def attainable_flops(intensity, *, peak, bandwidth):
    """Return the operations a second that a machine reaches at most, at this intensity.   Book: {eq}`roofline`.

    `peak` is its largest rate of operations and `bandwidth` its rate of bytes, both a second.
    """
    return min(_amount("peak", peak), _amount("intensity", intensity) * _amount("bandwidth", bandwidth))


def roofline_seconds(flops, nbytes, *, peak, bandwidth):
    """Return the least time of a piece of work: that of its operations or of its bytes.   Book: {eq}`roofline`."""
    peak, bandwidth = _rate("peak", peak), _rate("bandwidth", bandwidth)
    return max(_amount("flops", flops) / peak, _amount("nbytes", nbytes) / bandwidth)


def _amount(name, value):
    if not value >= 0:
        raise ValueError(f"{name} is {value}: expected a number of at least 0")
    return value


def _rate(name, value):
    if not value > 0:
        raise ValueError(f"{name} is {value}: expected a number above 0")
    return value
