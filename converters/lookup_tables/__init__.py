"""Accelerated access: `.debug_aranges`, `.debug_pubnames`, `.debug_pubtypes` and GNU's variants."""
