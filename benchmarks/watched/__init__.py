"""The parts of ``benchmarks/watched_step.py``: models, sides, the stepping in pairs, and what is made of the times."""
