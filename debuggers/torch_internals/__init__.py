"""The only place that touches what torch does not document; each module is one subject.

Everything is bound once, on import, and passed on as it is: most of it is used in every step of a training. A name that
torch no longer has fails the import of its module. ``tests/debuggers/torch_internals`` says of each what it is expected
to do, and runs against the oldest torch that is supported and the newest.
"""
