"""Confine this process, say what was enforced, then become the command. Run as a script only.

    python -I -S sandbox_launcher.py '<json>'

The parent may be multithreaded (torch), so nothing may happen between its fork and its exec; all of
the work is done here, in a fresh interpreter without site packages (10 ms). Steps that the machine
refuses are reported on `report_fd`, never hidden: the verdict lists them as not enforced.

Order matters: namespaces (their mounts) come before Landlock, which forbids mounting, and seccomp is
last, because it forbids what the steps before it need.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_CLONE_THREAD = 0x00010000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS = 1, 24, 28, 38
_PR_SET_SECCOMP = 22
_NOBODY = 65534

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15

# Denied with EPERM: number on x86-64, number on aarch64 (None: the call does not exist there).
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "unshare": (272, 97),
    "setns": (308, 268),
    "setsid": (112, 157),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "quotactl": (179, 60),
    "mknodat": (259, 33),
    "mknod": (133, None),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
# Answered with success and not done. A group of its own is what a build tool gives each command it starts, and gives up without;
# a process that did leave its group would outlive the end of the group.
_PRETENDED: dict[str, tuple[int | None, int | None]] = {"setpgid": (109, 154)}
_FORKS: dict[str, tuple[int | None, int | None]] = {"fork": (57, None), "vfork": (58, None)}
_CLONE, _CLONE3 = (56, 220), (435, 435)
LOCAL_SOCKETS = "local sockets"
"""Among the calls that are allowed: sockets of this machine that are connected to nobody and send nothing. NVIDIA's driver makes
one when it starts, and binds it."""
_AF_UNIX = 1
_REACHING: dict[str, tuple[int | None, int | None]] = {
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}


def main() -> None:
    """Confine, report, exec; never returns to a caller."""
    config = json.loads(sys.argv[1])
    status_fd = confine(config)
    # closed by a successful exec, so that nothing the command says can look like the launcher's words
    os.set_inheritable(config["report_fd"], False)
    if status_fd >= 0:
        os.set_inheritable(status_fd, False)
    command = config["command"]
    try:
        os.execve(command[0], command, config["env"])
    except OSError as error:
        why = f"cannot start {command[0]}: {error.strerror}"
        with contextlib.suppress(OSError):
            os.write(config["report_fd"], f"\n{json.dumps(why)}".encode())
        sys.stderr.write(f"{why}\n")
        os._exit(127)


def confine(config: dict[str, Any]) -> int:
    """Confine this process and report on `report_fd`; return the descriptor that must not outlive what is ours, or -1."""
    enforced: list[str] = []
    refused: list[str] = []

    def step(name: str, action: Callable[[], str | None]) -> bool:
        try:
            why = action()
        except OSError as error:
            why = error.strerror or str(error)
        (refused if why else enforced).append(f"{name}: {why}" if why else name)
        return not why

    die_with_parent()
    linux = sys.platform == "linux"
    spaces = linux and step("namespaces", _new_namespaces)
    if not linux:
        refused.append("namespaces: only on Linux")
    status_fd = -1
    if spaces:
        status_fd = _enter_pid_namespace()
        step("private /proc", _mount_proc)
    step("limits", lambda: _set_limits(config["rlimits"]))
    if linux:
        step("no new privileges", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1))
        step("no capabilities", _drop_capabilities)
        step("landlock", lambda: _landlock(config))
        step("seccomp", lambda: _seccomp(forks=config["forks"], calls=config.get("calls", ())))
    else:
        refused.extend(f"{name}: only on Linux" for name in ("landlock", "seccomp"))
    with contextlib.suppress(OSError):
        os.write(
            config["report_fd"], json.dumps({"enforced": enforced, "refused": refused}).encode()
        )
    return status_fd


def _prctl(option: int, value: int) -> str | None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        return os.strerror(ctypes.get_errno())
    return None


def die_with_parent() -> None:
    """Have the system end this process when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _new_namespaces() -> str | None:
    """User, mount, PID, network, IPC and UTS namespaces; the user is nobody inside."""
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET
    if _LIBC.unshare(flags | _CLONE_NEWIPC | _CLONE_NEWUTS):
        return os.strerror(ctypes.get_errno())
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{_NOBODY} {uid} 1")
    _write("/proc/self/gid_map", f"{_NOBODY} {gid} 1")
    return None


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _enter_pid_namespace() -> int:
    """Fork twice: an init that reaps, and the process that goes on; returns only in the latter.

    When init ends, the kernel kills everything left in the namespace.
    """
    read_end, write_end = os.pipe()
    init = os.fork()
    if init:
        os.close(write_end)
        _close_all_but(read_end)
        os.waitpid(init, 0)
        raw = os.read(read_end, 16)
        _end_as(int(raw) if raw else signal.SIGKILL)
    die_with_parent()
    worker = os.fork()
    if worker:
        _close_all_but(write_end)
        while True:
            pid, status = os.wait()
            if pid == worker:
                os.write(write_end, str(status).encode())
                os._exit(0)
    die_with_parent()
    os.close(read_end)
    return write_end


def _close_all_but(keep: int) -> None:
    """Leave pipes to the worker alone, so that their readers see its end."""
    for fd in range(3, 256):
        if fd != keep:
            with contextlib.suppress(OSError):
                os.close(fd)


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 125)


def _mount_proc() -> str | None:
    if _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return os.strerror(ctypes.get_errno())
    if _LIBC.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None):
        return os.strerror(ctypes.get_errno())
    return None


def _set_limits(limits: dict[str, int]) -> str | None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # one second between the soft and the hard CPU limit, so that the signal names the cause
        resource.setrlimit(which, (value, value + 1 if name == "CPU" and hard < 0 else value))
    return None


def _drop_capabilities() -> str | None:
    _LIBC.prctl(_PR_SET_SECUREBITS, 0x2F, 0, 0, 0)
    for capability in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", 0x20080522, 0)
    if _LIBC.capset(header, struct.pack("=6I", 0, 0, 0, 0, 0, 0)):
        return os.strerror(ctypes.get_errno())
    return None


def _landlock(config: dict[str, list[str]]) -> str | None:
    """Reads below `read`, names below `list`, all below `write`, nothing else; no TCP, no signals out."""
    abi = _LIBC.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if abi < 1:
        return "the kernel has no Landlock"
    everything = (1 << 13) - 1
    everything |= (1 << 13 if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    everything |= _IOCTL_DEV if abi >= 5 else 0
    attr = struct.pack("=QQQ", everything, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    attr = attr[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = _LIBC.syscall(_LANDLOCK_CREATE, attr, len(attr), 0)
    if rules < 0:
        return os.strerror(ctypes.get_errno())
    files = _EXECUTE | _WRITE_FILE | _READ_FILE | (everything & (_TRUNCATE | _IOCTL_DEV))
    wanted = [(path, _EXECUTE | _READ_FILE | _READ_DIR) for path in config["read"]]
    wanted += [(path, _READ_DIR) for path in config["list"]]
    wanted += [(path, everything) for path in config["write"]]
    for path, access in wanted:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = access if os.path.isdir(path) else access & files  # noqa: PTH112
        rule = struct.pack("=Qi", allowed, fd)
        failed = _LIBC.syscall(_LANDLOCK_ADD, rules, 1, rule, 0)
        os.close(fd)
        if failed:
            return f"{path}: {os.strerror(ctypes.get_errno())}"
    if _LIBC.syscall(_LANDLOCK_RESTRICT, rules, 0):
        return os.strerror(ctypes.get_errno())
    os.close(rules)
    return None


def _seccomp(*, forks: bool, calls: Sequence[str] = ()) -> str | None:
    """Deny sockets, tracing, mounting, new namespaces, key rings, ...; forks unless asked for. calls: allowed all the same."""
    machine = platform.machine()
    column = {"x86_64": 0, "aarch64": 1}.get(machine)
    if column is None:
        return f"no filter for {machine}"
    arch = (0xC000003E, 0xC00000B7)[column]
    load, equal, at_least, any_bit, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, allow = 0x80000000, 0x7FFF0000
    deny, unknown = 0x00050000 | 1, 0x00050000 | 38  # EPERM, ENOSYS
    pretend = 0x00050000  # no call, and no error

    def op(code: int, when_true: int, when_false: int, value: int) -> bytes:
        return struct.pack("=HBBI", code, when_true, when_false, value)

    program = [op(load, 0, 0, 4), op(equal, 1, 0, arch), op(ret, 0, 0, kill), op(load, 0, 0, 0)]
    if column == 0:  # the x32 calls share the architecture word
        program += [op(at_least, 0, 1, 0x40000000), op(ret, 0, 0, kill)]
    table = dict(_DENIED)
    if LOCAL_SOCKETS in calls:
        number = table.pop("socket")[column]
        table |= _REACHING
        program += [
            op(equal, 0, 4, number or 0),
            op(load, 0, 0, 16),
            op(equal, 0, 1, _AF_UNIX),
            op(ret, 0, 0, allow),
            op(ret, 0, 0, deny),
        ]
    if not forks:
        table |= _FORKS
        # glibc falls back to clone, whose flags a filter can read
        program += [op(equal, 0, 1, _CLONE3[column]), op(ret, 0, 0, unknown)]
        program += [
            op(equal, 0, 4, _CLONE[column]),
            op(load, 0, 0, 16),
            op(any_bit, 0, 1, _CLONE_THREAD),
            op(ret, 0, 0, allow),
            op(ret, 0, 0, deny),
        ]
    for calls_to, answer in ((table, deny), (_PRETENDED, pretend)):
        for numbers in calls_to.values():
            number = numbers[column]
            if number is not None:
                program += [op(equal, 0, 1, number), op(ret, 0, 0, answer)]
    program.append(op(ret, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(program))
    fprog = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code))
    if _LIBC.prctl(_PR_SET_SECCOMP, 2, fprog, 0, 0):
        return os.strerror(ctypes.get_errno())
    return None


if __name__ == "__main__":
    main()
