"""Tidy records: one flat dict per row, kept as strict JSON lines, with where and how they were made.

files.py      atomic writes, JSONL and CSV
addresses.py  the content address of a frozen config
origin.py     versions, machine, commit and date
tensors.py    tensors as safetensors, whole or refused; needs the package safetensors
run.py        runs/<experiment>/<address>/: which runs are finished, and what they found

The rest is standard library only, and nothing here loads torch: the command line's --help stands on this.
"""

from strop.errors import DamagedFileError, RecordsError, StropError
from strop.records.addresses import LATER, address, canonical, short_id
from strop.records.files import (
    Record,
    Value,
    append,
    atomic_path,
    finite,
    read,
    read_csv,
    read_utf8,
    real,
    whole,
    write,
    write_bytes,
    write_csv,
    write_text,
)
from strop.records.origin import instruction_set, provenance
from strop.records.run import Run, runs

__all__ = [
    "LATER",
    "DamagedFileError",
    "Record",
    "RecordsError",
    "Run",
    "StropError",
    "Value",
    "address",
    "append",
    "atomic_path",
    "canonical",
    "finite",
    "instruction_set",
    "provenance",
    "read",
    "read_csv",
    "read_utf8",
    "real",
    "runs",
    "short_id",
    "whole",
    "write",
    "write_bytes",
    "write_csv",
    "write_text",
]


def __dir__() -> list[str]:
    return __all__
