# What the suites of PostgreSQL's own sources share: getting and building them, a private server, untwin in front of it. Sourced by bash.
#
#   POSTGRES_SOURCES   a directory with PostgreSQL's sources, configured or not; otherwise `apt-get source postgresql-15`
#   TEST_UNTWIN_BINARY another untwin than cargo's debug build

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
major=15
server_programs=/usr/lib/postgresql/$major/bin
build=$root/target/external

fail() { printf '%s\n' "$*" >&2; exit 1; }

note() { printf '== %s\n' "$*"; }

# What makes a command run as the user that servers run as: PostgreSQL refuses to run as root.
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --reuid postgres --regid postgres --clear-groups --)

install_tools() {
  local packages=()
  [ -x $server_programs/postgres ] || packages+=(postgresql-$major)
  for tool in gcc make flex bison; do command -v $tool >/dev/null || packages+=($tool); done
  command -v dpkg-source >/dev/null || packages+=(dpkg-dev)
  [ -f /usr/include/readline/readline.h ] || packages+=(libreadline-dev)
  [ -f /usr/include/zlib.h ] || packages+=(zlib1g-dev)
  [ ${#packages[@]} = 0 ] && return
  note "installing ${packages[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# The sources of exactly the server that is installed, whether or not the system's own lists name sources.
download_sources() {
  local version lists=$build/apt
  version=$(dpkg-query -W -f '${Version}' postgresql-$major)
  rm -rf "$build/sources" "$lists"
  mkdir -p "$lists/parts" "$lists/lists/partial"
  sed -n 's/^deb /deb-src /p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null >"$lists/parts/sources.list" || :
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$lists/parts/$(basename "$file")"
  done
  local options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$lists/parts" -o "Dir::State::lists=$lists/lists" -o APT::Sandbox::User=root)
  note "getting the sources of postgresql-$major $version"
  apt-get "${options[@]}" update -qq
  (cd "$lists" && apt-get "${options[@]}" source -qq --download-only "postgresql-$major=$version" >/dev/null)
  dpkg-source --no-check -x "$lists/postgresql-${major}_${version#*:}.dsc" "$build/sources" >/dev/null
}

# Builds what is asked for, `make` directories below the sources; sets $sources.
build_sources() {
  mkdir -p "$build"
  install_tools
  sources=${POSTGRES_SOURCES:-$build/sources}
  [ -f "$sources/configure" ] || download_sources
  local installed
  installed=$($server_programs/postgres --version)
  # 3.4 (Debian …) has a fourth word and more.
  installed=$(printf '%s' "$installed" | cut -d' ' -f3)
  grep -q "^PACKAGE_VERSION='$installed'" "$sources/configure" ||
    fail "the sources in $sources are not those of the installed server, $installed"
  if [ ! -f "$sources/config.status" ]; then
    note "configuring"
    (cd "$sources" && ./configure --without-icu) >"$build/configure.log" 2>&1 || fail "see $build/configure.log"
  fi
  note "building $*"
  make -s -C "$sources/src/backend" generated-headers >"$build/make.log" 2>&1 || fail "see $build/make.log"
  local directory
  for directory; do
    make -s -C "$sources/$directory" all >>"$build/make.log" 2>&1 || fail "see $build/make.log"
  done
  untwin=${TEST_UNTWIN_BINARY:-$root/target/debug/untwin}
  [ -n "${TEST_UNTWIN_BINARY:-}" ] || cargo build --quiet --manifest-path "$root/Cargo.toml"
}

# A directory that the server can read and write; gone at the end, as are the processes.
prepare_work() {
  work=$(mktemp -d /tmp/untwin-external.XXXXXX)
  server_pid='' untwin_pid=''
  trap stop_all EXIT
  trap 'exit 1' HUP INT TERM
  give_to_server "$work"
}

give_to_server() {
  [ "$(id -u)" != 0 ] || chown -R postgres: "$1"
}

stop_all() {
  stop_untwin
  stop_server
  rm -rf "$work"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_server PORT: a new cluster, settings as pg_regress gives its own.
start_server() {
  "${unprivileged[@]}" $server_programs/initdb -D "$work/data" -U postgres -A trust --no-locale --no-sync >"$work/initdb.log" 2>&1 || {
    cat "$work/initdb.log"
    fail "no cluster"
  }
  cd "$work"
  "${unprivileged[@]}" $server_programs/postgres -D "$work/data" -k "$work" -p "$1" -c listen_addresses=127.0.0.1 -c fsync=off \
    -c max_prepared_transactions=2 -c max_connections=100 >"$work/server.log" 2>&1 </dev/null &
  server_pid=$!
  wait_for "$1"
}

wait_for() {
  local attempt
  for attempt in $(seq 200); do
    $server_programs/pg_isready -q -h 127.0.0.1 -p "$1" && return
    sleep 0.1
  done
  cat "$work"/*.log
  fail "nobody answers on port $1"
}

stop_server() {
  [ -z "$server_pid" ] || { kill -INT "$server_pid" && wait "$server_pid" || :; }
  server_pid=''
  rm -rf "$work/data"
}

# start_untwin PORT SERVER_PORT: with its defaults; its log is $work/untwin.log.
start_untwin() {
  rm -f "$work"/journal.jsonl*
  "$untwin" --upstream "postgres://127.0.0.1:$2" --listen "127.0.0.1:$1" --journal "$work/journal.jsonl" >"$work/untwin.log" 2>&1 </dev/null &
  untwin_pid=$!
  wait_for "$1"
}

stop_untwin() {
  [ -z "$untwin_pid" ] || { kill -INT "$untwin_pid" && wait "$untwin_pid" || :; }
  untwin_pid=''
}

# Whether untwin lived through all of it without a fault of its own.
assert_unharmed() {
  kill -0 "$untwin_pid" 2>/dev/null || { tail -n 20 "$work/untwin.log"; fail "untwin has ended"; }
  stop_untwin
  ! grep -n 'panick' "$work/untwin.log" || fail "untwin panicked"
  note "untwin's last words, and what it rekeyed:"
  tail -n 1 "$work/untwin.log"
  grep -c '"action":"rekeyed"' "$work/journal.jsonl" || :
}
