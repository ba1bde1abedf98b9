// SPDX-License-Identifier: GPL-2.0

//! The checks of the judges, and what they find.

use std::fmt::{Display, Formatter};

/// A finding of a judge: what is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken, if a certain one was: of the specification (`IBTA 9.7.2`), or of
    /// the design, which `design:` begins.
    pub rule: Option<&'static str>,
    pub text: String,
}

impl Violation {
    /// A violation of a rule.
    pub fn of(rule: &'static str, text: impl Into<String>) -> Violation {
        Violation {
            rule: Some(rule),
            text: text.into(),
        }
    }

    /// The same, found at this place: a QP, say, or a request.
    pub fn at(self, place: impl Display) -> Violation {
        Violation {
            text: format!("{place}: {}", self.text),
            ..self
        }
    }
}

/// A violation of no certain rule.
impl<T: Into<String>> From<T> for Violation {
    fn from(text: T) -> Violation {
        Violation {
            rule: None,
            text: text.into(),
        }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        match self.rule {
            Some(rule) => write!(f, " [{rule}]"),
            None => Ok(()),
        }
    }
}

/// Returns a [`Violation`] if a condition does not hold. A rule may stand before the condition.
macro_rules! ensure {
    ($rule:literal, $cond:expr, $($arg:tt)+) => {
        if !$cond { return Err($crate::check::Violation::of($rule, format!($($arg)+))); }
    };
    ($cond:expr, $($arg:tt)+) => {
        if !$cond { return Err(format!($($arg)+).into()); }
    };
}
pub(crate) use ensure;

#[cfg(test)]
mod tests {
    use super::Violation;

    fn check(good: bool, known: bool) -> Result<(), Violation> {
        ensure!("IBTA 9.7.2", good || !known, "PSN {}", 7);
        ensure!(good, "wrong");
        Ok(())
    }

    #[test]
    fn a_violation_names_its_rule() {
        assert_eq!(check(true, true), Ok(()));
        let text = |known| check(false, known).unwrap_err().at("qp1").to_string();
        assert_eq!(text(true), "qp1: PSN 7 [IBTA 9.7.2]");
        assert_eq!(text(false), "qp1: wrong");
    }
}
