"""`python -m strop`: the command line, for torchrun above all."""

from __future__ import annotations

from strop.cli import main

if __name__ == "__main__":
    main()
