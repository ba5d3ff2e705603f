"""Others' benchmarks as judges: lm-evaluation-harness asks and scores by its own code, before and after an edge.

verb.py       `judge_model`: a model, an edge and the name of a suite → a Judgement
bench.py      which tasks, lengths and documents
harness.py    the one file that knows lm-evaluation-harness: its documents, its generation, its scores
early_end.py  a generation ends once all that is looked for has been written
marks.py      one model's scores, cell by cell, kept on disk
compare.py    two models' scores side by side: intervals and paired tests
estimate.py   how long it will take
judgement.py  what is returned: tables, a summary, a page
"""
