#!/usr/bin/env bash
# The tests of write tracking on the kernel of Debian 12 (6.1), which has soft-dirty bits and no
# asynchronous userfaultfd, in an emulated machine: run.sh BUILD. Needs qemu-system-x86 and
# busybox-static; the kernel is kept in BUILD/kernel, not installed. Takes some minutes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1")
work=$build/kernel
kernel=$(python3 -B "$here/../numa/debian_kernel.py" "$work")
[[ $kernel == */vmlinuz-6.1.* ]] || { echo "no kernel of Debian 12: $kernel" >&2; exit 1; }
busybox=$(command -v busybox)
cd "$work"

# Programs lie where they lie here, so that they find their libraries.
rm -rf root
mkdir -p root/{bin,proc,sys,dev,tmp}
cp "$busybox" root/bin/busybox
take() {
  local file
  for file in "$1" $(ldd "$1" | grep -oE '/[^ )]+' | sort -u); do
    mkdir -p "root$(dirname "$file")"
    cp -L "$file" "root$file"
  done
}
tests=$build/tests
modes=$tests/kernel/gleaner_kernel_modes
for file in "$modes" "$tests"/gleaner_{unit_platform,refusals_test,modes_test,torture_graph_torture} \
            "$build"/lib/gleaner/libgc.so.1; do
  take "$file"
done

# What varies with the time that things take in an emulated machine is left to other tests.
cat > root/init <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t cgroup2 none /sys/fs/cgroup && echo +memory > /sys/fs/cgroup/cgroup.subtree_control
# check NAME COMMAND...: only the result is shown, unless it fails.
check() {
  name=\$1; shift
  if "\$@" > /tmp/log 2>&1; then echo "kernel-test: passed \$name: \$(tail -n 1 /tmp/log)"
  else echo "kernel-test: FAILED \$name"; tail -n 60 /tmp/log; fi
}
uname -sr
export TEST_PATIENCE=10
export GLEANER_CONCURRENT=1 GLEANER_GENERATIONAL=1
check auto $modes 1 1 mprotect
GLEANER_WRITE_TRACKING=mprotect check mprotect $modes 1 1 mprotect
GLEANER_RESERVE=64g GLEANER_WRITE_TRACKING=cards check cards $modes 1 1 cards
GLEANER_WRITE_TRACKING=userfaultfd check userfaultfd $modes 0 0 none
GLEANER_WRITE_TRACKING=soft-dirty check soft-dirty $modes 0 1 soft-dirty
unset GLEANER_CONCURRENT GLEANER_GENERATIONAL
check trackers $tests/gleaner_unit_platform --gtest_filter='*Tracking*:*Fallback*:*SoftDirty*:-*ManyScattered*'
check modes $tests/gleaner_modes_test
check refusals $tests/gleaner_refusals_test --gtest_filter='Refusals*:FaultHandler*:OrdinaryUser*'
for setting in GLEANER_CONCURRENT=1:mprotect GLEANER_GENERATIONAL=2:mprotect GLEANER_GENERATIONAL=2:soft-dirty; do
  export \${setting%:*} GLEANER_WRITE_TRACKING=\${setting#*:} GLEANER_SHORT_PAUSE=0
  export GLEANER_MARK_VERIFY=1 GLEANER_COLLECT_EVERY=1m
  check torture:\$setting $tests/gleaner_torture_graph_torture --seed 1 --seconds 10 --threads 2 --nodes 60
  unset GLEANER_CONCURRENT GLEANER_GENERATIONAL
done
echo "kernel-test: over"
poweroff -f
INIT
chmod +x root/init
(cd root && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) > initrd.gz

# Without AVX2: tests/numa/machine.py says why.
timeout 3000 qemu-system-x86_64 -accel tcg,thread=multi -cpu max,avx2=off -m 1500M -smp 2 -kernel "$kernel" \
  -initrd initrd.gz -append "console=ttyS0 quiet panic=-1" -nodefaults -display none -vga none \
  -net none -serial stdio -no-reboot < /dev/null | tee console.log
grep -q "kernel-test: over" console.log && ! grep -q "kernel-test: FAILED" console.log
