"""Imports torch, or says how to install it: the modules that need torch take it from here."""

from tracker_adapters.errors import MissingPackageError

try:
    import torch
except ImportError as error:
    raise MissingPackageError(
        "this part of stepscope needs torch, which is not installed: pip install 'stepscope[torch]'"
    ) from error

__all__ = ["torch"]
