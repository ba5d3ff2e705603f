from strop.engine import Failure, Serial


def half(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n // 2


def test_serial_keeps_the_order_and_reports_failures():
    (a, first), (b, second), (c, third) = Serial().map(half, [4, 5, 6])
    assert (a, first, b, c, third) == (4, 2, 5, 6, 3)
    assert isinstance(second, Failure)
    assert str(second) == "ValueError: 5 is odd"


def test_serial_runs_each_config_only_when_asked():
    ran = []
    results = Serial().map(ran.append, [1, 2])
    assert ran == []
    next(results)
    assert ran == [1]
