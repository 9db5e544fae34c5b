"""Lab: `python -m minipaged.serving pocket`, as `minipaged serve pocket`."""

import sys

from minipaged.serving.command import main

if __name__ == "__main__":
    main(["serve", *sys.argv[1:]])
