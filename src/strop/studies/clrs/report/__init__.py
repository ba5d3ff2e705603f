"""The page of the CLRS-Text study.

tables.py    arms by region, comparisons with softmax, attention by digit
pictures.py  curves by algorithm and size
page.py      the page; verdict.py says what was found, text.py has the words
"""
