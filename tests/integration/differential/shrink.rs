//! Makes a failing case smaller while it fails, and writes it down.

use super::case::{Case, Keys, Statement, Step};
use super::spell::Speller;
use super::world::{Difference, World};

/// Attempts to make a case smaller.
const ATTEMPTS: usize = 100;

/// The smallest difference that was found in this world, in words.
pub fn report(world: &World, difference: Difference) -> String {
    let mut smallest = difference;
    // Far from the numbers of its own cases.
    let mut number = 1_000_000;
    let mut attempts = ATTEMPTS;
    let mut alone = false;
    'smaller: loop {
        for case in smaller(&smallest.case) {
            if attempts == 0 {
                break 'smaller;
            }
            attempts -= 1;
            number += 1;
            let found = world.session(&format!("attempt {number}"), vec![case.again(number)]).err();
            if let Some(found) = found {
                smallest = *found;
                alone = true;
                continue 'smaller;
            }
        }
        break;
    }
    let keys = Keys::of(&smallest.case);
    let speller = Speller { schema: &smallest.schema, keys: &keys, number: smallest.case.number };
    let alone = if alone { "" } else { " (only seen among others)" };
    format!(
        "{}\ncase {}{alone}, {}\n{}",
        smallest.schema.ddl(),
        smallest.case.number,
        speller.script(&smallest.case),
        smallest.what
    )
}

/// Cases that are smaller by a step, a statement or a row.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    // The last step cleans up.
    let steps = case.steps.len().saturating_sub(1);
    for at in 0..steps {
        let mut without = case.clone();
        without.steps.remove(at);
        all.push(without);
    }
    for at in 0..steps {
        let Step::Group(group) = &case.steps[at] else { continue };
        for statement in 0..group.statements.len() {
            if group.statements.len() > 1 {
                all.push(changed(case, at, |statements| {
                    statements.remove(statement);
                }));
            }
            let Statement::Insert(insert) = &group.statements[statement] else { continue };
            for row in 0..insert.rows.len() {
                if insert.rows.len() > 1 {
                    all.push(changed(case, at, |statements| {
                        if let Statement::Insert(insert) = &mut statements[statement] {
                            insert.rows.remove(row);
                        }
                    }));
                }
            }
        }
    }
    all
}

fn changed(case: &Case, step: usize, change: impl FnOnce(&mut Vec<Statement>)) -> Case {
    let mut changed = case.clone();
    if let Step::Group(group) = &mut changed.steps[step] {
        change(&mut group.statements);
    }
    changed
}
