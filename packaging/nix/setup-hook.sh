# A setup hook of nixpkgs' stdenv: the programs and libraries of every output get .sframe sections, after the files have
# been stripped. dontUnwindkit turns it off; unwindkitFlags are options of `unwindkit sframe`.
# shellcheck shell=bash
unwindkitAddSframe() {
  local output
  [ -z "${dontUnwindkit-}" ] || return 0
  for output in $(getAllOutputNames); do
    [ -d "${!output}" ] || continue
    unwindkit sframe --in-place "${!output}" --where-possible --check --no-debug-links -j "${NIX_BUILD_CORES:-1}" \
      --exclude '*.o' --exclude '*.a' --exclude '*.ko' --exclude '*.debug' ${unwindkitFlags-} || exit 1
  done
}

postFixupHooks+=(unwindkitAddSframe)
