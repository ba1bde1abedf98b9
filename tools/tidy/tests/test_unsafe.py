# SPDX-License-Identifier: GPL-2.0
"""`unsafe`, its comments, and panics."""

import textwrap
import unittest

from tidy import unsafe

from .trees import TreeCase

LACKS = "`unsafe` without a `// SAFETY:` comment"


class Unsafe(TreeCase):
    subject = unsafe

    def test_outside_of_its_parts(self):
        text = '// unsafe\nconst A: &str = "unsafe";\nunsafe fn f() {}\n'
        found = "rust/device/a.rs:3: `unsafe` outside rust/{ffi,rdma,net,sync}"
        self.assertSays({"rust/device/a.rs": text, "rust/net/a.rs": text}, found)

    def test_tests_are_no_exception(self):
        files = {"rust/proto.rs": "#[cfg(test)]\nmod a;\n", "rust/proto/a.rs": "unsafe fn f() {}\n"}
        self.assertEqual(len(self.said(files)), 1)

    def test_comments(self):
        good = """\
            // SAFETY: it is so.
            let a = unsafe { b() };
            // SAFETY: this too.
            #[allow(x)]
            let c = d(
                unsafe { e() },
            );
            let f = unsafe { g() }; // SAFETY: here.
            // SAFETY: for the type.
            unsafe impl Send for A {}
            """
        self.assertSays({"rust/net/a.rs": textwrap.dedent(good)})

    def test_a_comment_of_another_statement_does_not_count(self):
        bad = "// SAFETY: this.\nlet a = 1;\nlet b = unsafe { c() };\nunsafe impl Send for A {}\n"
        self.assertSays(
            {"rust/net/a.rs": bad}, f"rust/net/a.rs:3: {LACKS}", f"rust/net/a.rs:4: {LACKS}"
        )

    def test_a_comment_that_is_far_away_does_not_count(self):
        for between, found in ((11, 0), (12, 1)):
            text = "// SAFETY: far.\n" + "a(\n" * between + "unsafe { b() }\n"
            self.assertEqual(len(self.said({"rust/net/a.rs": text})), found)


class Panics(TreeCase):
    subject = unsafe

    def test_kernel_code_does_not_panic(self):
        text = "fn f() {\na.unwrap();\nb.expect(x);\ntodo!()\n}\nfn g() { unreachable!() }\n"
        start = "kernel code must not panic:"
        self.assertSays(
            {"rust/device/a.rs": text},
            f"rust/device/a.rs:2: {start} .unwrap()",
            f"rust/device/a.rs:3: {start} .expect(",
            f"rust/device/a.rs:4: {start} todo!",
            f"rust/device/a.rs:6: {start} unreachable!",
        )

    def test_tests_may(self):
        text = "fn f() { a.unwrap_or(b) }\n#[cfg(test)]\nmod tests { fn f() { a.unwrap() } }\n"
        self.assertSays({"rust/device/a.rs": text})


if __name__ == "__main__":
    unittest.main()
