#!/bin/sh
# The local delivery agent of GNU mailutils files messages through a Sieve script.
set -e
cat > filter.sieve <<'SIEVE'
require ["fileinto", "reject"];
if header :contains "Subject" "Important" { fileinto "important"; }
elsif size :over 4K { fileinto "large"; }
elsif header :matches "Subject" ["*spam*", "*SPAM*"] { discard; }
SIEVE
mkdir mail
for i in $(seq 12); do
  { echo "From: a@example.org"; echo "To: b@example.org"
    case $((i % 4)) in 0) echo "Subject: Important $i";; 1) echo "Subject: spam $i";; *) echo "Subject: news $i";; esac
    echo; seq $((i * 300)); } > "message-$i"
  /usr/sbin/mda --stderr --no-site-config --no-user-config --set "mailbox.mailbox-pattern=$PWD/mail/\${user}" \
    --from=a@example.org --language=sieve --script=filter.sieve "$(id -un)" < "message-$i" 2>&1 | sed "s,$PWD,,g"
done
ls mail
