// SPDX-License-Identifier: GPL-2.0

//! Users: who is accounted for what a process takes.

use crate::ffi;

/// The number of root in the initial user namespace.
const ROOT: u64 = 0;

/// The number of the calling process's user. Process context.
///
/// That is its real user ID in the initial user namespace. A process in another one counts as the
/// user who made the outermost namespace that it is in: whoever makes namespaces has many IDs in
/// them. The namespaces that root makes (containers) are users of their own.
pub(crate) fn current_id() -> u64 {
    // SAFETY: no requirements.
    unsafe { ffi::oxe_user_id() }
}

/// Whether that is root.
pub(crate) fn is_root(id: u64) -> bool {
    id == ROOT
}
