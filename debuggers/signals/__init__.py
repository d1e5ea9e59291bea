"""Collects the signals from which causes are argued, at sampled steps of a training."""
