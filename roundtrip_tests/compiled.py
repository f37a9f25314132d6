"""Programs with every kind of frame that compilers and assembler writers make, built here by the system's compiler.

Strategy: three small sources (C, C++ and x86-64 assembler with hand-written CFI) make one program that prints
EXPECTED_OUTPUT under every flag set, so that a test can change the file and still see that it runs. All CFI of
functions that are executed is true at every instruction (tests step through them); what lies is never called.
"""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

C_SOURCE = r"""
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))

static volatile int zero;
static jmp_buf landing;

NOINLINE static int sum_bytes(const unsigned char *bytes, int size) {
    int sum = 0;
    for (int i = 0; i < size; i++) sum += bytes[i];
    return sum;
}
/* The CFA follows the frame pointer. */
NOINLINE int with_vla(int n) {
    unsigned char bytes[n];
    memset(bytes, 3, n);
    return sum_bytes(bytes, n);
}
NOINLINE int with_alloca(int n) {
    int sum = 0;
    for (int i = 1; i <= 3; i++) {
        unsigned char *bytes = alloca(n * i);
        memset(bytes, i, n * i);
        sum += sum_bytes(bytes, n * i);
    }
    return sum;
}
/* Offsets of two and of four bytes. */
NOINLINE int big_frame(int n) {
    unsigned char bytes[300];
    memset(bytes, n, sizeof bytes);
    return sum_bytes(bytes, sizeof bytes);
}
NOINLINE int huge_frame(int n) {
    unsigned char bytes[40000];
    memset(bytes, n, sizeof bytes);
    return sum_bytes(bytes, sizeof bytes);
}
/* More live values over a call than there are callee-saved registers. */
NOINLINE int step(int n) { return n * 3 + zero; }
NOINLINE int many_saved(int a, int b, int c, int d, int e, int f) {
    int g = step(a), h = step(b), i = step(c), j = step(d), k = step(e), l = step(f);
    int m = step(g + a), n = step(h + b), o = step(i + c), p = step(j + d), q = step(k + e), r = step(l + f);
    return a + b + c + d + e + f + g - h + i - j + k - l + m * n - o * p + q * r;
}
NOINLINE int recurse(int n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }
NOINLINE int dispatch(int n) {
    switch (n) {
    case 0: return step(1);
    case 1: return with_vla(7);
    case 2: return recurse(5) + 1;
    case 3: return step(step(2)) * 2;
    case 4: return big_frame(1);
    case 5: return (int)strlen("five") + step(0);
    case 6: return n - step(n);
    default: return -1;
    }
}
NOINLINE int tail_called(int n) { return step(n) + 5; }
NOINLINE int tail_call(int n) {
    char text[64];
    snprintf(text, sizeof text, "%d", n);
    return tail_called((int)strlen(text));
}
/* Nothing follows the call: the return address lies past the function. */
__attribute__((noreturn, noinline, noclone)) void leave(int n) { longjmp(landing, n); }
NOINLINE int no_return(int n) {
    if (n > 0) leave(step(n));
    return recurse(3);
}
NOINLINE int land(int n) {
    int value = setjmp(landing);
    return value ? value : no_return(n);
}
/* The unlikely half goes to .text.unlikely (.cold) from -O2 on. */
NOINLINE int partitioned(int n) {
    int square = step(n) * n;
    if (__builtin_expect(square < zero, 0)) {
        fprintf(stderr, "%d %d\n", square, step(square));
        abort();
    }
    return square + step(square);
}
/* Stack realignment, with the arguments reached through another register (DRAP) where the stack is variable too. */
NOINLINE int aligned(int n) {
    _Alignas(64) unsigned char bytes[128];
    memset(bytes, n, sizeof bytes);
    return sum_bytes(bytes, sizeof bytes) + (int)((uintptr_t)bytes % 64);
}
NOINLINE int aligned_variable(int a, int b, int c, int d, int e, int f, int g, int n) {
    _Alignas(64) unsigned char fixed[64];
    unsigned char bytes[n];
    memset(fixed, g, sizeof fixed);
    memset(bytes, a + b + c + d + e + f, n);
    return sum_bytes(fixed, sizeof fixed) + sum_bytes(bytes, n) + (int)((uintptr_t)fixed % 64);
}
#if defined(__x86_64__)
__attribute__((force_align_arg_pointer))
#endif
NOINLINE int aligned_by_attribute(int n) {
    return step(n) + recurse(n);
}
NOINLINE int variadic(int count, ...) {
    va_list list;
    int sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += va_arg(list, int);
    va_end(list);
    return sum;
}
static int compare_ints(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int run_c(void) {
    int numbers[] = {5, 3, 9, 1};
    printf("variable %d %d\n", with_vla(10), with_alloca(4));
    printf("frames %d %d\n", big_frame(2), huge_frame(1));
    printf("saved %d\n", many_saved(1, 2, 3, 4, 5, 6));
    printf("recursion %d\n", recurse(10));
    for (int i = 0; i < 8; i++) printf("%s%d", i ? " " : "switch ", dispatch(i));
    printf("\ntail %d, no return %d %d\n", tail_call(1234), land(4), land(0));
    printf("partition %d\n", partitioned(6));
    printf("aligned %d %d %d\n", aligned(1), aligned_variable(1, 1, 1, 1, 1, 1, 2, 9), aligned_by_attribute(7));
    qsort(numbers, 4, sizeof *numbers, compare_ints); /* called back from a library */
    printf("variadic %d, sorted %d %d\n", variadic(3, 4, 5, 6), numbers[0], numbers[3]);
    return 0;
}
"""

CXX_SOURCE = r"""
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))

extern "C" int run_c(void);
static volatile int zero;
static int destroyed;

struct Guard {
    int weight;
    explicit Guard(int w) : weight(w) {}
    NOINLINE ~Guard() { destroyed += weight; }
};
struct Shape {
    virtual ~Shape() {}
    virtual int area() const = 0;
};
struct Square : Shape {
    int side;
    explicit Square(int s) : side(s) {}
    NOINLINE int area() const override {
        if (side < 0) throw std::domain_error("negative");
        return side * side;
    }
};
NOINLINE int thrower(int n) {
    Guard guard(1);
    if (n == zero) throw std::runtime_error("bottom");
    Guard other(10);
    return thrower(n - 1) + 1;
}
NOINLINE int catcher(int n) {
    try {
        return thrower(n);
    } catch (const std::runtime_error &error) {
        return 100 + (int)std::string(error.what()).size();
    }
}
NOINLINE int rethrower(int n) {
    std::vector<int> numbers(n, 2);
    try {
        Guard guard(1000);
        return Square(-n).area();
    } catch (const std::exception &) {
        try {
            throw;
        } catch (const std::domain_error &error) {
            return (int)numbers.size() + (int)std::string(error.what()).size();
        }
    }
}
NOINLINE int no_throw(int n) noexcept {
    std::unique_ptr<Shape> shape(new Square(n));
    std::function<int(int)> twice = [&](int m) { return m * 2 + shape->area(); };
    return twice(n);
}
template <int N> NOINLINE int nested(int n) { return nested<N - 1>(n) + N; }
template <> NOINLINE int nested<0>(int n) { return n + zero; }

#if defined(WITH_ASSEMBLER)
extern "C" int nested_states(int), by_expression(int), fp_in_register(int), cfa_in_r10(int), signal_frame(int),
    sp_by_value(int), bytes_255(int), bytes_256(int), bytes_65535(int), bytes_65536(int);
#endif
extern "C" int run_frames(void) {
    run_c();
    int caught = catcher(3), rethrown = rethrower(4);
    std::printf("exceptions %d %d, destroyed %d\n", caught, rethrown, destroyed);
    std::printf("virtual %d, templates %d\n", no_throw(5), nested<6>(1));
#if defined(WITH_ASSEMBLER)
    int value = nested_states(0) + nested_states(1) + nested_states(2) + by_expression(1) + fp_in_register(1) +
                cfa_in_r10(1) + signal_frame(1) + sp_by_value(1);
    std::printf("assembler %d %d\n", value, bytes_255(1) + bytes_256(1) + bytes_65535(1) + bytes_65536(1));
#else
    std::printf("assembler 80 14\n");
#endif
    return 0;
}
int main() { return run_frames(); }
"""

# Every function takes a number in edi and returns one in eax.
ASSEMBLER_SOURCE = r"""
.macro FUNCTION name
 .globl \name
 .type \name, @function
 \name: .cfi_startproc
.endm
.macro END name
 .cfi_endproc
 .size \name, . - \name
.endm
 .text
# Two levels of remembered state; gas has one for SFrame.
FUNCTION nested_states
 .cfi_remember_state
 test %edi, %edi
 jz 1f
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 mov %rsp, %rbp
 .cfi_def_cfa_register rbp
 .cfi_remember_state
 cmp $1, %edi
 je 2f
 mov $30, %eax
 pop %rbp
 .cfi_def_cfa rsp, 8
 .cfi_restore rbp
 ret
2: .cfi_restore_state
 mov $20, %eax
 leave
 .cfi_def_cfa rsp, 8
 .cfi_restore rbp
 ret
1: .cfi_restore_state
 mov $10, %eax
 ret
END nested_states
FUNCTION by_expression
 push %rbx
 .cfi_escape 0x0f, 0x02, 0x77, 0x10             # DW_CFA_def_cfa_expression: DW_OP_breg7 16
 .cfi_escape 0x10, 0x03, 0x02, 0x77, 0x00       # DW_CFA_expression rbx: DW_OP_breg7 0
 lea 1(%rdi), %eax
 pop %rbx
 .cfi_def_cfa rsp, 8
 .cfi_restore rbx
 nop
 ret
END by_expression
FUNCTION fp_in_register
 mov %rbp, %r11
 .cfi_register rbp, r11
 lea 2(%rdi), %eax
 mov %r11, %rbp
 .cfi_restore rbp
 ret
END fp_in_register
FUNCTION cfa_in_r10
 mov %rsp, %r10
 .cfi_def_cfa r10, 8
 sub $40, %rsp
 lea 3(%rdi), %eax
 add $40, %rsp
 .cfi_def_cfa rsp, 8
 ret
END cfa_in_r10
FUNCTION signal_frame
 .cfi_signal_frame
 push %rdi
 .cfi_adjust_cfa_offset 8
 lea 4(%rdi), %eax
 pop %rdi
 .cfi_adjust_cfa_offset -8
 ret
END signal_frame
FUNCTION sp_by_value
 .cfi_val_offset rsp, 0
 push %rdi
 .cfi_def_cfa_offset 16
 lea 5(%rdi), %eax
 .cfi_val_offset r11, -24
 .cfi_same_value rbp
 pop %rdi
 .cfi_def_cfa_offset 8
 .cfi_escape 0x2e, 0x00                          # DW_CFA_GNU_args_size 0
 ret
END sp_by_value
# The width of SFrame's start addresses changes from 255 to 256 and from 65535 to 65536 bytes.
.macro SIZED size, result
FUNCTION bytes_\size
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 .byte 0xe9                                     # jmp with a 4-byte displacement
 .long 1f - . - 4
 .skip \size - (. - bytes_\size) - 5, 0x90
1: pop %rbp
 .cfi_def_cfa_offset 8
 .cfi_restore rbp
 lea \result(%rdi), %eax
 ret
END bytes_\size
.endm
SIZED 255, 1
SIZED 256, 2
SIZED 65535, 3
SIZED 65536, 4

# Never called: the CFI says what no execution could confirm.
FUNCTION outermost
 nop
 .cfi_undefined rip
 nop
 ret
END outermost
FUNCTION fp_undefined
 nop
 .cfi_undefined rbp
 nop
 .cfi_restore rbp
 ret
END fp_undefined
FUNCTION fp_by_value
 nop
 .cfi_val_offset rbp, -24
 nop
 .cfi_restore rbp
 ret
END fp_by_value
FUNCTION fp_by_expression
 nop
 .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00       # DW_CFA_expression rbp: DW_OP_breg6 0
 nop
 .cfi_escape 0x16, 0x06, 0x02, 0x76, 0x00       # DW_CFA_val_expression rbp: DW_OP_breg6 0
 nop
 .cfi_same_value rbp
 ret
END fp_by_expression
FUNCTION ra_elsewhere
 nop
 .cfi_offset rip, -24
 nop
 .cfi_register rip, rdx
 nop
 .cfi_offset rip, -8
 ret
END ra_elsewhere
 .globl no_cfa
 .type no_cfa, @function
no_cfa: .cfi_startproc simple
 nop
 ret
END no_cfa
 .section .note.GNU-stack, "", @progbits
"""

EXPECTED_OUTPUT = """\
variable 30 56
frames 600 40000
saved 2892
recursion 55
switch 3 21 6 36 300 4 -12 -1
tail 17, no return 12 2
partition 432
aligned 128 182 34
variadic 15, sorted 1 9
exceptions 106 12, destroyed 1034
virtual 35, templates 22
assembler 80 14
"""


@dataclass(frozen=True, slots=True)
class FlagSet:
    """One way to build. A `shared` one makes a library, in which `run_frames` does what `main` does."""

    name: str
    flags: tuple[str, ...]
    shared: bool = False


FLAG_SETS = (
    FlagSet("O0", ("-O0",)),
    FlagSet("O2", ("-O2",)),
    FlagSet("O3-frame-pointer", ("-O3", "-fno-omit-frame-pointer")),
    FlagSet("Os-no-pie", ("-Os", "-fno-pie", "-no-pie")),
    FlagSet("cf-protection", ("-O2", "-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy")),
    FlagSet("now", ("-O2", "-Wl,-z,now")),
    FlagSet("lazy", ("-O1", "-Wl,-z,lazy")),
    FlagSet("static", ("-O2", "-static")),
    FlagSet("static-pie", ("-O1", "-static-pie", "-fPIE")),
    FlagSet("shared", ("-O2", "-shared", "-fPIC"), shared=True),
    FlagSet("g3", ("-Og", "-g3")),
    FlagSet("no-asynchronous", ("-O2", "-fno-asynchronous-unwind-tables")),
    FlagSet("stack-clash", ("-O2", "-fstack-clash-protection", "-fstack-protector-all")),
    FlagSet("sections", ("-O2", "-ffunction-sections", "-Wl,--gc-sections")),
)


def absence() -> str | None:
    """Why nothing can be built here, or None."""
    missing = [name for name in ("gcc", "g++") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)}" if missing else None


@functools.cache
def build(folder: Path, flags: FlagSet) -> Path:
    """The program or library of one flag set, in `folder`; built once a session for the same folder."""
    x86_64 = platform.machine() == "x86_64"
    sources = {"frames_c.c": C_SOURCE, "frames.cc": CXX_SOURCE} | ({"frames_asm.s": ASSEMBLER_SOURCE} if x86_64 else {})
    work = folder / flags.name
    work.mkdir(parents=True, exist_ok=True)
    objects = []
    for name, text in sources.items():
        (work / name).write_text(text)
        compiler = "g++" if name.endswith(".cc") else "gcc"
        options = [option for option in flags.flags if not option.startswith("-Wl,")]
        defines = ["-DWITH_ASSEMBLER"] if x86_64 else []
        _run(work, compiler, *options, *defines, "-c", name, "-o", f"{name}.o")
        objects.append(f"{name}.o")
    output = work / ("libframes.so" if flags.shared else "frames")
    _run(work, "g++", *flags.flags, *objects, "-o", output.name)
    return output


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
