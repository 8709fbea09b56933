"""Updates: operators, replacements, and the initial documents of upserts."""

from lowtide.documents.updates.compiler import compile_update
from lowtide.documents.updates.replacement import compile_replacement
from lowtide.documents.updates.seeds import seed_of
from lowtide.documents.updates.update import AnyUpdate, Update

__all__ = ["AnyUpdate", "Update", "compile_replacement", "compile_update", "seed_of"]
