#!/bin/sh
# Stops the service before its programs go. Debian says "remove", rpm 0; an upgrade says something else.
set -e

case $1 in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now millrace.service
    fi
    ;;
esac
