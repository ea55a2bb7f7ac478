//! Reading tokens one after another: what the parsers of statements have in common. Knows no statement.

use super::lex::{Kind, Lexer, Literal, Options, Token};
use super::name::{self, Ident, Name};
use std::ops::Range;

/// A place between two tokens. Cloning it is cheap: that is how the parsers look ahead.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    next: Option<Token>,
    /// Position after the last token taken.
    last_end: usize,
    /// Every `;` before this position is known not to be the end.
    more_at: usize,
    options: Options,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], range: Range<usize>, options: Options) -> Self {
        let text = text.get(..range.end).unwrap_or(text);
        let lexer = Lexer::new(text, range.clone(), options);
        let mut cursor = Self { text, lexer, next: None, last_end: range.start, more_at: 0, options };
        cursor.fetch();
        cursor
    }

    /// The text may end with `;`, which is no part of the statement.
    fn fetch(&mut self) {
        self.next = self.lexer.next();
        let Some(token) = self.next.filter(|token| token.kind == Kind::Symbol(b';')) else {
            return;
        };
        if token.start < self.more_at {
            return;
        }
        match self.lexer.clone().find(|token| token.kind != Kind::Symbol(b';')) {
            Some(more) => self.more_at = more.start,
            None => {
                self.next = None;
                self.text = self.text.get(..token.start).unwrap_or(self.text);
                self.lexer = Lexer::new(self.text, token.start..token.start, self.options);
            }
        }
    }

    /// A cursor over a part of the same text.
    pub(super) fn within(&self, range: Range<usize>) -> Self {
        Self::new(self.text, range, self.options)
    }

    /// The text up to the end of the part that is read.
    pub(super) fn text(&self) -> &'a [u8] {
        self.text
    }

    pub(super) fn options(&self) -> Options {
        self.options
    }

    pub(super) fn peek(&self) -> Option<Token> {
        self.next
    }

    /// The token after the next.
    pub(super) fn peek_second(&self) -> Option<Token> {
        let mut ahead = self.clone();
        ahead.advance();
        ahead.next
    }

    pub(super) fn advance(&mut self) -> Option<Token> {
        let token = self.next?;
        self.last_end = token.end;
        self.fetch();
        Some(token)
    }

    /// Position of the next token, or of the end.
    pub(super) fn position(&self) -> usize {
        self.next.map_or(self.text.len(), |token| token.start)
    }

    pub(super) fn last_end(&self) -> usize {
        self.last_end
    }

    /// Goes to a position that lies between two tokens.
    pub(super) fn jump(&mut self, position: usize) {
        let mut there = self.within(position..self.text.len());
        there.last_end = position;
        *self = there;
    }

    pub(super) fn bytes(&self, token: Token) -> &'a [u8] {
        self.text.get(token.range()).unwrap_or_default()
    }

    pub(super) fn at_end(&self) -> bool {
        self.next.is_none()
    }

    /// Whether the token is this keyword. `keyword` is in lower case.
    pub(super) fn token_is(&self, token: Option<Token>, keyword: &str) -> bool {
        token.is_some_and(|token| {
            token.kind == Kind::Word && self.bytes(token).eq_ignore_ascii_case(keyword.as_bytes())
        })
    }

    pub(super) fn is(&self, keyword: &str) -> bool {
        self.token_is(self.next, keyword)
    }

    pub(super) fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    /// Whether the next two tokens are these keywords.
    pub(super) fn are(&self, first: &str, second: &str) -> bool {
        self.is(first) && self.token_is(self.peek_second(), second)
    }

    pub(super) fn accept(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        if found {
            self.advance();
        }
        found
    }

    /// Takes all of these keywords or none.
    pub(super) fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let mut ahead = self.clone();
        let found = keywords.iter().all(|keyword| ahead.accept(keyword));
        if found {
            *self = ahead;
        }
        found
    }

    pub(super) fn is_symbol(&self, symbol: u8) -> bool {
        self.next.is_some_and(|token| token.kind == Kind::Symbol(symbol))
    }

    pub(super) fn accept_symbol(&mut self, symbol: u8) -> bool {
        self.accept_kind(Kind::Symbol(symbol))
    }

    pub(super) fn accept_kind(&mut self, kind: Kind) -> bool {
        let found = self.next.is_some_and(|token| token.kind == kind);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn string(&mut self) -> Option<Literal> {
        let Kind::String(literal) = self.next?.kind else {
            return None;
        };
        self.advance();
        Some(literal)
    }

    /// What an identifier token names. `None` for other tokens, for `U&"…"`, and if it is not UTF-8.
    pub(super) fn ident_of(&self, token: Token) -> Option<Ident> {
        match token.kind {
            Kind::Word => name::fold(self.bytes(token)),
            Kind::Quoted { unicode: false } => {
                name::unquote(self.text.get(token.start + 1..token.end.checked_sub(1)?)?)
            }
            _ => None,
        }
    }

    pub(super) fn ident(&mut self) -> Option<Ident> {
        let ident = self.ident_of(self.next?)?;
        self.advance();
        Some(ident)
    }

    /// `name`, `schema.name` or `database.schema.name`.
    pub(super) fn name(&mut self) -> Option<Name> {
        let mut name = Name { schema: None, name: self.ident()? };
        for _ in 0..2 {
            if !self.accept_symbol(b'.') {
                break;
            }
            let last = self.ident()?;
            name.schema = Some(std::mem::replace(&mut name.name, last));
        }
        Some(name)
    }

    /// `(a, b, …)`, nothing but identifiers.
    pub(super) fn ident_list(&mut self) -> Option<Vec<Ident>> {
        if !self.accept_symbol(b'(') {
            return None;
        }
        let mut idents = vec![self.ident()?];
        while self.accept_symbol(b',') {
            idents.push(self.ident()?);
        }
        self.accept_symbol(b')').then_some(idents)
    }

    /// Takes `( … )` with all that is in it; the range is that of the inside. `None` if it never closes.
    pub(super) fn parentheses(&mut self) -> Option<Range<usize>> {
        if !self.accept_symbol(b'(') {
            return None;
        }
        let start = self.last_end;
        let mut depth = 1usize;
        loop {
            let token = self.advance()?;
            match token.kind {
                Kind::Symbol(b'(') => depth += 1,
                Kind::Symbol(b')') => depth -= 1,
                Kind::Error => return None,
                _ => {}
            }
            if depth == 0 {
                return Some(start..token.start);
            }
        }
    }

    /// Takes tokens up to the first at depth zero that `stop` says yes to, or to a closing parenthesis or
    /// bracket that was not opened here, or to the end. The range is that of the tokens taken; `None`
    /// if something never ends.
    pub(super) fn skip_to(&mut self, mut stop: impl FnMut(&Self, Token) -> bool) -> Option<Range<usize>> {
        let start = self.position();
        let (mut depth, mut end) = (0usize, start);
        while let Some(token) = self.next {
            match token.kind {
                Kind::Error => return None,
                Kind::Symbol(b')' | b']') if depth == 0 => break,
                _ if depth == 0 && stop(self, token) => break,
                Kind::Symbol(b'(' | b'[') => depth += 1,
                Kind::Symbol(b')' | b']') => depth -= 1,
                _ => {}
            }
            end = token.end;
            self.advance();
        }
        (depth == 0).then_some(start..end)
    }
}
