"""Lab: `python -m minipaged.simulate`: serve a load at several rates."""

from minipaged.simulate.command import main

if __name__ == "__main__":
    main()
