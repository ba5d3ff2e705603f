"""The study's records as Table 1, claims, figures and one page.

groups.py    records, sorted by setting and kind of weights
claims.py    what the study set out to show, judged by its numbers
tables.py    the tables
pictures.py  which figures there are; drawings.py draws them from plain numbers
page.py      the page; text.py has its words
"""
