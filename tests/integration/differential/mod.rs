//! Random schemas and random transactions, on a bare server, through untwin, and in the model: no difference may be seen.
//!
//! Read `model` for what is promised, `case` and `schema` for what is drawn, `compare` for what is compared.
//! `TEST_DIFFERENTIAL_TRANSACTIONS` and `TEST_DIFFERENTIAL_SEED` make a run longer and other. A failure prints the
//! seed, the smallest case that still fails, and the command that repeats it.

mod case;
mod compare;
mod database;
mod ddl;
mod design;
mod draw;
mod forms;
mod insert;
mod journal;
mod memory;
mod model;
pub mod random;
mod schema;
mod shrink;
mod spell;
mod store;
mod window;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use self::compare::Shown;
use self::random::Random;
use self::world::World;

/// Transactions in one schema.
const PER_WORLD: u64 = 150;
/// Schemas at the same time.
const LANES: u64 = 2;
/// Differences after which a run ends.
const ENOUGH: usize = 3;
/// Transactions of each of the two tests that are always run.
const ALWAYS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// One schema, its sessions and their cases; the difference in words.
fn world(seed: u64, at: u64) -> Result<Shown, String> {
    let mut random = Random::new(seed.wrapping_mul(0x0100_0000_01b3) ^ at);
    let schema = design::draw(&mut random);
    let sessions = random.pick(&[1, 1, 2, 3]);
    let count = u32::try_from(PER_WORLD).expect("few") / sessions;
    let world = World::new(schema);
    let result = world.run(random.next(), sessions, count);
    result.map_err(|difference| {
        format!(
            "seed {seed}, schema {at}: to see it again,\n\
             TEST_DIFFERENTIAL_SEED={seed} TEST_DIFFERENTIAL_SCHEMA={at} cargo test --test integration differential\n{}",
            shrink::report(&world, *difference)
        )
    })
}

fn run(seed: u64, transactions: u64) {
    let worlds = transactions.div_ceil(PER_WORLD);
    let (first, last) = match number("TEST_DIFFERENTIAL_SCHEMA") {
        Some(only) => (only, only + 1),
        None => (0, worlds),
    };
    println!("seed {seed}, {transactions} transactions");
    let (begun, next, all) = (Instant::now(), AtomicU64::new(first), Mutex::new(Shown::default()));
    let differences = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= last || differences.lock().expect("nobody panics with it").len() >= ENOUGH {
                        break;
                    }
                    match world(seed, at) {
                        Ok(shown) => all.lock().expect("nobody panics with it").add(shown),
                        Err(difference) => {
                            differences.lock().expect("nobody panics with it").push(difference);
                        }
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().expect("nobody panics with it");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    let all = all.into_inner().expect("nobody panics with it");
    let count = (last - first) * PER_WORLD;
    println!("seed {seed}: {all:?} of {count} in {:.1} s", begun.elapsed().as_secs_f64());
    let enough = |seen: u32| first + 1 == last || u64::from(seen) > count / 20;
    assert!(enough(all.harmless) && enough(all.saved) && enough(all.rekeyed), "too few cases say anything");
}

fn transactions() -> u64 {
    number("TEST_DIFFERENTIAL_TRANSACTIONS").unwrap_or(ALWAYS)
}

#[test]
fn random_transactions_of_a_fixed_seed_are_as_the_model_says() {
    run(number("TEST_DIFFERENTIAL_SEED").unwrap_or(20_260_101), transactions());
}

#[test]
fn random_transactions_of_a_new_seed_are_as_the_model_says() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    if number("TEST_DIFFERENTIAL_SEED").is_none() {
        run(now.as_secs(), transactions());
    }
}
