from ..array_types cimport U64_2D, U8
from ._machine cimport Machine
from ..shared._reads cimport Reader
