"""Where runs execute: one interface, several places.

    for config, result in Local().map(run, configs):      # in the order in which they end
        if isinstance(result, Failure): ...

base.py    Engine, Failure
serial.py  in this process, one after the other
local.py   processes of this machine, one a core
cluster.py Ray: a Ray cluster (extra `ray`); import it from there
"""

from strop.engine.base import Engine, Failure
from strop.engine.local import Local
from strop.engine.serial import Serial

__all__ = ["Engine", "Failure", "Local", "Serial"]


def __dir__() -> list[str]:
    return __all__
