"""Small models that the experiments train."""
