// SPDX-License-Identifier: GPL-2.0

//! The log of a run: one line for each thing that happens, with its time.

use std::cell::Cell;
use std::fmt::{Arguments, Write};

/// The number that a [`Digest`] begins with, and the one that it multiplies by (FNV-1a, 64 bits).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A number that differs if the text differs. It is no protection against those who look for a
/// text with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(BASIS)
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What becomes of the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No line is made.
    Off,
    /// They are printed.
    Printed,
    /// They are hashed, which shows whether two runs are the same.
    Hashed,
}

/// The log of a run.
#[derive(Debug)]
pub struct Log {
    mode: Mode,
    /// In a cell, as functions that change nothing else write lines, too.
    digest: Cell<Digest>,
}

impl Log {
    /// An empty log.
    pub fn new(mode: Mode) -> Log {
        Log {
            mode,
            digest: Cell::default(),
        }
    }

    /// Whether lines are made at all.
    pub fn is_on(&self) -> bool {
        self.mode != Mode::Off
    }

    /// A line about what happens at `now`.
    pub fn line(&self, now: u64, text: Arguments<'_>) {
        match self.mode {
            Mode::Off => {}
            Mode::Printed => eprintln!("{now:>12} {text}"),
            Mode::Hashed => {
                let mut digest = self.digest.get();
                // A digest takes any text.
                let _ = writeln!(digest, "{now:>12} {text}");
                self.digest.set(digest);
            }
        }
    }

    /// The digest of all lines so far, if they are hashed.
    pub fn digest(&self) -> Digest {
        self.digest.get()
    }
}

/// A line of the log of a run, which has a clock `now`. Its arguments are evaluated if the log is
/// on.
macro_rules! log {
    ($run:expr, $($arg:tt)+) => {
        if $run.log.is_on() { $run.log.line($run.now, format_args!($($arg)+)); }
    };
}
pub(crate) use log;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_text() {
        let digest = |lines: &[&str]| {
            let log = Log::new(Mode::Hashed);
            for (now, line) in (0..).zip(lines) {
                log.line(now, format_args!("{line}"));
            }
            log.digest()
        };
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["a", "b"]), digest(&["a"]));
        assert_ne!(digest(&["a"]), digest(&["", "a"]));
        assert_eq!(digest(&[]), Digest::default());
    }

    #[test]
    fn a_log_that_is_off_makes_nothing() {
        struct Run {
            log: Log,
            now: u64,
        }
        let run = Run {
            log: Log::new(Mode::Off),
            now: 0,
        };
        let made = Cell::new(false);
        let text = || {
            made.set(true);
            "text"
        };
        log!(run, "{}", text());
        assert!(!made.get() && run.log.digest() == Digest::default());
    }
}
