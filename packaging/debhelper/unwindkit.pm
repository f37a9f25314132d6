# debhelper sequence file for unwindkit: dh --with unwindkit
use warnings;
use strict;
use Debian::Debhelper::Dh_Lib;

# After dh_strip, which would otherwise write the files again; before the tools that look at what the package contains.
insert_after("dh_strip", "dh_unwindkit");

1;
