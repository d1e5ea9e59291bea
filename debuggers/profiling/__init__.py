"""Where the time and the memory of a training go: timers, layers as told by a loop, bottlenecks and suggestions."""
