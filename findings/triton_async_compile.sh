#!/usr/bin/env bash
# triton 3.5.0 and 3.7.1: AsyncCompileMode stays on after a compile error.
# Behaviour: if a kernel fails to compile, leaving `with AsyncCompileMode(...)` raises
#   that error, but the mode stays active: the next `with` raises "Another
#   AsyncCompileMode is already active".
# One would guess: after the block is left, by an error too, the mode is over.
# For users: one kernel with an error ends asynchronous compiling for the rest of the
#   thread's life. From 3.6 on, AsyncCompileMode(..., ignore_errors=True) avoids it;
#   3.9.0 leaves the mode.
# Seen on 2026-11-28:
#   triton 3.5.0 ['ValueError: a kernel does not compile', 'RuntimeError: Another
#     AsyncCompileMode is already active']
#   triton 3.7.1 ['ValueError: a kernel does not compile', 'RuntimeError: Another
#     AsyncCompileMode is already active']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/finding.py" <<'END'
from concurrent.futures import ThreadPoolExecutor

import triton


def fails():
    raise ValueError("a kernel does not compile")


def compiled(kernel):
    pass


seen = []
with ThreadPoolExecutor(1) as executor:
    for _ in range(2):
        try:
            with triton.AsyncCompileMode(executor) as mode:
                mode.submit("a kernel", fails, compiled)
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
print("triton", triton.__version__, seen)
assert seen == [
    "ValueError: a kernel does not compile",
    "RuntimeError: Another AsyncCompileMode is already active",
]
END
for version in 3.5.0 3.7.1; do
    "$folder/venv/bin/pip" install --quiet triton==$version
    "$folder/venv/bin/python" -I "$folder/finding.py"
done
