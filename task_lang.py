"""The import name of Task Lang in logic files: `import task_lang as task` (alias: `tasklang`)."""

from septran.tasklang import *
from septran.tasklang import __all__ as __all__
