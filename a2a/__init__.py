"""The hub of tasks and questions, and A2A.

The A2A SDK installs a package of this name; the two share it (docs/decisions/a2a-name.md).
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
