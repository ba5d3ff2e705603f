"""The version, for the package and for the provenance of its records."""

__version__ = "0.1.0"
