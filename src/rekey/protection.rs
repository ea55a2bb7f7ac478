//! Which keys of a table are protected once the settings have been heard: the catalog's judgement and the
//! operator's word together. Knows no statement.

use super::policy::{Policies, Policy, Protect};
use crate::catalog::Catalog;
use crate::catalog::model::{Table, UniqueKey};

/// The catalog as the settings have it: the keys of every table are those that are protected, each with the
/// column that is rekeyed. Which tables exist, and what frees keys, stays as it was. Settings of users,
/// databases and applications do not bear on it.
#[must_use]
pub fn configured(catalog: Catalog, policies: &Policies) -> Catalog {
    let rules = policies.for_session("", "", "");
    catalog.map(|table| effective(table, rules.table(&table.display)))
}

/// The table under a policy; `None`: as it is.
///
/// A table that is switched off keeps its keys, so that what frees them is still seen; its statements are not
/// planned.
#[must_use]
pub fn effective(table: &Table, policy: &Policy) -> Option<Table> {
    let opted_in = policy.protect == Protect::Always && table.unprotected.iter().any(|key| key.key.is_some());
    let moved = policy.rekey.is_some() && !(table.keys.is_empty() && table.unprotected.is_empty());
    if !opted_in && !moved {
        return None;
    }
    let mut table = table.clone();
    if opted_in {
        let (chosen, rest) = table.unprotected.into_iter().partition(|key| key.key.is_some());
        table.unprotected = rest;
        table.keys.extend(Vec::into_iter(chosen).filter_map(|key| key.key));
    }
    let columns: Vec<usize> = table.keys.iter().map(|key| rekeyed(&table, key, policy)).collect();
    table.keys.iter_mut().zip(columns).for_each(|(key, column)| key.rekey = column);
    Some(table)
}

/// The column of the key that is rekeyed (a position in `Table::columns`): the one the policy names if it is
/// one of the key's and can hold a UUID, else the catalog's choice.
#[must_use]
pub fn rekeyed(table: &Table, key: &UniqueKey, policy: &Policy) -> usize {
    let named = policy.rekey.as_deref().and_then(|name| {
        key.columns.iter().copied().find(|&at| {
            table.columns.get(at).is_some_and(|column| column.name == name && column.kind.can_hold_key())
        })
    });
    named.unwrap_or(key.rekey)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::model::{Column, ColumnKind, DefaultKind, IndexId, Unprotected, UnprotectedKey};

    fn column(name: &str, kind: ColumnKind) -> Column {
        let (default, type_name) = (DefaultKind::Null, "".into());
        Column { name: name.to_owned(), kind, default, generated: false, identity: false, type_name }
    }

    fn key(index: u32, columns: &[usize], rekey: usize) -> UniqueKey {
        let constraint = format!("k{index}");
        UniqueKey {
            index: IndexId(index),
            constraint,
            columns: columns.to_vec(),
            rekey,
            nulls_not_distinct: false,
        }
    }

    /// (tenant uuid, id uuid, code) with a protected key over tenant and id, one over code and id that is
    /// deferrable, and one over an expression.
    fn table() -> Table {
        let unprotected = |reason, key: Option<UniqueKey>| UnprotectedKey {
            constraint: "u".to_owned(),
            column: "id".to_owned(),
            reason,
            key,
        };
        Table {
            columns: vec![
                column("tenant", ColumnKind::Uuid),
                column("id", ColumnKind::Uuid),
                column("code", ColumnKind::Other),
            ],
            keys: vec![key(1, &[0, 1], 1)],
            unprotected: vec![
                unprotected(Unprotected::Expression, None),
                unprotected(Unprotected::Deferrable, Some(key(2, &[2, 1], 1))),
            ],
            ..Table::default()
        }
    }

    /// Index and rekeyed column of each key that is protected, and how many are not.
    fn told(protect: Protect, rekey: Option<&str>) -> Option<(Vec<(u32, usize)>, usize)> {
        let policy = Policy { protect, rekey: rekey.map(Into::into), ..Policy::default() };
        let table = effective(&table(), &policy)?;
        Some((table.keys.iter().map(|key| (key.index.0, key.rekey)).collect(), table.unprotected.len()))
    }

    #[test]
    fn keys_are_opted_in_where_their_tuple_can_be_told() {
        assert_eq!(told(Protect::Always, None), Some((vec![(1, 1), (2, 1)], 1)));
        assert_eq!(told(Protect::WhereHarmless, None), None);
        assert_eq!(told(Protect::Never, None), None);
    }

    #[test]
    fn the_column_that_is_named_is_rekeyed_in_the_keys_that_have_it() {
        assert_eq!(told(Protect::Always, Some("tenant")), Some((vec![(1, 0), (2, 1)], 1)));
        assert_eq!(told(Protect::WhereHarmless, Some("tenant")), Some((vec![(1, 0)], 2)));
    }

    #[test]
    fn a_column_that_holds_no_uuid_is_not_rekeyed() {
        for name in ["code", "Tenant", "missing"] {
            assert_eq!(told(Protect::Always, Some(name)), Some((vec![(1, 1), (2, 1)], 1)), "{name}");
        }
    }

    #[test]
    fn the_rest_of_the_catalog_stays_as_it_was() {
        let json = r#"{"schemas": [[1, "s"]], "types": [[2950, -1, "uuid", "u"]],
            "relations": [[7, 1, "t", "r"], [8, 1, "other", "r"]],
            "columns": [[7, [[1, "id", 2950, -1, false, false]]]],
            "indexes": [{"oid": 9, "table": 7, "parent": null, "name": "t_pkey", "columns": [1], "odd": false,
                "valid": true, "immediate": false, "partial": false, "expression": false,
                "nulls_not_distinct": false}]}"#;
        let mut policies = Policies::default();
        let rule = super::super::policy::TableRule { protect: Some(true), ..Default::default() };
        policies.add_table("s.t".parse().unwrap(), rule);
        let catalog = crate::catalog::load::parse(json, 3).unwrap();
        let other = std::sync::Arc::clone(catalog.tables().next().unwrap());
        let catalog = configured(catalog, &policies);
        let tables: Vec<_> =
            catalog.tables().map(|table| (table.display.as_str(), table.keys.len())).collect();
        assert_eq!((catalog.version, tables), (3, vec![("s.other", 0), ("s.t", 1)]));
        assert!(std::sync::Arc::ptr_eq(&other, catalog.tables().next().unwrap()));
        let by_id = catalog.table(crate::catalog::model::TableId(7)).unwrap();
        assert_eq!(by_id.keys.len(), 1);
        let name = crate::sql::name::Name { schema: Some("s".into()), name: "t".into() };
        let crate::catalog::Resolution::Table(by_name) =
            catalog.resolve(&name, &crate::catalog::Scope::unknown())
        else {
            panic!("s.t is known")
        };
        assert!(std::sync::Arc::ptr_eq(by_id, by_name));
    }
}
