"""The experiment of `fedcover demo`: five hospitals, real data, every method side by side.

- `data`: the hospitals, the model, and random splits of the records
- `results`: one repetition of every method, and what all repetitions gave
- `study`: the experiment, with its figures and tables
- `text`: numbers in words, and the words explained
- `disclosure`: what leaves each site, and what can be learned from it
- `command`: runs it, writes the files, prints the table
"""
