"""From byte to rule: the records of a function, field by field, beside the rows that they make."""
