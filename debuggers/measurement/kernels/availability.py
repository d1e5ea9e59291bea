"""Whether the compiled measuring code can be used."""

import logging
from functools import cache

from tracker_adapters.native.extension import kernels, why_not

logger = logging.getLogger(__name__)


@cache
def is_usable() -> bool:
    """Whether the compiled code can be used; says once why not."""
    if kernels() is not None:
        return True
    logger.warning("measures with torch operations, tens of times slower: %s", why_not())
    return False
