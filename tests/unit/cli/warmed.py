"""Imported before the forks that run commands: what each of them would import and make before it does anything."""

from __future__ import annotations

from functools import cache

import typer.main
from typer.testing import CliRunner

from lowtide.cli.app import app

typer.main.get_command = cache(typer.main.get_command)
assert CliRunner().invoke(app, ["stats", "--json", "/nowhere"]).exit_code == 2
