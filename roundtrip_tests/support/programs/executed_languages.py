"""Programs in Go and Rust that leave functions in every way; each exits with 0."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from ..oracles import OracleError, absent

# Stacks that grow, goroutines, panics that are recovered, and a collection of garbage.
GO = r"""
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
)

func deep(n int) int {
	var block [64]int
	block[n%64] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + block[n%64] - n + 1
}

func guarded(n int) (out int) {
	defer func() {
		if r := recover(); r != nil {
			out = len(fmt.Sprint(r))
		}
	}()
	if n%2 == 1 {
		panic(fmt.Sprintf("odd %d", n))
	}
	return n
}

func main() {
	var group sync.WaitGroup
	results := make(chan int, 8)
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results <- deep(200*i) + guarded(i)
			runtime.Gosched()
		}(i)
	}
	group.Wait()
	close(results)
	total := 0
	for one := range results {
		total += one
	}
	words := strings.Fields("one two three four five six")
	sort.Strings(words)
	runtime.GC()
	if total != 1200+0+2+5+5 || words[0] != "five" {
		fmt.Println(total, words)
		os.Exit(1)
	}
}
"""
# Go calls C, which calls Go.
CGO = r"""
package main

/*
#include <stdlib.h>
extern int goOrder(void *, void *);
static int order(const void *a, const void *b) { return goOrder((void *)a, (void *)b); }
static void sort(int *values, int count) { qsort(values, count, sizeof *values, order); }
*/
import "C"

import (
	"os"
	"unsafe"
)

//export goOrder
func goOrder(a, b unsafe.Pointer) C.int { return *(*C.int)(a) - *(*C.int)(b) }

func main() {
	values := []C.int{5, 3, 9, 1}
	C.sort(&values[0], 4)
	if values[0] != 1 || values[3] != 9 {
		os.Exit(1)
	}
}
"""
# Panics that are caught, in threads, with destructors.
RUST = r"""
use std::panic;
use std::thread;

#[inline(never)]
fn deep(n: u32) -> u32 {
    let text = format!("{n:>5}");
    if n == 0 {
        panic!("deep");
    }
    deep(n - 1) + text.len() as u32
}

struct Guard(Vec<u32>);
impl Drop for Guard {
    fn drop(&mut self) {
        self.0.sort();
    }
}

fn main() {
    panic::set_hook(Box::new(|_| ()));
    let threads: Vec<_> = (0..3)
        .map(|i| {
            thread::spawn(move || {
                let _guard = Guard(vec![3, 2, i]);
                panic::catch_unwind(|| deep(i + 2)).is_err()
            })
        })
        .collect();
    let caught = threads.into_iter().map(|one| one.join().unwrap()).filter(|&one| one).count();
    let mut values: Vec<f64> = (0..200).map(|i| (i * 7919 % 211) as f64 / 3.0).collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let text: String = values.iter().map(|one| format!("{one:.3},")).collect();
    let failed = thread::spawn(|| { let _g = Guard(vec![2, 1]); if true { panic!("x") } }).join().is_err();
    std::process::exit(if caught == 3 && failed && text.len() > 100 { 0 } else { 1 });
}
"""


def built_go(folder: Path, source: str) -> Path:
    """A Go program."""
    (folder / "go.mod").write_text("module program\ngo 1.19\n")
    (folder / "main.go").write_text(source)
    with_c = {"CGO_ENABLED": "1" if source is CGO else "0"}
    return _built(folder, ["go", "build", "-o", "program", "."], with_c)


def built_rust(folder: Path, source: str) -> Path:
    """A Rust program."""
    (folder / "main.rs").write_text(source)
    return _built(folder, ["rustc", "-O", "main.rs", "-o", "program"], {})


def _built(folder: Path, command: list[str], variables: dict[str, str]) -> Path:
    if shutil.which(command[0]) is None:
        absent(f"no {command[0]}")
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        raise OracleError(done.stderr)
    return folder / "program"
