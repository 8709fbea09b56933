"""Compiles a part of the package with mypyc when a wheel is built with ``LOWTIDE_COMPILE=1`` in the environment.

Without it this does nothing, and needs nothing: the wheel is plain Python, and no compiler is asked for. With it, the
wheel has an extension module beside each source file of the list in pyproject.toml, and Python imports the extension.
An editable installation is never compiled: it is for changing the source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SETTINGS = """\
[mypy]
strict = True
mypy_path = .
explicit_package_bases = True
namespace_packages = True
follow_imports = silent
ignore_missing_imports = True
"""
_SETUP = """\
import sys
from mypyc.build import mypycify
from setuptools import setup

extensions = mypycify(["--config-file=mypy.ini", *sys.argv[2:]], opt_level="3", debug_level="0", group_name="lowtide")
setup(name="lowtide", packages=[], ext_modules=extensions, script_args=["build_ext", "--inplace"])
"""


def asked_for() -> bool:
    """Whether the environment asks for a compiled build."""
    return os.environ.get("LOWTIDE_COMPILE", "0") not in ("", "0")


def compile_modules(package: Path, place: Path, modules: list[str]) -> list[Path]:
    """Compile modules of ``package`` in a copy of it in ``place``, and return the extension modules."""
    shutil.copytree(package, place / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (place / "mypy.ini").write_text(_SETTINGS, encoding="utf-8")
    (place / "setup.py").write_text(_SETUP, encoding="utf-8")
    paths = [f"{module.replace('.', '/')}.py" for module in modules]
    subprocess.run([sys.executable, "setup.py", "build_ext", *paths], cwd=place, check=True)
    shutil.rmtree(place / "build")
    return sorted(place.rglob("*.so"))


class CompileHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the extension modules to the wheel."""

    def dependencies(self) -> list[str]:
        # mypyc reads the types of what the modules import, so that has to be there too.
        return [*self.config["requires"], *self.metadata.core.dependencies] if asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._place: Path | None = None
        if version == "editable" or not asked_for():
            return
        self._place = Path(tempfile.mkdtemp())
        found = compile_modules(Path(self.root) / "src" / "lowtide", self._place, self.config["modules"])
        build_data["force_include"].update({str(each): str(each.relative_to(self._place)) for each in found})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._place is not None:
            shutil.rmtree(self._place)
