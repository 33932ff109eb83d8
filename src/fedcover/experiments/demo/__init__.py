"""The experiment of `fedcover demo`: five hospitals, real data, every method side by side.

- `data`: the hospitals, the model, and random splits of the records
- `results`: one repetition of every method, and what all repetitions gave
- `study`: the experiment, with its figures and tables
- `text`: numbers in words, what leaves each site, and the words explained
- `command`: runs it, writes the files, prints the table
"""
