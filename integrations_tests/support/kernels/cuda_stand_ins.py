"""Stand-ins for the CUDA libraries that a wheel of torch links to: ``python cuda_stand_ins.py FOLDER``.

Most wheels of torch are published with CUDA alone, whose libraries are another 2 GB. With FOLDER on
LD_LIBRARY_PATH it computes on the CPU without them: every function returns 100, CUDA's error for "no device".
"""

import ctypes
import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def make_stand_ins(libraries: Path, folder: Path) -> None:
    """Compiles one library for each that those in ``libraries`` need, and that lies neither there nor in the system."""
    needed: set[str] = set()
    library_of: dict[str, str] = {}
    functions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for library in libraries.glob("*.so*"):
        needed |= {
            name for name in re.findall(r"NEEDED.*\[(.*)\]", _told("-d", library)) if not _is_there(name, library)
        }
        for of, versions in re.findall(r"File: (\S+)(.*?)(?=File:|\Z)", _told("-V", library), re.DOTALL):
            library_of |= dict.fromkeys(re.findall(r"Name: (\S+)", versions), of)
        for name, version in re.findall(r" UND ((?:cu|__cuda|nccl|nv)\w*)(?:@(\S+))?", _told("--dyn-syms", library)):
            functions[library_of.get(version, ""), version].add(name)
    source, script = folder / "stand_in.c", folder / "versions"
    folder.mkdir(parents=True, exist_ok=True)
    for name in needed:
        mine = {key: names for key, names in functions.items() if key[0] == name or not key[1]}
        source.write_text(
            "".join(f"int {function}(void) {{ return 100; }}\n" for function in set().union(*mine.values()))
        )
        script.write_text(
            "".join(
                f"{version} {{ global: {'; '.join(names)}; }};\n" for (_, version), names in mine.items() if version
            )
        )
        options = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
        command = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", *options, "-o", folder / name, source]
        subprocess.run(command, check=True)


def _is_there(name: str, library: Path) -> bool:
    if library.with_name(name).exists():
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _told(option: str, library: Path) -> str:
    return subprocess.run(["readelf", "-W", option, library], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    make_stand_ins(Path(torch.origin).parent / "lib", Path(sys.argv[1]))
