"""`python -m argosy.cli` is `argosy`."""

from argosy.cli import main

if __name__ == "__main__":  # worker processes import this file again
    main()
