"""Studies: questions about attention that are answered by training small models, from the first seed to the page.

A study is a frozen config (what its numbers depend on), a function that runs or continues it, and a result that
holds records and writes a report. Finished runs are kept under the content address of their config, so the same
call continues a study that was interrupted.

problems/    seeded problems of any size, each with a solver that is always right
networks/    the small models that the studies train
retrieval/   the paper's max-retrieval study (arXiv 2410.01104): `strop reproduce`
clrs/        the paper's CLRS-Text study: classical algorithms as text: `strop reproduce clrs-text`
arena/       every normaliser on the same tasks: `strop arena`
rivals/      every remedy on the same trained model: `strop rivals`

Import a study from its package: `from strop.studies.retrieval import Study, reproduce`.
"""

RUNS = "runs"
"""The folder of runs, unless another is named."""
