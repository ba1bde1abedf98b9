// SPDX-License-Identifier: GPL-2.0

//! A host that counts bytes instead of moving them, for messages larger than a test has memory.

use super::super::{
    AccessError, AtomicOp, Flush, Payload, PlaceError, RecvCompletion, RecvStart, Request,
    RequestQueue, RequesterOps, ResponderOps, Status,
};

/// One request without real memory behind it.
pub struct Sink {
    request: Request,
    /// The payload of the packet that is being handled.
    pub expect: Payload,
    /// Bytes placed, in order.
    pub placed: u64,
    /// The status and length of completed receives.
    pub received: Vec<(Status, u32)>,
}

impl Sink {
    pub fn new(request: Request) -> Self {
        Sink {
            request,
            expect: Payload::None,
            placed: 0,
            received: Vec::new(),
        }
    }
}

impl RequestQueue for Sink {
    fn tail(&self) -> u32 {
        1
    }

    fn get(&self, n: u32) -> Option<&Request> {
        (n == 0).then_some(&self.request)
    }

    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        (n == 0).then_some(&mut self.request)
    }
}

impl RequesterOps for Sink {
    fn place(&mut self, n: u32, offset: u32) -> Result<(), PlaceError> {
        assert_eq!((n, u64::from(offset)), (0, self.placed));
        let Payload::Read {
            va,
            offset: from,
            len,
            ..
        } = self.expect
        else {
            panic!("not a READ's payload");
        };
        assert_eq!(va + u64::from(from), self.request.va + u64::from(offset));
        self.placed += u64::from(len);
        Ok(())
    }

    fn place_atomic(&mut self, _: u32, _: u64) -> Result<(), PlaceError> {
        panic!("no atomic was asked for");
    }

    fn finish_read(&mut self, _n: u32) -> Result<(), Status> {
        Ok(())
    }

    fn overlap(&self, _: u32, _: u32) -> bool {
        false
    }
}

impl ResponderOps for Sink {
    fn recv_start(&mut self) -> RecvStart {
        RecvStart::Taken
    }
    fn recv_place(&mut self, _: u32) -> Result<(), PlaceError> {
        Ok(())
    }
    fn recv_done(&mut self, completion: RecvCompletion) {
        self.received.push((completion.status, completion.byte_len));
    }
    fn write_start(&mut self, _: u64, _: u32, _: u32) -> Result<(), AccessError> {
        Ok(())
    }
    fn write_place(&mut self, _: u32) -> Result<(), AccessError> {
        Ok(())
    }
    fn read_start(&mut self, _: u8, _: u64, _: u32, _: u32) -> Result<(), AccessError> {
        Ok(())
    }
    fn atomic(&mut self, _: u64, _: u32, _: AtomicOp) -> Result<u64, AccessError> {
        Err(AccessError::Access)
    }
    fn atomic_write(&mut self, _: u64, _: u32) -> Result<(), AccessError> {
        Err(AccessError::Access)
    }
    fn flush(&mut self, _: &Flush) -> Result<(), AccessError> {
        Err(AccessError::Access)
    }
    fn invalidate(&mut self, _: u32) -> Result<(), AccessError> {
        Err(AccessError::Access)
    }
}
