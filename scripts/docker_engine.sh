#!/usr/bin/env bash
# Gives a Debian machine a container engine and the image of the `docker` backend. Run as root; safe to repeat.
#   scripts/docker_engine.sh          install what is missing, start the engine, build the image
# The image holds Debian's own Python. It is made from the package mirror that this machine's apt uses, once; the
# archive is kept in ${XDG_CACHE_HOME:-~/.cache}/turngym. Elsewhere: docker build -t turngym-sandbox sandboxes/docker
set -euo pipefail

IMAGE=${TURNGYM_IMAGE:-turngym-sandbox}
WAIT_S=60
LOG=$(mktemp -t turngym-engine.XXXXXX)

fail() {
    echo "docker_engine: $*" >&2
    if [ -s "$LOG" ]; then
        echo "docker_engine: the end of $LOG:" >&2
        tail -n 15 "$LOG" >&2
    fi
    exit 1
}

install_packages() {
    local missing=()
    command -v dockerd > /dev/null || missing+=(docker.io)
    for name in debootstrap iptables; do
        command -v "$name" > /dev/null || missing+=("$name")
    done
    command -v bwrap > /dev/null || missing+=(bubblewrap)
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get > /dev/null || fail "install ${missing[*]}: there is no apt-get here"
    apt-get update > "$LOG" 2>&1 || true # one source that is out of reach need not stop the others
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >> "$LOG" 2>&1 ||
        fail "cannot install ${missing[*]}"
}

start_engine() {
    docker info > /dev/null 2>&1 && return 0
    [ -z "${DOCKER_HOST:-}" ] || fail "no engine answers at DOCKER_HOST=$DOCKER_HOST"
    dockerd_bin=$(command -v dockerd) || fail "there is no dockerd"
    setsid "$dockerd_bin" > "$LOG" 2>&1 < /dev/null &
    local pid=$!
    for _ in $(seq $((WAIT_S * 5))); do
        docker info > /dev/null 2>&1 && return 0
        kill -0 "$pid" 2> /dev/null || fail "dockerd has ended"
        sleep 0.2
    done
    fail "dockerd does not answer after $WAIT_S s"
}

build_image() {
    docker image inspect "$IMAGE" > /dev/null 2>&1 && return 0
    local codename cache archive
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/turngym
    archive=$cache/sandbox-$codename-$(dpkg --print-architecture).tar
    [ -s "$archive" ] || make_archive "$codename" "$archive"
    docker import --change 'LABEL turngym.disk=one' "$archive" "$IMAGE" >> "$LOG" 2>&1 || fail "cannot import $archive"
}

make_archive() {
    local codename=$1 archive=$2 mirror work
    mirror=$(apt-get indextargets --format '$(REPO_URI)' \
        'Created-By: Packages' 'Component: main' "Codename: $codename" | head -n 1)
    [ -n "$mirror" ] || fail "apt knows no mirror of $codename: run apt-get update"
    mkdir -p "$(dirname "$archive")"
    work=$(mktemp -d -t turngym-image.XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib "$codename" "$work" "$mirror" >> "$LOG" 2>&1 ||
        fail "cannot make a Debian system from the mirror of this machine"
    rm -rf "$work"/var/cache/apt/* "$work"/var/lib/apt/lists/* "$work"/tmp "$work"/var/tmp "$work"/usr/share/doc/*
    mkdir -p "$work/sandbox"
    ln -s /sandbox/tmp "$work/tmp"
    ln -s /sandbox/tmp "$work/var/tmp"
    ln -s /usr/bin/python3 "$work/usr/local/bin/python3" # where Python's own images have it
    ln -s /usr/bin/python3 "$work/usr/local/bin/python"
    rm -f "$work"/dev/* 2> /dev/null || true
    tar -C "$work" -c --one-file-system -f "$archive.part" . >> "$LOG" 2>&1 || fail "cannot write $archive"
    mv "$archive.part" "$archive"
}

command -v docker > /dev/null && docker image inspect "$IMAGE" > /dev/null 2>&1 && {
    rm -f "$LOG"
    exit 0
}
[ "$(id -u)" = 0 ] || fail "run as root: an engine is to be installed and started"
install_packages
start_engine
build_image
docker image inspect "$IMAGE" > /dev/null || fail "the image $IMAGE is not there"
