"""Data that depends on the machine: architectures, register names, relocation types, PLT stubs."""
