"""The C and C++ of the programs of compiled.py, and what they print.

Strategy: one function for each kind of frame that a compiler makes; what a wrong frame would break shows in the output.
"""

from __future__ import annotations

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
