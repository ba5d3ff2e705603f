"""Experiments: a frozen config, a list of runs, `run(config)` → records."""
