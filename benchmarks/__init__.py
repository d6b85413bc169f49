"""How fast views are maintained, against recomputing them: `python -m benchmarks.run`."""
