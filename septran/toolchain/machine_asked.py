"""What a judged file asks of the machine it runs on: where the answer is another, so may be what it computes.

Read from the object, in what the host function can come to; a demonstration beside it may look at clocks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from septran.host.reached import Reached, reached
from septran.own_tool import run_tool
from septran.toolchain.built import Built

_ASKS: Mapping[str, str] = {
    "the environment": r"(secure_)?getenv|_{0,2}environ|(un)?setenv|putenv|clearenv",
    "signals": r"(bsd_|sysv_)?signal|sigaction|sigprocmask|pthread_sigmask|sigaltstack|setitimer|u?alarm|timer_create",
    "another state of its process": (
        r"setrlimit\d*|nice|setpriority|sched_set\w+|pthread_setaffinity_np|f?chdir|umask|prctl|mallopt|malloc_trim|mlock(all|2)?|munlockall"
        r"|personality|set(pgid|pgrp|sid|e?[ug]id|re[ug]id|res[ug]id|groups)|(un)?share|setns|sethostname|setdomainname|tzset"
        r"|set(v?buf|buffer|linebuf)|fclose|fcloseall|dup[23]?|fcntl(64)?|ioctl|close(_range|from)?|hcreate|hdestroy|setlogmask|openlog"
    ),
    "what its process does with threads": (
        r"pthread_(atfork|setschedparam|setschedprio|setname_np|setconcurrency|setcancel(state|type)|setattr_default_np|key_create)|__register_atfork"
    ),
    "what C++ does when something fails, or in general": (
        r"_ZSt13set_terminatePFvvE|_ZSt14set_unexpectedPFvvE|_ZSt15set_new_handlerPFvvE|_ZNSt6locale6globalERKS_"
        r"|_ZNSt3pmr20set_default_resource\w+|_ZNSt8ios_base15sync_with_stdioEb|set_constraint_handler_s"
    ),
    "OpenMP for the whole process": (
        r"omp_set_(default_device|default_allocator|num_teams|teams_thread_limit|affinity_format)|omp_pause_resource(_all)?"
        r"|omp_control_tool|kmp_set_\w+"
    ),
    "the processor": r"__cpu_model|__cpu_features2|__cpu_indicator_init|(__)?getauxval|__get_cpuid\w*",
    "how many processors there are, or which it runs on": (
        r"omp_get_(num_procs|num_places|place_num\w*|place_proc_ids|partition_\w+|initial_device|num_devices)"
        r"|sysconf|get_nprocs(_conf)?|(sched_)?getcpu|sched_getaffinity|__sched_cpu\w+|pthread_getaffinity_np"
        r"|_ZNSt6thread20hardware_concurrencyEv"
    ),
    "which process or thread it is": r"get(p?pid|tid|e?uid|e?gid|sid|pgrp)|syscall|pthread_self|isatty",
    "the machine's name or load": r"uname|gethost(name|id)|getdomainname|getrusage|getloadavg|sysinfo|getrlimit\d*|mallinfo2?",
    "a clock": (
        r"time|clock|clock_get(time|res)|(__)?gettimeofday|times|ftime|timespec_get|omp_get_wti(me|ck)"
        r"|_ZNSt6chrono\w*3nowEv|cuemu_clock_now"
    ),
    "random numbers": r"s?rand|s?random|[dlm]rand48|getrandom|getentropy|arc4random\w*|_ZNSt13random_device\w*",
    "files": (
        r"f?open(at|dir)?(64)?|freopen|fopen64|f?access(at)?|l?stat(64)?|fstat(at)?(64)?|readlink(at)?|getcwd"
        r"|_ZNSt1\d(basic_)?(filebuf|[io]?fstream)\w*"
    ),
    "the loader": r"dlopen|dlm?open|dlv?sym|dladdr1?|dlinfo|dl_iterate_phdr",
    "the last error of the C library": r"__errno_location",
    "what called it": r"program_invocation_(short_)?name|__progname(_full)?|__libc_argv|backtrace(_symbols)?",
    "the end of the process": r"atexit|at_quick_exit|on_exit",
    "the locale": r"setlocale|localeconv|(new|use|dup)locale|nl_langinfo(_l)?",
}  # fmt: skip
"""what is asked -> the names, in full, of what answers"""
_ANSWERS = tuple((what, re.compile(names)) for what, names in _ASKS.items())
_INSTRUCTIONS = re.compile(
    r"\t(?:lock |rep\w* )?(cpuid|xgetbv|rdpid|rdtscp?|rdpmc|rdrand|rdseed|syscall|sysenter|s[gi]dt|sldt|smsw|str"
    r"|rd[fg]sbase|lsl|lar|ver[rw]|mrs|csrr\w*|rdcycleh?|rdtimeh?)\b"
)
# of C++'s library: what it asks for threads and transactions
_CPP = re.compile(r"_ITM_|_ZGTt|(__)?pthread_|__gmon_start__|__cxa_|__TMC_END__")
_SECTION = re.compile(r"^Disassembly of section (\S+):$")
# of libraries: objects that every file with a stream has
_OWN_STATE = re.compile(r"\.t?(?:data|bss)(?:\.(?!rel\b|_ZStL8__ioinit|_ZGV)(\S+))?")


# what a call can be given another answer to than the judge's usual one
_VARIES: Mapping[str, re.Pattern[str]] = {
    "unit": re.compile(r"fegetround|fegetenv|feholdexcept|feupdateenv"),
    "level": re.compile(r"omp_(in_parallel|get_(active_)?level|get_ancestor_thread_num)"),
    "settings": re.compile(r"omp_set_\w+"),
    "teams": re.compile(r"omp_get_(max_threads|num_threads|thread_num|team_size|thread_limit)"),
}
_UNIT_READ = re.compile(r"\tv?(stmxcsr|fn?stenv|fn?save|fxsave|xsave)\w*\b")


def machine_asked(built: Built, entry: str) -> tuple[str, ...]:
    """Return what `entry` of a built kernel can ask that answers otherwise on another machine, or at another time."""
    if built.kernel_object is None:
        return ()
    try:
        found = reached(built.kernel_object.read_bytes(), entry)
    except (OSError, ValueError, IndexError, struct.error) as error:
        return (f"its object, which cannot be read: {error}",)
    named = [
        f"{what} ({name})"
        for name in sorted(found.needed)
        for what, answers in _ANSWERS
        if answers.fullmatch(name)
    ]
    named += [f"what else is in the process ({n})" for n in sorted(found.weak) if not _CPP.match(n)]
    named += [f"the processor ({word})" for word in _instructions(built.kernel_object, found)]
    return tuple(dict.fromkeys(named))


def surroundings_asked(built: Built, entry: str) -> frozenset[str]:
    """Return what `entry` can ask of its caller that is then varied: unit (floating point), level (a parallel region around it), teams.

    And settings, where it may set what OpenMP does for its caller, too.
    """
    if built.kernel_object is None:
        return frozenset()
    try:
        found = reached(built.kernel_object.read_bytes(), entry)
    except (OSError, ValueError, IndexError, struct.error):
        return frozenset(_VARIES)
    asked = {w for w, names in _VARIES.items() if any(map(names.fullmatch, found.needed))}
    if any(_instructions(built.kernel_object, found, _UNIT_READ)):
        asked.add("unit")
    return frozenset(asked)


def kept_between_calls(built: Built, entry: str) -> tuple[str, ...]:
    """Return the variables of a built kernel that live from call to call and that `entry` comes to, as the object names them."""
    if built.kernel_object is None:
        return ()
    try:
        sections = reached(built.kernel_object.read_bytes(), entry).sections
    except (OSError, ValueError, IndexError, struct.error):
        return ()
    found = (match[1] for name in sections if (match := _OWN_STATE.fullmatch(name)))
    # what stands for a vendor's runtime keeps its own books; a file may not name it (c_conditions)
    return tuple(sorted(_variable(name) for name in found if name and "5cuemu" not in name))


def _variable(mangled: str) -> str:
    """Return the last name in a mangled one: `_ZZ5scalePKfPfiE1c` is c."""
    if not mangled.startswith("_Z"):
        return mangled.partition(".")[0]
    last, at = mangled, 0
    while match := re.compile(r"\d+").search(mangled, at):
        start, length = match.end(), int(match[0])
        at = start + length
        last = mangled[start:at] or last
    return last


def _instructions(
    path: Path, found: Reached, wanted: re.Pattern[str] = _INSTRUCTIONS
) -> Iterator[str]:
    done = run_tool(["objdump", "-d", "--no-show-raw-insn", str(path)], cpu_s=60)
    inside = False
    for line in done.stdout.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] in found.sections
        elif inside and (match := wanted.search(line)):
            yield match[1]
