from ._machine cimport Machine
from ..shared._reads cimport Reader
