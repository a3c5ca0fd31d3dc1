#!/usr/bin/env bash
# Find Chromium, or install it: as root on Debian and its kin, and with sudo in continuous integration.
set -eo pipefail

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done

superuser=()
if [ "$(id -u)" -ne 0 ]; then
    superuser=(sudo -n)
fi
if command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || [ "$CI" = true ]; }; then
    echo "installing chromium for the tests of the site"
    if "${superuser[@]}" apt-get -qq update >/dev/null &&
        DEBIAN_FRONTEND=noninteractive "${superuser[@]}" apt-get -qq install -y chromium >/dev/null </dev/null; then
        exit 0
    fi
    echo "chromium could not be installed" >&2
fi
if [ "$CI" = true ]; then
    exit 1
fi
echo "no Chromium was found: the browser tests will be skipped; install chromium to run them"
