"""Real models: `sharpened` puts another normaliser into one, `observed` and `probe` measure every head of one."""

from strop.hf.patch import sharpened

__all__ = ["sharpened"]
