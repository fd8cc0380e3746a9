"""The trusted half of a sandbox that lives inside it: standard library only, small, single-threaded.

Its modules are joined into one script (`bundle.py`) that any Python from 3.10 on runs: as init of a namespace, as
the first process of a container, or as a plain process. It never runs model code itself: each program is a
child that has given up every privilege first.
"""
