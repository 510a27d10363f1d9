# Sourced by scripts/ferry and scripts/test: finds what is missing to build Ferry on Debian and Ubuntu, and installs it.
# All output goes to standard error: standard output belongs to the program that is run afterwards.

swift_minimum_major=6
swift_minimum_minor=2

stop() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 69 # EX_UNAVAILABLE of sysexits(3): the program did not run at all
}

require_swift() {
  local remedy="install Swift ${swift_minimum_major}.${swift_minimum_minor} or newer (https://www.swift.org/install/linux/) and put its usr/bin folder in PATH"
  command -v swift >/dev/null 2>&1 || stop "there is no Swift toolchain in PATH: ${remedy}"
  local text
  text=$(swift --version 2>/dev/null) || stop "'swift --version' fails; the toolchain is not whole: ${remedy}"
  [[ ${text} =~ Swift\ version\ ([0-9]+)\.([0-9]+) ]] || stop "the version of this Swift toolchain cannot be read: ${remedy}"
  local major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
  if ((major < swift_minimum_major || (major == swift_minimum_major && minor < swift_minimum_minor))); then
    stop "Swift ${major}.${minor} is too old: ${remedy}"
  fi
}

has_module() { pkg-config --exists "$1" >/dev/null 2>&1; }
has_file() { compgen -G "$1" >/dev/null; }

# Prints the packages that are missing for building.
missing_build_packages() {
  command -v pkg-config >/dev/null 2>&1 || printf '%s\n' pkg-config
  has_module libcurl || printf '%s\n' libcurl4-openssl-dev
  has_module sqlite3 || printf '%s\n' libsqlite3-dev
  has_module libcrypto || printf '%s\n' libssl-dev
  has_module zlib || printf '%s\n' zlib1g-dev
  has_module libsystemd || printf '%s\n' libsystemd-dev
  # What every Swift toolchain needs for linking, and some installations lack.
  [[ -e /usr/include/stdio.h ]] || printf '%s\n' libc6-dev
  has_file '/usr/lib/gcc/*/*/libstdc++.so' || printf '%s\n' g++
}

# Prints the packages that are missing for the tests: servers and clients to test against.
missing_test_packages() {
  [[ -x /usr/sbin/nginx ]] || command -v nginx >/dev/null 2>&1 || printf '%s\n' nginx-light
  command -v python3 >/dev/null 2>&1 || printf '%s\n' python3
  command -v curl >/dev/null 2>&1 || printf '%s\n' curl
  command -v openssl >/dev/null 2>&1 || printf '%s\n' openssl
  # Device conditions: services on a bus of the tests' own.
  command -v dbus-daemon >/dev/null 2>&1 || printf '%s\n' dbus
  [[ -d /usr/lib/python3/dist-packages/dbusmock ]] || printf '%s\n' python3-dbusmock
  # The units, which run under a `systemd --user` of the tests' own. The package alone makes it nobody's init.
  [[ -x /usr/lib/systemd/systemd || -x /lib/systemd/systemd ]] || printf '%s\n' systemd
}

# Prints the packages that are missing for counting what the daemon costs (Benchmarks/gates).
missing_gate_packages() {
  missing_test_packages
  command -v strace >/dev/null 2>&1 || printf '%s\n' strace
}

# install_packages NAME…: nothing for no names.
install_packages() {
  (($# > 0)) || return 0
  command -v apt-get >/dev/null 2>&1 ||
    stop "missing: $*; there is no apt-get here, so install what corresponds to these Debian packages by hand"
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null 2>&1 || stop "missing: $*; run as root: apt-get install $*"
    as_root=(sudo)
  fi
  printf 'Installing %s\n' "$*" >&2
  # Packages of servers start them at once, unless a policy says no (invoke-rc.d(8)). The tests start their own.
  local policy=/usr/sbin/policy-rc.d has_own_policy=
  if [[ ! -e ${policy} ]]; then
    has_own_policy=yes
    "${as_root[@]}" sh -c "printf '#!/bin/sh\nexit 101\n' > ${policy} && chmod 755 ${policy}"
  fi
  local get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
  local install=("${get[@]}" install -y -q --no-install-recommends "$@") result=0
  # On a fresh machine the lists of packages are empty or old.
  "${install[@]}" >&2 || { "${get[@]}" update -q >&2 && "${install[@]}" >&2; } || result=$?
  if [[ -n ${has_own_policy} ]]; then "${as_root[@]}" rm -f "${policy}"; fi
  ((result == 0)) || stop "apt-get could not install: $* (its messages are above)"
  if [[ " $* " == *" nginx-light "* ]] && command -v systemctl >/dev/null 2>&1; then
    "${as_root[@]}" systemctl disable nginx >/dev/null 2>&1 || true
  fi
}
