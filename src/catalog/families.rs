//! Which tables are one partition tree. A tree is treated as one table by everything that goes from
//! table to table, so that a table with thousands of partitions costs no more than one.

use std::collections::HashMap;

/// Partition trees. A table that is in none is its own root and only member.
#[derive(Debug, Default)]
pub(super) struct Families {
    roots: HashMap<u32, u32>,
    members: HashMap<u32, Vec<u32>>,
}

impl Families {
    /// From pairs of child and parent that say whether the child is a partition.
    pub fn new(inherits: &[(u32, u32, bool)]) -> Self {
        let partitions = inherits.iter().filter(|(_, _, is_partition)| *is_partition);
        let parents: HashMap<u32, u32> = partitions.map(|(child, parent, _)| (*child, *parent)).collect();
        let mut families = Self::default();
        for &child in parents.keys() {
            let root = top(child, &parents);
            families.roots.insert(child, root);
            families.members.entry(root).or_insert_with(|| vec![root]).push(child);
        }
        families
    }

    /// The topmost table of the tree that `table` is in.
    pub fn root(&self, table: u32) -> u32 {
        self.roots.get(&table).copied().unwrap_or(table)
    }

    /// Every table of the tree, the root first.
    pub fn members(&self, table: u32) -> Vec<u32> {
        let root = self.root(table);
        self.members.get(&root).cloned().unwrap_or_else(|| vec![root])
    }
}

/// Follows `parents` upwards to the end. Bounded even if they went in a circle.
pub(super) fn top(start: u32, parents: &HashMap<u32, u32>) -> u32 {
    let mut here = start;
    for _ in 0..parents.len() {
        match parents.get(&here) {
            Some(&parent) => here = parent,
            None => break,
        }
    }
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_every_level_have_one_root_and_heirs_have_their_own() {
        let families = Families::new(&[(2, 1, true), (3, 2, true), (4, 1, true), (9, 1, false)]);
        for (table, root) in [(1, 1), (2, 1), (3, 1), (4, 1), (9, 9), (77, 77)] {
            assert_eq!(families.root(table), root, "{table}");
        }
        let mut members = families.members(3);
        members.sort_unstable();
        assert_eq!(members, [1, 2, 3, 4]);
        assert_eq!(families.members(9), [9]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let circle = HashMap::from([(1, 2), (2, 1)]);
        assert!([1, 2].contains(&top(1, &circle)));
    }
}
