"""Builds the compiled code; everything else about the package is said in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("adapters/tracker_adapters/native")
KERNELS = Extension(
    "tracker_adapters.native._kernels",
    sources=sorted(map(str, SOURCES.glob("*.c"))),
    depends=sorted(map(str, SOURCES.glob("*.h"))),
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    # Products must not be fused with sums: the result would depend on the processor.
    extra_compile_args=["-std=c11", "-O3", "-g0", "-ffp-contract=off", "-fvisibility=hidden"],
    py_limited_api=True,
    optional=True,  # the package works without, more slowly
)

setup(ext_modules=[KERNELS], options={"bdist_wheel": {"py_limited_api": "cp311"}})
