"""`python -m hardmax` is the `hardmax` command."""

from hardmax.cli.main import run

if __name__ == "__main__":
    run()
