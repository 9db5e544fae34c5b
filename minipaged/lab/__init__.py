"""What the notebooks draw and check; nothing in the package imports it.

Five wings: `pool` (the widget and the replay), `plots`, `measure`, `tour` (what leads
through a lesson: show, predict, break, prove) and `check` (of the exercises). Notebooks
import from here; `__init__.pyi` says where each name is defined.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
