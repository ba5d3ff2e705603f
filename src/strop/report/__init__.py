"""Records → tables, figures and one self-contained HTML page.

format.py   numbers, mean ± sd, p-values as text: the one place that decides how a number looks
tables.py   Table: one table for terminal, HTML, Markdown and CSV
layout.py   which columns of a table a terminal has room for, and where their words wrap
figures.py  matplotlib house style, deterministic SVG and PNG (extra `report`)
curves.py   curves against size, a panel for each task
markup.py   paragraphs, code and tables as HTML
page.py     Page: sections, figures, tables and data in one HTML file that needs no network
"""
