"""The container's list of system calls."""

from __future__ import annotations

import json

from turngym.sandboxes.docker.syscalls import profile


def _allowed() -> dict[str, list[list[dict[str, int | str]]]]:
    found: dict[str, list[list[dict[str, int | str]]]] = {}
    for rule in json.loads(profile())["syscalls"]:
        if rule["action"] == "SCMP_ACT_ALLOW":
            for name in rule["names"]:
                found.setdefault(name, []).append(rule.get("args", []))
    return found


def test_the_rest_is_refused_and_nothing_is_named_twice() -> None:
    found = json.loads(profile())
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    names = found["syscalls"][0]["names"]
    assert len(names) == len(set(names))


def test_the_doors_that_most_often_led_out_are_shut() -> None:
    shut = """io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev bpf keyctl
        add_key request_key userfaultfd perf_event_open mount umount2 pivot_root setns unshare clone3 kexec_load
        init_module open_by_handle_at modify_ldt chroot memfd_secret fanotify_init"""
    assert not set(shut.split()) & set(_allowed())


def test_sockets_are_of_three_families() -> None:
    families = [args[0]["value"] for args in _allowed()["socket"]]
    assert families == [1, 2, 10]  # unix, inet, inet6: no vsock, packet or netlink
    assert [args[0]["value"] for args in _allowed()["socketpair"]] == [1]


def test_clone_makes_no_namespaces() -> None:
    (arguments,) = _allowed()["clone"]
    assert arguments[0]["op"] == "SCMP_CMP_MASKED_EQ"
    assert arguments[0]["valueTwo"] == 0
