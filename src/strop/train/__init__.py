"""Training: deterministic in its config, resumable, and refusing damaged files."""
