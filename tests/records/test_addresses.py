from dataclasses import dataclass, field

import pytest

from strop import records


@dataclass(frozen=True)
class Inner:
    steps: int = 3


@dataclass(frozen=True)
class Config:
    seed: int = 0
    sizes: tuple[int, ...] = (5, 16)
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Other:
    steps: int = 3


def test_canonical_json_is_fixed():
    text = '{"class":"Config","inner":{"class":"Inner","steps":3},"seed":0,"sizes":[5,16]}'
    assert records.canonical(Config()) == text
    assert records.short_id(Config()) == records.address(Config())[:12] == "45e8ebf2190c"


def test_equal_configs_have_equal_addresses_and_others_do_not():
    assert records.address(Config()) == records.address(Config(seed=0, sizes=(5, 16)))
    assert records.address({"b": 1, "a": 2}) == records.address({"a": 2, "b": 1})
    different = [Config(), Config(seed=1), Config(inner=Inner(4)), Inner(), Other(), {"steps": 3}]
    assert len({records.address(config) for config in different}) == len(different)


@pytest.mark.parametrize(
    ("config", "place"),
    [({"a": [1, object()]}, r"config\['a'\]\[1\] must be"), ({"a": float("nan")}, r"config\['a'\] must be"),
     (Config(seed=1j), r"config\.seed must be"), ({1: 2}, "keys of config must be strings")],
)  # fmt: skip
def test_what_json_cannot_hold_is_refused_with_its_place(config, place):
    with pytest.raises(records.RecordsError, match=place):
        records.address(config)


def test_a_later_field_counts_only_when_it_is_not_its_default():
    @dataclass(frozen=True)
    class Shape:
        width: int
        spread: int = field(default=0, metadata=records.LATER)

    assert records.canonical(Shape(3)) == records.canonical(Shape(3, 0)) == '{"class":"Shape","width":3}'
    assert records.canonical(Shape(3, 5)) == '{"class":"Shape","spread":5,"width":3}'
