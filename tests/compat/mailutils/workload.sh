#!/bin/sh
# usage: workload.sh FILTER.SCM: the delivery agent of GNU mailutils runs a filter in Scheme, then one in
# Sieve that files every message into this directory or drops it; nothing reaches a real mailbox.
set -e
cat > filter.sieve <<SIEVE
require "fileinto";
if header :contains "Subject" "Important" { fileinto "$PWD/important"; }
elsif size :over 4K { fileinto "$PWD/large"; }
else { discard; }
SIEVE
for i in 1 2 3 4; do
  { echo "From: a@example.org"; echo "To: b@example.org"
    if [ $i = 2 ]; then echo "Subject: Important $i"; else echo "Subject: news $i"; fi
    echo; seq $((i * 500)); } > "message-$i"
  /usr/sbin/mda --stderr --from=a@example.org --language=scheme --script="$1" --language=sieve \
    --script="$PWD/filter.sieve" "$(id -un)" < "message-$i" 2>&1 | sed "s,$PWD,,g"
done
for mailbox in important large; do
  echo "$mailbox: $(grep -v -e '^From ' -e '^X-' < "$mailbox" | sha256sum)"
done
