"""Every model family of transformers, tiny, under strop: `make families` fills docs/families.md.

configs.py     tiny configurations from the library's own classes; amendments.py: what some need besides
models.py      a class for every model type, with weights large enough for attention to matter
inputs.py      a batch that the model takes
watch.py       sees attention that is computed without strop, independently of strop
columns.py     what is done with each model
check.py       the untouched model against the same one under strop
workers.py     processes with a time limit, and results that survive a kill
page.py        the table
"""
