"""The hub of tasks and questions: over A2A, over plain REST, and to agents elsewhere.

The A2A SDK installs a package of this name; the two share it (docs/decisions/a2a-name.md).
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
