from ._reads cimport Reader
