"""Frozen models under every rule for the temperature, and why they err."""
