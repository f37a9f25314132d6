"""Where formats meet: whole files read and looked up."""
