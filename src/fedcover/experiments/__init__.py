"""The paper's experiments, reproduced and surpassed: `fedcover reproduce`.

study.py       what an experiment is: settings, and rows of one repetition
room.py        repetitions over cores or Ray, resumable, the same for any number of workers
records.py     results as a parquet table with settings, versions and seeds
readings.py    what the paper's figures show, read by eye
federations.py the paper's federations, drawn anew for every repetition
compare.py     coverage of many methods on one draw
simulated.py, cifar10.py, imagenet.py, shift.py, privacy.py, theory.py
               one experiment each: its repetition, its figures, its agreement with the paper
"""
