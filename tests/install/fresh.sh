#!/usr/bin/env bash
# usage: fresh.sh SUITE SOURCES [COMMAND]    (as root)
# In an empty Debian (SUITE: bookworm, trixie), with nothing but what its base has: installs Gleaner,
# runs a client of libgc on it, then the demonstration, types what README.md and docs/ say, and runs a
# few tests; or runs COMMAND in the repository's folder. SOURCES is a tar file of the repository.
#
# Packages come from where this machine gets them: its apt sources of Debian and what its apt
# configuration says of fetching are taken along.
set -euo pipefail
suite=$1
sources=$2
command=${3:-'
  ./dev install /opt/gleaner
  for package in libopenmpi-dev spin libgtest-dev libbenchmark-dev systemtap-sdt-dev libgc-dev; do
    ! dpkg -s "$package" >/dev/null 2>&1 || { echo "./dev install has brought $package"; exit 1; }
  done
  apt-get install -y -qq --no-install-recommends guile-3.0 >/dev/null
  /opt/gleaner/bin/gleaner run --stats guile -c "(display (length (iota 1000000))) (gc) (newline)"
  ./dev demo
  ./dev build release gleaner_unit_alloc gleaner_unit_runtime gleaner_benchmarks gleaner_example_leak
  ctest --preset release -R "^unit[.](alloc|runtime)[.]|^documents[.]commands"
'}
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/gleaner-fresh.XXXXXX")
system=$folder/system
trap 'rm -rf --one-file-system "$folder"' EXIT

# Those of this machine's release, with the other one's name. Without such sources, for a machine with
# another system, mmdebstrap's own.
own=$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' 'Origin: Debian' | grep -w "$own" | sed "s/\b$own\b/$suite/" \
  >"$folder/sources.list" || true
apt-config dump | grep '^Acquire::' >"$folder/apt.conf" || true
[[ -s $folder/sources.list ]] || rm "$folder/sources.list"

echo "== making an empty Debian ($suite) in $system"
mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$folder/apt.conf" "$suite" "$system" \
  $([[ -e $folder/sources.list ]] && echo "$folder/sources.list")
mkdir "$system/gleaner"
tar -C "$system/gleaner" -xf "$sources"
cp --dereference /etc/resolv.conf /etc/hosts "$system/etc/"

# A name space of mounts and processes: whatever is left over ends with it.
unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
  mount -t proc proc "$0/proc"
  mount --rbind /dev "$0/dev"
  mount --rbind /sys "$0/sys"
  exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euc "cd /gleaner; $1"
' "$system" "$command"
echo "== fresh: passed"
