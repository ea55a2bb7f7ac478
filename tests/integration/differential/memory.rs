//! What statements do to the model's memory: keys that they may free, keys that they may not name, and what is left open.

use super::case::{Carrier, Insert};
use super::database::State;
use super::model::Model;
use super::schema::{Quirk, Route};

impl Model<'_> {
    /// The tables that are, or may hold, rows of this relation: a family in which one key means one row.
    pub fn family(&self, relation: usize) -> Vec<usize> {
        let table = self.schema.relations[relation].table;
        let heirs =
            (0..self.schema.tables.len()).filter(|&at| self.schema.tables[at].inherits == Some(table));
        [table].into_iter().chain(heirs).collect()
    }

    pub fn reached_by_delete(&self, relation: usize) -> Vec<usize> {
        let mut reached = self.family(relation);
        let mut next = 0;
        while let Some(&parent) = reached.get(next) {
            next += 1;
            for (at, table) in self.schema.tables.iter().enumerate() {
                let falls = table.foreign.iter().any(|foreign| foreign.cascade && foreign.parent == parent);
                if falls && !reached.contains(&at) {
                    reached.push(at);
                }
            }
        }
        reached
    }

    /// A statement that names a key that several rows of these tables were sent with might mean any of them.
    pub fn refuse_shared(
        &mut self,
        tables: &[usize],
        keys: &[u32],
        through_view: bool,
    ) -> Result<(), Vec<State>> {
        if self.alone {
            return Ok(());
        }
        let once = self.once_shared.iter().any(|(_, key)| keys.contains(key));
        let shared = keys.iter().any(|key| self.now.window.is_shared(tables, *key));
        // Where it is not certain which tables there are, it could be any of them; nor is it certain what was
        // rolled back where a COMMIT was sent behind an error.
        let shared = match self.doubt {
            true => once && self.decide(),
            false => shared || through_view && once && self.decide(),
        };
        if shared { Err(vec!["23505"]) } else { Ok(()) }
    }

    /// Rows that nobody looks at might be children of a key that several rows of a parent were sent with.
    pub fn refuse_unseen(&mut self, relation: usize) -> Result<(), Vec<State>> {
        let shared = !self.alone && self.now.window.has_shared(&self.parents(relation));
        // Behind a COMMIT that was sent ahead of an error, nobody in between knows that the key is still shared.
        let refused = shared && (!self.doubt || self.decide());
        if refused { Err(vec!["23505"]) } else { Ok(()) }
    }

    /// Whether the name is a view's: what a statement through it may reach is left open.
    pub fn is_view(&self, relation: usize) -> bool {
        self.schema.relations[relation].route == Route::View
    }

    /// A decision that the contract leaves open.
    pub fn decide(&mut self) -> bool {
        let decision = self.course.checked_shr(self.open).unwrap_or_default() & 1;
        self.open += 1;
        decision == 1
    }

    /// After an UPDATE of a column that is in no key, keys are still known; those of tables that inherit it are left open.
    pub fn doubt_heirs(&mut self, relation: usize) {
        // Through a view all of its tables' keys are.
        let own = usize::from(!self.is_view(relation));
        let heirs = self.family(relation).split_off(own);
        self.doubt_keys(&heirs);
    }

    /// The tables whose rows an UPDATE or DELETE by key is about: its own, those that inherit, and its parents.
    pub fn meant(&self, relation: usize) -> Vec<usize> {
        self.family(relation).into_iter().chain(self.parents(relation)).collect()
    }

    /// The tables that rows of this relation refer to.
    pub fn parents(&self, relation: usize) -> Vec<usize> {
        let table = self.schema.relations[relation].table;
        self.schema.tables[table].foreign.iter().map(|foreign| foreign.parent).collect()
    }

    /// Keys of these tables may be free; those of a savepoint are, or are not, remembered after going back to it.
    pub fn clear(&mut self, tables: &[usize]) {
        self.now.window.clear(tables);
        for savepoint in &mut self.savepoints {
            savepoint.moment.window.doubt(tables);
        }
    }

    /// Whether keys of these tables are still remembered is left open.
    fn doubt_keys(&mut self, tables: &[usize]) {
        self.now.window.doubt(tables);
        for savepoint in &mut self.savepoints {
            savepoint.moment.window.doubt(tables);
        }
    }

    pub fn clear_all(&mut self) {
        let all: Vec<usize> = (0..self.schema.tables.len()).collect();
        self.clear(&all);
    }

    /// Whether the contract looks at the rows of an INSERT at all.
    pub fn inspects(&self, insert: &Insert) -> bool {
        !self.alone
            && self.schema.relations[insert.relation].route != Route::View
            && insert.carrier != Carrier::Filtered
            && !self.is_opaque(insert)
    }

    /// Whether the contract does not read the statement: an EXECUTE that is prepared in its turn could be anything,
    /// and what stands behind a COPY in one Query runs after data that is yet to come.
    pub fn is_opaque(&self, insert: &Insert) -> bool {
        match insert.carrier {
            Carrier::Execute => self.extended,
            carrier => carrier.is_copy() && !self.extended && !self.last,
        }
    }

    /// After rows went into the table: its triggers may have freed keys, and what rules do is left open.
    pub fn inserted(&mut self, table: usize) {
        match self.schema.tables[table].quirk {
            Quirk::Deletes => self.clear_all(),
            Quirk::Also | Quirk::Nothing => {
                let all: Vec<usize> = (0..self.schema.tables.len()).collect();
                self.doubt_keys(&all);
            }
            _ => {}
        }
    }
}
