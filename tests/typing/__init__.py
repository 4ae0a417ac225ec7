"""
What type checkers make of Kue.

The files here are checked and never run.  `wrong.py` lists uses that must be errors;
every other file has uses that must not be, with the types that they must have.
"""
