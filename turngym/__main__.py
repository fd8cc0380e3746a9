"""`python -m turngym`: the command, where its script is not on the path."""

from turngym.cli import main

if __name__ == "__main__":
    main()
