"""minipaged: PagedAttention, learnt by building it.

`__init__.pyi` lists the public names, and where each is defined. To import this takes
milliseconds: a name is imported, and torch with it, when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
