"""Training of the paper's retrievers: deterministic in its config, resumable, and refusing damaged files.

trainer.py          `TrainConfig` and `Trainer`: one step after the other
gradient.py         loss and gradients of the fast retriever, written out
resumable.py        one run in its own folder: begin or continue, save, finish
checkpoint_file.py  tensors on disk that are whole and the right ones, or refused
"""
