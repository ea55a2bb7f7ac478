//! A row as one number, by which equal rows are known without keeping them. Knows nothing of keys.

use super::plan::Plan;
use super::references::Row;
use super::rows::Slot;
use super::window::RowHash;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hashes a row column by column, so that the order of a column list does not matter.
#[must_use]
pub fn row_hash(plan: &Plan, volatile: &[bool], seed: u64, row: Row, slots: &[Slot]) -> RowHash {
    let mut hash = RowHash::default();
    for (at, slot) in slots.iter().enumerate() {
        let (Some(&column), volatile) = (plan.inputs.get(at), volatile.get(at).copied().unwrap_or_default())
        else {
            continue;
        };
        let (bytes, mut form) = slot.value.content();
        if slot.is_unknown() {
            // Equal to no other.
            form = u64::from(row.0) << 32 | u64::from(row.1);
        }
        let part =
            xxh3_64_with_seed(bytes, seed ^ form.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (column as u64) << 32)
                as u32;
        hash.all = hash.all.wrapping_add(part);
        if !volatile {
            hash.steady = hash.steady.wrapping_add(part);
        }
    }
    hash
}
