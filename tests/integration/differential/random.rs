//! Numbers that look random and are the same everywhere, so that a seed repeats a run.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Of a seed; neighbours give unlike sequences.
    pub fn new(seed: u64) -> Random {
        // splitmix64: xorshift must not start at zero, nor two of them close to each other.
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((mixed ^ (mixed >> 31)).max(1))
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() >> 32).expect("32 bits are left") % bound
    }

    /// True once in so many times.
    pub fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(u32::try_from(among.len()).expect("few")) as usize]
    }
}
