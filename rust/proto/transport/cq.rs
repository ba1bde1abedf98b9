// SPDX-License-Identifier: GPL-2.0

//! The events of a completion queue, which belong to no transport service: [`notification`] decides
//! when the consumer gets one, [`moderation`] how long it waits for further completions.

pub mod moderation;
pub mod notification;

use super::common;

pub use moderation::{EventModeration, Moderated};
pub use notification::{Armed, Ends, Notification};
