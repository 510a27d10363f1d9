#!/usr/bin/env bash
# user_units.sh PROGRAMS ROOT FOLDER: installs the units with scripts/install-units under a systemd --user of its own, and
# tells what happens, a line each. To be run in mount and process namespaces of its own: unshare --mount --pid --fork
# --kill-child. FOLDER is empty, and becomes the home.
set -euo pipefail
programs=$1 root=$2 home=$3
fixtures=${root}/Tests/DaemonTests/Fixtures

mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
# systemctl(1) and sd_booted(3) look for this folder.
mkdir -p /run/systemd/system "/run/user/${EUID}"
chmod 700 "/run/user/${EUID}"
export XDG_RUNTIME_DIR=/run/user/${EUID} HOME=${home} XDG_CONFIG_HOME=${home}/.config XDG_STATE_HOME=${home}/.local/state
unset DBUS_SESSION_BUS_ADDRESS FERRY_HOME
export FERRY_DAEMON=${programs}/ferryd
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
state() { systemctl --user is-active "$1" || true; }
ferry() { "${programs}/ferry" "$@"; }

wait_for systemctl --user is-active default.target

# A daemon that a client has started makes room for the units.
ferry get --detach http://127.0.0.1:9/never >/dev/null 2>&1
"${root}/scripts/install-units" --program "${programs}/ferryd" 2>/dev/null
printf 'socket %s\n' "$(state ferryd.socket)"
printf 'before %s\n' "$(state ferryd.service)"
printf 'tasks %s\n' "$(ferry list | grep -c never)"
printf 'after %s\n' "$(state ferryd.service)"
first=$(main_process)
printf 'same %s\n' "$(ferry daemon status --json | grep -c "\"pid\" *: *${first}\b")"

# An app that is launched lives on when its daemon dies, and is found again.
printf 'x' >"${home}/file"
python3 -u -m http.server --bind 127.0.0.1 --directory "${home}" 0 >"${home}/server" 2>&1 &
wait_for grep -q 'port [0-9]' "${home}/server"
port=$(sed -nE 's/.* port ([0-9]+).*/\1/p' "${home}/server")
ferry app register org.example.units --exec /usr/bin/python3 "${fixtures}/background_app.py" "${home}/book" hang >/dev/null
python3 "${fixtures}/protocol_client.py" run --app org.example.units --no-acknowledge "http://127.0.0.1:${port}/file" \
  >/dev/null
wait_for test -s "${home}/book"
app=$(sed -nE 's/.*"started".*"pid": ([0-9]+).*/\1/p' "${home}/book")
# It is in a scope of its own.
scope=app-ferry-org.example.units-${app}.scope
is_scoped() { grep -q "/app.slice/${scope}\$" "/proc/${app}/cgroup"; }
wait_for is_scoped
printf 'scope %s %s\n' "$(state "${scope}")" "$(grep -c "${app}" "$(find /sys/fs/cgroup -path '*ferryd.service/cgroup.procs' | head -n 1)" || true)"
kill -9 "${first}"
restarted() { local now; now=$(main_process); [[ ${now} != 0 && ${now} != "${first}" ]]; }
wait_for restarted
wait_for systemctl --user is-active ferryd.service
printf 'restarted\n'
is_found() { ferry app show org.example.units --json | grep -q "\"processID\" *: *${app}\b"; }
wait_for is_found
kill -0 "${app}" && printf 'launched %s\n' "$(grep -c '"started"' "${home}/book")"

# A daemon that is stopped with all of its control group does not take the app along.
mkdir -p "${XDG_CONFIG_HOME}/systemd/user/ferryd.service.d"
printf '[Service]\nKillMode=control-group\n' >"${XDG_CONFIG_HOME}/systemd/user/ferryd.service.d/kill.conf"
systemctl --user daemon-reload
systemctl --user restart ferryd.service
kill -0 "${app}" && printf 'outlives %s\n' "$(state "${scope}")"
kill -9 "${app}"
is_gone() { [[ $(state "${scope}") == inactive ]]; }
wait_for is_gone
printf 'scope gone\n'

# Who starts the service learns that it cannot start.
systemctl --user stop ferryd.service ferryd.socket
printf 'stopped %s\n' "$(state ferryd.service)"
database=${XDG_STATE_HOME}/ferry/ferry.sqlite
rm -f "${database}"* && mkdir "${database}"
systemctl --user start ferryd.service 2>/dev/null && printf 'it started?\n' || printf 'refused %s\n' "$?"
