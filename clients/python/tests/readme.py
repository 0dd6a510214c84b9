"""Prints the first Python example of the README, or with ``output`` what it says that prints."""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
KINDS = {"code": "python", "output": "text"}

if __name__ == "__main__":
    found = re.search(rf"^```{KINDS[sys.argv[1]]}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)
    if found is None:
        sys.exit("the README has no example")
    sys.stdout.write(found[1])
