from ._reads cimport fixed
