"""Speed and memory as ratios in one run (spec 10.1): `make bench`. Prints; never asserts."""
