"""`.cfi_*` directives."""
