#!/usr/bin/env bash
# user_units.sh PROGRAMS ROOT FOLDER: installs the units with scripts/install-units under a systemd --user of its own, and
# tells what happens, a line each. To be run in mount and process namespaces of its own: unshare --mount --pid --fork
# --kill-child. FOLDER is empty, and becomes the home.
set -euo pipefail
programs=$1 root=$2 home=$3

mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
# systemctl(1) and sd_booted(3) look for this folder.
mkdir -p /run/systemd/system "/run/user/${EUID}"
chmod 700 "/run/user/${EUID}"
export XDG_RUNTIME_DIR=/run/user/${EUID} HOME=${home} XDG_CONFIG_HOME=${home}/.config XDG_STATE_HOME=${home}/.local/state
unset DBUS_SESSION_BUS_ADDRESS FERRY_HOME FERRY_DAEMON
systemd=$(ls /usr/lib/systemd/systemd /lib/systemd/systemd 2>/dev/null | head -n 1)
"${systemd}" --user >"${home}/systemd.log" 2>&1 &

# Until the command succeeds, at most 20 s.
wait_for() {
  local tries=200
  until "$@" >/dev/null 2>&1; do
    ((tries-- > 0)) || { printf 'not in time: %s\n' "$*"; cat "${home}/systemd.log"; exit 1; }
    read -r -t 0.1 <> <(:) || true # sleep: nothing tells when systemd is there
  done
}
main_process() { systemctl --user show -p MainPID --value ferryd.service; }

wait_for systemctl --user is-active default.target
"${root}/scripts/install-units" --program "${programs}/ferryd" 2>/dev/null
printf 'socket %s\n' "$(systemctl --user is-active ferryd.socket)"
printf 'before %s\n' "$(systemctl --user is-active ferryd.service || true)"
"${programs}/ferry" list
printf 'after %s\n' "$(systemctl --user is-active ferryd.service || true)"
first=$(main_process)
printf 'same %s\n' "$("${programs}/ferry" daemon status --json | grep -c "\"pid\" *: *${first}\b")"
kill -9 "${first}"
restarted() { local now; now=$(main_process); [[ ${now} != 0 && ${now} != "${first}" ]]; }
wait_for restarted
"${programs}/ferry" list
printf 'restarted\n'
systemctl --user stop ferryd.service ferryd.socket
printf 'stopped %s\n' "$(systemctl --user is-active ferryd.service || true)"
