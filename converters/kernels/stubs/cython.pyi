"""What kernels use of Cython's pure-Python mode, as type checkers see it: C types are Python's."""

import builtins
from collections.abc import Callable
from typing import TypeAlias, TypeVar

compiled: bool

uchar: TypeAlias = builtins.int
ushort: TypeAlias = builtins.int
uint: TypeAlias = builtins.int
int: TypeAlias = builtins.int
longlong: TypeAlias = builtins.int
ulonglong: TypeAlias = builtins.int
void: TypeAlias = None

_Type = TypeVar("_Type")
_Function = TypeVar("_Function", bound=Callable[..., object])
_Class = TypeVar("_Class", bound=type)

def cfunc(function: _Function) -> _Function: ...
def ccall(function: _Function) -> _Function: ...
def inline(function: _Function) -> _Function: ...
def cclass(cls: _Class) -> _Class: ...
def final(cls: _Class) -> _Class: ...
def exceptval(value: builtins.int = ..., *, check: bool = ...) -> Callable[[_Function], _Function]: ...
def declare(type_: type[_Type], value: _Type) -> _Type: ...
def cast(type_: type[_Type], value: _Type) -> _Type: ...
