#!/bin/bash
# A tidy file of makepkg: the programs and libraries in $pkgdir get .sframe sections, after strip.sh. The option
# `unwindkit` in OPTIONS or options turns it on or, as !unwindkit, off; UNWINDKIT_OPTIONS are those of `unwindkit sframe`.
[[ -n "$LIBMAKEPKG_TIDY_UNWINDKIT_SH" ]] && return
LIBMAKEPKG_TIDY_UNWINDKIT_SH=1

packaging_options+=('unwindkit')
tidy_modify+=('tidy_unwindkit')

tidy_unwindkit() {
	check_option "unwindkit" "y" || return 0
	msg2 "$(gettext "Adding .sframe sections...")"
	unwindkit sframe --in-place "$pkgdir" --where-possible --check --no-debug-links -j "$(nproc)" \
		--exclude '*.o' --exclude '*.a' --exclude '*.ko' --exclude '*.debug' "${UNWINDKIT_OPTIONS[@]}" || {
		error "$(gettext "Some .sframe sections could not be added.")"
		exit 1
	}
}
