from ..shared._reads cimport Reader
from ..shared._values cimport stored_value
