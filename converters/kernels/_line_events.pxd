from ._lines cimport Machine
from ._reads cimport Reader
