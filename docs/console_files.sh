# Makes the files that the pages of the manual name, in the current folder (docs/console.py runs it).
unwindkit() { "$PYTHON" -m unwindkit "$@"; }
patch_bytes() { printf "$3" | dd of="$1" bs=1 seek=$(($2)) conv=notrunc status=none; } # FILE OFFSET BYTES

# ls, cat
unwindkit sframe /bin/ls -o ls.sframe
unwindkit sframe /bin/cat -o cat.sframe
gzip -nk ls.sframe
unwindkit convert /bin/ls ls.s --to directives
mkdir bin
cp /bin/ls /bin/cat bin
cp /bin/ls broken
patch_bytes broken 0x1f994 '\x08' # FDE[0].cie_pointer
cp ls.sframe broken.sframe
patch_bytes broken.sframe 0x2483c '\x03' # FDE[20].func_info
cp ls.sframe ls.wrong
patch_bytes ls.wrong 0x25fa0 '\x18' # the CFA offset of an FRE
head -c 130000 /bin/ls > truncated
cp /bin/ls damaged
"$PYTHON" - <<'END'
from pathlib import Path

data = bytearray(Path("damaged").read_bytes())
header, start = 0x1ef7c, 0x46b6  # the file offset of .eh_frame_hdr, and the row that changes place with the next one
row = next(at for at in range(header + 12, header + 2556, 8) if int.from_bytes(data[at : at + 4], "little", signed=True) == start - 0x1ef7c)
data[row : row + 16] = data[row + 8 : row + 16] + data[row : row + 8]
Path("damaged").write_bytes(data)
END
printf 'some notes\n' > notes.txt

# gcc, g++
objcopy --only-keep-debug /bin/ls ls.debug
cat > hello.c <<'END'
#include <stdio.h>
int main(void) { puts("hello"); return 0; }
END
cat > a.h <<'END'
#define TWICE(n) ((n) + (n))
END
cat > a.c <<'END'
#include "a.h"
int twice(int n) {
    return TWICE(n);
}
int main(void) { return twice(0); }
END
cat > frames.cc <<'END'
#include <stdexcept>
__attribute__((noinline)) int thrower(int n) { if (n > 3) throw std::runtime_error("too large"); return n; }
int main(int argc, char **) { try { return thrower(argc); } catch (const std::exception &) { return 9; } }
END
gcc -O2 -c hello.c -o hello.o
gcc -O2 a.c -o a.out
gcc -g3 -O2 -nostdlib -no-pie -Wl,-e,main -ffile-prefix-map="$PWD"=/src a.c -o program
g++ -O2 frames.cc -o frames
cat > between.c <<'END'
int between(int (*called)(int), int n) { volatile char used[40]; used[n] = 1; return called(n) + used[n]; }
END
cat > mixed.cc <<'END'
#include <cstdio>
#include <stdexcept>
extern "C" int between(int (*)(int), int);
static int thrower(int n) { if (n < 10) throw std::runtime_error("caught"); return n; }
int main() { try { return between(thrower, 3); } catch (const std::exception &error) { std::puts(error.what()); } }
END
gcc -O2 -g -fno-asynchronous-unwind-tables -ffile-prefix-map="$PWD"=/src -c between.c -o between.o
g++ -O2 mixed.cc between.o -o frames.mixed
unwindkit convert frames.mixed frames.sym --to breakpad --from debug_frame
# As distributions strip programs.
gcc -g -O2 -fno-asynchronous-unwind-tables hello.c -o stripped
objcopy --only-keep-debug stripped stripped.debug
strip stripped
objcopy --add-gnu-debuglink=stripped.debug stripped
# Two libraries that have the same function at one address, and each another one.
for name in a b; do
  [ $name = a ] && address=0x20000 || address=0x30000
  gcc -O2 -shared -nostdlib -x c - -o $name.so -Wl,-Ttext=0x10000,--section-start=.own=$address <<'END'
int both(int n) { volatile int kept[100]; kept[n] = n; return kept[0]; }
__attribute__((section(".own"))) int own(int n) { volatile int kept[50]; kept[n] = n; return kept[0]; }
END
  unwindkit sframe $name.so --in-place --sframe-version 3
done
echo 'ret' | as -o none.o && ld -shared none.o -o none && objcopy -R .eh_frame none
ln -s /usr/lib/x86_64-linux-gnu/crti.o .
cp /usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a .
ln -s "$ORACLES"/bookworm-dbg/usr/lib/debug/.build-id/93/ac61ec5a8eb1396f9fbd350e3169a558528a40.debug libc.debug
