#!/bin/sh
# Makes the service's user. The service itself is neither enabled nor started: that is the administrator's to say.
set -e

if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers millrace.conf
elif ! getent passwd millrace >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/millrace --shell /usr/sbin/nologin millrace
fi

if [ -f /etc/millrace/millrace.toml ]; then
  chgrp millrace /etc/millrace/millrace.toml
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # An upgrade: one that runs becomes the new version.
  systemctl try-restart millrace.service
fi
