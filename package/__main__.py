"""`python -m unwindkit` is the command."""

from .cli import run_program

if __name__ == "__main__":
    raise SystemExit(run_program())
