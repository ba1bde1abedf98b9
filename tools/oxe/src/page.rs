// SPDX-License-Identifier: GPL-2.0

//! The parts of Documentation/debugging.rst that are made from the tables of `oxe why`, so that
//! page and command say the same. `make fix` writes them: it runs the test here with OXE_FIX set.

use crate::causes::REMEDIES;
use crate::counters::ERRORS;
use std::fs;
use std::path::Path;

/// Columns of a line.
const WIDTH: usize = 100;

/// The end of a part.
const END: &str = "\n.. The end of what is made.\n";

/// An item of a definition list.
fn item(term: &str, text: &str) -> String {
    let mut lines = vec![format!("``{term}``"), String::from("   ")];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there are two");
        if last.len() + 1 + word.len() > WIDTH {
            lines.push(format!("    {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// The first letter as at the beginning of a sentence.
fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// The page with both parts made anew.
fn made(page: &str) -> String {
    let causes: String = REMEDIES
        .iter()
        .map(|(words, text)| item(words, text))
        .collect();
    let counters: String = ERRORS
        .iter()
        .map(|counter| {
            let text = format!("{} {}", sentence(counter.text), counter.remedy);
            item(counter.name, &text)
        })
        .collect();
    let parts = [
        (
            ".. Made from tools/oxe/src/causes.rs by make fix.\n",
            causes,
        ),
        (
            ".. Made from tools/oxe/src/counters.rs by make fix.\n",
            counters,
        ),
    ];
    parts.iter().fold(page.to_owned(), |page, (begin, text)| {
        let (before, rest) = page.split_once(begin).expect("the beginning of a part");
        let (_, after) = rest.split_once(END).expect("the end of a part");
        format!("{before}{begin}\n{text}{END}{after}")
    })
}

#[test]
fn debugging_rst_says_what_the_command_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Documentation/debugging.rst");
    let page = fs::read_to_string(&file).expect("the page");
    let made = made(&page);
    if std::env::var_os("OXE_FIX").is_some() {
        fs::write(&file, made).expect("the page can be written");
    } else {
        assert!(made == page, "make fix");
    }
}

#[test]
fn items_are_wrapped() {
    let text = "word ".repeat(30);
    let item = item("term", &text);
    assert!(item.starts_with("``term``\n    word word"));
    assert!(item.lines().all(|line| line.len() <= WIDTH));
    assert_eq!(item.matches("word").count(), 30);
    assert_eq!(sentence("packets."), "Packets.");
}
