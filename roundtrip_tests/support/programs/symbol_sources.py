"""The C++, C and assembler of the programs of symbol_programs.py: what makes names and lines of addresses difficult.

Strategy: no header of a library but in `STANDARD`, so that the rest is built for machines that have no C library here.
Each construct is named in a comment; the values are of no meaning, but nothing may be computed at compile time.
"""

from __future__ import annotations

SHAPES_H = r"""
#pragma once
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
extern volatile int input;
[[noreturn]] void fail(int code);

namespace shapes {
// Inlines three deep, each with a line of its own before and after the call.
INLINE int innermost(int n) {
    int twice = n * input;
    return twice ^ input;
}
INLINE int middle(int n) {
    int first = innermost(n + input);
    return first - input;
}
INLINE int outermost(int n) {
    int first = middle(n) + input;
    return first + middle(input);
}
// Templates: of types, of values, of templates; members of templates; specializations.
template <typename T, int N> struct Fixed {
    T items[N];
    INLINE T &at(int index) { return items[index % N]; }
    NOINLINE T sum() const {
        T total = 0;
        for (int i = 0; i < N; i++) total += items[i] * input;
        return total;
    }
    template <typename F> NOINLINE void each(F function) {
        for (auto &item : items) function(item);
    }
    operator bool() const { return input > N; }
    Fixed &operator<<(int n) {
        at(n) = T(input);
        return *this;
    }
    bool operator<(const Fixed &other) const { return input < items[0] + other.items[0]; }
};
template <template <typename, int> class C, typename T> NOINLINE int of_template(C<T, 3> &one) {
    return int(one.sum()) + outermost(input);
}
template <int N> NOINLINE int nested(int n) { return nested<N - 1>(n + input) + outermost(N); }
template <> NOINLINE inline int nested<0>(int n) { return n + input; }
// Lexical blocks that are transparent between inlines.
INLINE int with_blocks(int n) {
    if (input > 3) {
        int local = n;
        { int deeper = local + input; local = innermost(deeper); }
        return local;
    }
    return n;
}
struct Base {
    virtual ~Base();
    virtual int area() const = 0;
};
struct Square : Base {
    int side;
    explicit Square(int s) : side(s) {}
    int area() const override;
    struct Inner {
        static int depth(int n);
    };
};
} // namespace shapes
"""

MAIN_CC = r"""
#include "shapes.h"
volatile int input = 5;

namespace {
// Anonymous namespaces, also nested; static locals with a guard.
NOINLINE int hidden(int n) { return n + shapes::outermost(input); }
namespace deeper {
struct Counter {
    int count = input;
    NOINLINE int next() { return ++count + hidden(count); }
};
} // namespace deeper
NOINLINE int with_static(int n) {
    static int remembered = hidden(n);
    static deeper::Counter counter;
    return remembered + counter.next();
}
} // namespace

// Parts that are not likely: .cold with -freorder-blocks-and-partition.
NOINLINE int partitioned(int n) {
    if (__builtin_expect(n * input < 0, 0)) {
        int code = shapes::middle(n);
        hidden(code);
        fail(code + shapes::innermost(n));
    }
    int sum = 0;
    for (int i = 0; i < n; i++) sum += shapes::outermost(i);
    return sum;
}
NOINLINE int throwing(int n) {
#if defined(__cpp_exceptions) && !defined(FREESTANDING)
    try {
        if (n == input) [[unlikely]] throw n + shapes::innermost(n);
        return hidden(n);
    } catch (int caught) {
        return shapes::middle(caught);
    }
#else
    return n == input ? shapes::middle(n) : hidden(n);
#endif
}
// Identical code: one body after --icf=all.
NOINLINE int folded_one(int n) { return n * input + 7 - input; }
NOINLINE int folded_two(int n) { return n * input + 7 - input; }
struct Folded {
    NOINLINE int member(int n);
};
NOINLINE int Folded::member(int n) { return n * input + 9 - input; }
// Never called: its line sequence starts at 0 after --gc-sections, and is long enough to cover real addresses.
int discarded(int n) {
    for (int i = 0; i < n; i++) {
        n += shapes::outermost(i);
        n ^= shapes::outermost(n);
        n -= shapes::outermost(i + n);
    }
    return n;
}
// Lambdas: with captures, in one another, generic; in a template and in a static initializer.
NOINLINE int lambdas(int n) {
    auto plain = [](int m) { return m + input; };
    auto captured = [&](int m) __attribute__((noinline)) { return shapes::middle(m + n); };
    auto outer = [captured](int m) {
        auto inner = [m, &captured](int k) __attribute__((noinline)) { return captured(k) + m + shapes::innermost(k); };
        return inner(m);
    };
    auto generic = [](auto m) __attribute__((noinline)) { return int(m) * input; };
    return plain(n) + captured(n) + outer(n) + generic(n) + generic(char(n));
}
int from_lambda = [] { return input + shapes::middle(input); }();

NOINLINE int local_class(int n) {
    struct Local {
        int value;
        NOINLINE int get() const { return value + input; }
    };
    return Local{n}.get();
}
int from_standard(int n);
int from_file_two(int n);
extern "C" int from_c(int n);
extern "C" int from_assembler(int n);

extern "C" int run(int n) {
    shapes::Fixed<int, 3> ints{{n, input, 3}};
    shapes::Fixed<long, 5> longs{{n, input, 3, 4, 5}};
    ints << n << input;
    ints.each([](int &item) { item += shapes::innermost(item); });
    longs.each([n](long &item) { item -= n; });
    Folded folded;
    int sum = shapes::of_template(ints) + shapes::nested<4>(n) + shapes::with_blocks(n) + int(longs.sum());
    sum += with_static(n) + partitioned(n) + throwing(n) + lambdas(n) + local_class(n) + bool(ints) + (ints < ints);
    sum += folded_one(n) + folded_two(n) + folded.member(n) + shapes::Square(n).area();
    return sum + from_file_two(n) + from_standard(n) + from_c(n);
}
"""

OTHER_CC = r"""
#include "shapes.h"
// The same names as in main.cc, of other functions.
namespace {
NOINLINE int hidden(int n) { return n - shapes::middle(input); }
}
shapes::Base::~Base() {}
int shapes::Square::area() const { return side * hidden(side) + Inner::depth(side); }
int shapes::Square::Inner::depth(int n) { return shapes::outermost(n); }
int from_file_two(int n) {
    if (__builtin_expect(n > 1000 * input, 0)) fail(hidden(n));
    return hidden(n) + shapes::nested<2>(n);
}
#ifdef FREESTANDING
int from_standard(int n) { return n; }
void fail(int code) { for (;;) input = code; }
extern "C" void __cxa_pure_virtual() { fail(1); }
extern "C" int __cxa_guard_acquire(long long *guard) { return !*(char *)guard; }
extern "C" void __cxa_guard_release(long long *guard) { *(char *)guard = 1; }
void operator delete(void *, unsigned long) {}
void operator delete(void *, unsigned) {}
void operator delete(void *) {}
extern "C" int run(int);
extern "C" void _start() { fail(run(input)); }
#else
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
void fail(int code) { std::exit(code); }
extern "C" int run(int);
int main(int argc, char **) { return run(argc); }
int from_standard(int n) {
    std::vector<int> numbers(n + 3, int(input));
    std::map<std::string, std::vector<int>> named;
    std::function<int(int)> function = [&](int m) { return m + int(numbers.size()); };
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return shapes::innermost(a) < b; });
    named["one"].push_back(function(n));
    if (named.at("one").empty()) throw std::runtime_error("empty");
    return numbers[0] + int(named.size());
}
#endif
"""

C_SOURCE = r"""
extern volatile int input;
static inline __attribute__((always_inline)) int square(int n) {
    int m = n * input;
    return m * m;
}
#ifndef __clang__
/* A nested function, which gcc names by its parent in the symbol only. */
static __attribute__((noinline)) int parent(int n) {
    int __attribute__((noinline)) child(int m) { return m + n + square(m); }
    return child(n) + child(input);
}
#else
static __attribute__((noinline)) int parent(int n) { return n; }
#endif
static int __attribute__((noinline)) last(int n) { return square(n) - input; }
int from_c(int n) {
    int sum = parent(n);
    switch (n) {
    case 1: sum += square(sum); break;
    case 2: sum += last(n); break;
    case 3: sum ^= square(n + 1); break;
    case 4: sum -= last(sum); break;
    default: sum += square(n) + last(input);
    }
    return sum;
}
int also_from_c(int n) __attribute__((alias("from_c")));
"""

# Lines, but no function in DWARF versions that `as` writes without them; a local label that is no function.
ASSEMBLER = r"""
    .text
    .globl from_assembler
    .type from_assembler, %function
from_assembler:
    NOP
    NOP
.Lmiddle:
    NOP
    .size from_assembler, .-from_assembler
    .type second, %function
second:
    NOP
    .size second, .-second
    .section .note.GNU-stack,"",%progbits
"""

SOURCES = {
    "shapes.h": SHAPES_H,
    "main.cc": MAIN_CC,
    "other.cc": OTHER_CC,
    "plain.c": C_SOURCE,
    "code.S": ASSEMBLER,
}
