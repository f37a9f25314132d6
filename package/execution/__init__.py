"""Programs run step by step, with every row that is reached held against what the machine did."""
