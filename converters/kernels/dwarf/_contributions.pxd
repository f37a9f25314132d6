from ..shared._reads cimport Reader
