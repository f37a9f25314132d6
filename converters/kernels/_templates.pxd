from ._words cimport put_word
