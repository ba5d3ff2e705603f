"""Frozen retrievers under every rule for the temperature, and why they err.

frozen_retriever.py    trained weights on sets of any size, in bounded memory
accuracy.py            how often a model is right at one size, under every rule
temperature_rules.py   the rules by the names in tables
temperature_solver.py  temperatures that are solved for each row, by bisection
fits.py                the numbers that rules take from training sizes
class_offsets.py       how far the classes are out of line, and what that costs
top_item_weights.py    what the paper's Figure 2 shows
"""
