//! LD_PRELOAD=libcrash_dump.so CRASH_DUMP=FILE PROGRAM: a minidump in FILE if PROGRAM crashes.
//! The signal handler forks, and the child writes the dump of its parent, whose memory it reads.

use crash_handler::{CrashContext, CrashEventResult, CrashHandler, make_crash_event};
use minidump_writer::CrashContextExt;
use minidump_writer::minidump_writer::MinidumpWriterConfig;
use std::fs::File;

fn write_dump(crash: &CrashContext) -> CrashEventResult {
    let Some(path) = std::env::var_os("CRASH_DUMP") else {
        return CrashEventResult::Handled(false);
    };
    let (child, mut status) = (unsafe { libc::fork() }, 0);
    if child == 0 {
        let (pid, tid, context) = (crash.pid, crash.tid, CrashContextExt { inner: crash.clone() });
        // A thread has a larger stack than a signal handler.
        let writing = std::thread::spawn(move || {
            let mut writer = MinidumpWriterConfig::new(pid, tid);
            writer.set_crash_context(context);
            File::create(path).is_ok_and(|mut file| writer.write(&mut file).is_ok())
        });
        unsafe { libc::_exit(i32::from(!writing.join().unwrap_or(false))) };
    }
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, child); // where only parents may trace
        libc::waitpid(child, &mut status, 0);
    }
    CrashEventResult::Handled(false) // the program ends by its signal
}

extern "C" fn install() {
    if let Ok(handler) = CrashHandler::attach(unsafe { make_crash_event(write_dump) }) {
        std::mem::forget(handler);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static INSTALL: extern "C" fn() = install;
