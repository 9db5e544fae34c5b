"""Lab: `python -m minipaged.serving.ray pocket --replicas 2`."""

from minipaged.serving.ray.command import main

if __name__ == "__main__":
    main()
