"""What a family needs beyond the general rules: sizes that depend on each other in a way of its own."""

from __future__ import annotations

from typing import Any

AMENDMENTS: dict[str, dict[str, Any]] = {}
