"""A safety net for refactorings: the answers of 5,000 small models, kept in `answers.csv`.

* `python -m tests.equality` asks every model again and lists what differs, with the command that
  reproduces one model: `python -m tests.equality --only NAME`.
* `python -m tests.equality --write --force` replaces the file. Do this only for a difference that
  is a corrected error, and say so in the commit message.
* `test_answers.py` compares a tenth of the models in every run of the tests.

`questions.py` contains all calls of the library whose answers are compared. If a method is renamed,
adapt that file; the answers must stay as they are.
"""
