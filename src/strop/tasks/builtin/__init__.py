"""The built-in text tasks: a file each. Adding one changes no default."""
