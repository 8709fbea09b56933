"""``python -m lowtide`` is the command ``lowtide``."""

from lowtide.cli import main

if __name__ == "__main__":
    main()
