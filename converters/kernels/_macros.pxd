from ._reads cimport Reader
from ._values cimport stored_value
