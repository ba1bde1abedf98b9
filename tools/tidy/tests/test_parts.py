# SPDX-License-Identifier: GPL-2.0
"""Which part names which."""

import unittest

from tidy import parts

from .trees import TreeCase

PURE = {str(root): "#![forbid(unsafe_code)]\n" for root in parts.PURE}
RELATIVE = "names things by relative paths (it is a crate of its own on the host)"


class Parts(TreeCase):
    subject = parts

    def test_allowed_parts(self):
        self.assertSays(
            PURE
            | {
                "rust/device/link.rs": "use crate::rdma::{self, qp};\nuse crate::{net, sync};\n",
                "rust/rdma/qp.rs": "use crate::ffi;\n",
                "rust/oxe.rs": "use crate::ffi;\nuse crate::device;\n",
                "rust/sync/a_tests.rs": "use crate::device;\n",
                "rust/sync.rs": '#[cfg(test)]\n#[path = "sync/a_tests.rs"]\nmod a_tests;\n',
            }
        )

    def test_parts_that_must_not_be_named(self):
        files = {
            "rust/device/link.rs": "// crate::ffi\nuse crate::ffi;\n",
            "rust/net/a.rs": "use crate::{\n    sync,\n    rdma::{self, x},\n};\nfn f(){}\n",
            "rust/sync/b.rs": "fn f() { crate::sync::a(crate::net::b()) }\n",
        }
        self.assertSays(
            PURE | files,
            "rust/device/link.rs:2: device must not import crate::ffi",
            "rust/net/a.rs:1: net must not import crate::rdma",
            "rust/sync/b.rs:1: sync must not import crate::net",
        )

    def test_words_of_other_parts(self):
        files = {
            "rust/proto/wire/a.rs": "use super::super::transport::X;\n",
            "rust/device/link.rs": "fn f() { bindings::x() }\n",
            "rust/rdma/a.rs": "use crate::x::proto::Y;\n",
            "rust/net.rs": "use proto::Y;\n",
            "rust/sync/c.rs": "use proto::Y;\n",
        }
        self.assertSays(
            PURE | files,
            "rust/device/link.rs:1: device must not see raw bindings",
            "rust/net.rs:1: net knows no protocol",
            "rust/proto/wire/a.rs:1: proto/wire must not know proto/transport",
            "rust/rdma/a.rs:1: rdma knows no protocol",
            "rust/sync/c.rs:1: sync knows no protocol",
        )

    def test_pure_parts(self):
        text = "use crate::x;\nuse super::super::y;\nuse super::super::super::z;\nuse std::w;\n"
        self.assertSays(
            PURE | {"rust/proto/wire/a.rs": text, "rust/device/uabi.rs": "use super::a;\n"},
            "rust/device/uabi.rs:1: lacks #![forbid(unsafe_code)]",
            "rust/device/uabi.rs:1: device/uabi must not know what is around it",
            f"rust/proto/wire/a.rs:1: proto {RELATIVE}",
            "rust/proto/wire/a.rs:3: proto must not know what is around it",
            "rust/proto/wire/a.rs:4: proto is core and zerocopy alone",
        )


if __name__ == "__main__":
    unittest.main()
