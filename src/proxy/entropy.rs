//! The operating system's random source.

use crate::rekey::fresh::Entropy;

/// The operating system's random source, read in blocks.
#[derive(Debug, Default)]
pub struct System {
    block: Vec<u8>,
}

impl Entropy for System {
    fn bytes(&mut self) -> Option<[u8; 16]> {
        if self.block.len() < 16 {
            self.block.resize(256, 0);
            getrandom::fill(&mut self.block).ok()?;
        }
        let rest = self.block.len() - 16;
        let bytes = self.block.get(rest..)?.try_into().ok()?;
        self.block.truncate(rest);
        Some(bytes)
    }
}
