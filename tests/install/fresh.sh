#!/usr/bin/env bash
# usage: fresh.sh SOURCES [COMMAND]    (as root)
# In an empty Debian 12, with nothing but what its base has: installs Gleaner, runs the demonstration,
# types what README.md and docs/ say, and runs a few tests; or runs COMMAND in the repository's folder.
# SOURCES is a tar file of the repository.
#
# Packages come from where this machine gets them: its apt sources of Debian and what its apt
# configuration says of fetching are taken along.
set -euo pipefail
sources=$1
command=${2:-'
  ./dev install /opt/gleaner
  ./dev demo
  cmake --build --preset release --target gleaner_unit_alloc gleaner_unit_runtime \
    gleaner_bench_resident tree_fit_bench -- --quiet
  ctest --preset release -R "^unit[.](alloc|runtime)[.]|^documents[.]commands"
'}
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/gleaner-fresh.XXXXXX")
system=$folder/system
trap 'rm -rf --one-file-system "$folder"' EXIT

# Without such sources, for a machine with another system, mmdebstrap's own.
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' 'Origin: Debian' | grep -w bookworm >"$folder/sources.list" || true
apt-config dump | grep '^Acquire::' >"$folder/apt.conf" || true
[[ -s $folder/sources.list ]] || rm "$folder/sources.list"

echo "== making an empty Debian 12 in $system"
mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$folder/apt.conf" bookworm "$system" \
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
