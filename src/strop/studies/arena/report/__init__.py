"""The arena's board as tables, figures and one page.

tables.py    leaderboard, tasks, cost
pictures.py  which figures there are; drawings.py draws them from plain numbers
page.py      the page; text.py has its words
"""
