"""Take finished runs of the CLRS-Text study into the package: python tools/bundle_clrs.py RUNS [NAME …]."""

from __future__ import annotations

import sys
from pathlib import Path

import strop.studies.clrs
from strop.studies.clrs import read_clrs
from strop.studies.clrs.bundled import BUNDLED, write_bundled

if __name__ == "__main__":
    for name in sys.argv[2:] or BUNDLED:
        result = read_clrs(BUNDLED[name](), sys.argv[1])
        write_bundled(result, Path(strop.studies.clrs.__file__).with_name(f"results_{name}.json.gz"))
        print(name, result.standing)
