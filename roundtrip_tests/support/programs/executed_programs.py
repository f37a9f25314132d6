"""Programs that leave functions in every way: calls, signals on a stack of their own, longjmp, switches of contexts,
exceptions, threads, fork and exec. Each prints what it computes and exits with 0.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..oracles import OracleError
from . import compiled

# The alternate stack is on the heap, below the main one; coroutines are in static memory.
CONTROL = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static sigjmp_buf back;
static volatile int signals;
static ucontext_t outer, inner;
static char stack[1 << 16];
static void handle(int number) { if (++signals == 3) siglongjmp(back, 1); }
static void coroutine(int count) { while (count--) swapcontext(&inner, &outer); }
static void *compute(void *argument) {
    char text[64];
    for (int i = 0; i < 5; i++) snprintf(text, sizeof text, "%d %g", i, i / 3.0);
    return argument;
}
static int deep(int depth, jmp_buf *target) {
    volatile char local[100] = {depth};
    if (!depth) longjmp(*target, 2);
    return deep(depth - 1, target) + local[0];
}
static int exit_code(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
int main(int argc, char **argv) {
    if (argc > 1) return 7;
    stack_t alternate = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, 0);
    sigaction(SIGUSR1, &action, 0);
    if (!sigsetjmp(back, 1)) for (int i = 0; i < 5; i++) raise(SIGUSR1);
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    jmp_buf target;
    if (!setjmp(target)) deep(10, &target);
    getcontext(&inner);
    inner.uc_stack.ss_sp = stack;
    inner.uc_stack.ss_size = sizeof stack;
    inner.uc_link = &outer;
    makecontext(&inner, (void (*)(void))coroutine, 1, 3);
    for (int i = 0; i < 4; i++) swapcontext(&outer, &inner);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, compute, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    pid_t child = fork();
    if (!child) _exit(3);
    int codes = exit_code(child);
    child = vfork();
    if (!child) { execl(argv[0], argv[0], "again", (char *)0); _exit(9); }
    codes += exit_code(child);
    return signals == 4 && codes == 10 ? 0 : 1;
}
"""
EXCEPTIONS = r"""
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>
struct Guard { std::string text; ~Guard() { if (text.empty()) std::abort(); } };
static int thrower(int depth) {
    Guard guard{std::string(depth + 1, 'x')};
    if (!depth) throw std::runtime_error("deep");
    return thrower(depth - 1) + guard.text.size();
}
static int filter(int depth) { try { return thrower(depth); } catch (std::logic_error &) { return 1; } }
int main() {
    int caught = 0;
    for (int i = 0; i < 3; i++)
        try { filter(i + 2); } catch (std::exception &error) { caught += error.what()[0] == 'd'; }
    std::vector<std::string> names;
    for (int i = 0; i < 20; i++) names.push_back(std::to_string(i * 7919 % 101));
    std::sort(names.begin(), names.end());
    try { try { throw 5; } catch (int) { throw; } } catch (int) { caught++; }
    return caught == 4 && names[0] == "0" ? 0 : 1;
}
"""
# It waits for ever, with two threads.
WAITING = r"""
#include <pthread.h>
#include <unistd.h>
static void *wait(void *argument) { for (;;) pause(); }
int main(void) {
    pthread_t thread;
    return pthread_create(&thread, 0, wait, 0) || pthread_join(thread, 0);
}
"""
# Arithmetic that saves registers, sorts by a function pointer, and formats numbers; once, or ROUNDS times.
PLAIN = r"""
#include <stdio.h>
#include <stdlib.h>
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
#ifndef ROUNDS
#define ROUNDS 1
#endif
static int once(void) {
    int values[50];
    char text[99];
    double sum = 0;
    for (int i = 0; i < 50; i++) values[i] = i * 7919 % 211;
    qsort(values, 50, sizeof *values, order);
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "%d %g", values[i], values[i] / 3.0);
        sum += strtod(text, 0);
    }
    return values[0] == 0 && sum >= 0 && fibonacci(9) == 34 ? 0 : 1;
}
int main(void) {
    int failed = 0;
    for (int i = 0; i < ROUNDS; i++) failed |= once();
    return failed;
}
"""


def built(folder: Path, source: str, compiler: str = "gcc", *flags: str) -> Path:
    """A program of one of these sources, with CFI for every instruction. Skips without the compiler."""
    compiled.require()
    is_cxx = source is EXCEPTIONS
    text = folder / ("source.cc" if is_cxx else "source.c")
    text.write_text(source)
    program = folder / "program"
    command = [compiler.replace("gcc", "g++") if is_cxx else compiler, "-O2", "-fasynchronous-unwind-tables"]
    done = subprocess.run([*command, *flags, text, "-o", program, "-lpthread"], capture_output=True, text=True)
    if done.returncode:
        raise OracleError(done.stderr)
    return program
