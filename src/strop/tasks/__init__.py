"""Generators of problems: randomness arrives as a `torch.Generator`, and the same seed gives the same bytes."""
