"""Check the import rules of pyproject.toml; as a script, it runs in any environment.

python tools/lint_imports.py
"""

from importlinter.cli import lint_imports_command

if __name__ == "__main__":
    lint_imports_command()
