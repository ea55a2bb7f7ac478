//! Holds the source to the drawing in `src/lib.rs`: who may import whom, what stays pure, where a library has its only home.

use std::path::{Path, PathBuf};

/// The floors. A module imports modules of lower floors only.
const MAY_IMPORT: &[(&str, u32)] = &[
    ("wire", 0),
    ("sql", 0),
    ("key", 0),
    ("live", 0),
    ("catalog", 1),
    ("carrier", 2),
    ("rekey", 3),
    ("session", 4),
    ("journal", 4),
    ("diagnosis", 5),
    ("proxy", 5),
    ("admin", 6),
    ("config", 7),
    ("cli", 8),
];

/// Imports that point down and are forbidden all the same.
const NEVER: &[(&str, &str)] = &[("admin", "proxy")];

/// Modules that do no I/O, read no clock and draw no random numbers of their own.
const PURE: &[&str] = &["wire", "sql", "key", "catalog", "carrier", "rekey", "session", "diagnosis"];

/// What a pure module cannot mention.
const IMPURE: &[&str] =
    &["tokio", "std::net", "std::fs", "SystemTime::now", "Instant::now", "rand", "getrandom"];

/// Libraries with one home each.
const HOMES: &[(&str, &str)] = &[("sqlparser", "sql"), ("dashmap", "live")];

#[test]
fn imports_point_down() {
    nothing_of(violations(&sources(), imports_upwards));
}

#[test]
fn pure_modules_stay_pure() {
    nothing_of(violations(&sources(), impurities));
}

#[test]
fn libraries_stay_at_home() {
    nothing_of(violations(&sources(), strays));
}

#[test]
fn every_file_says_what_it_knows() {
    let untold = |source: &Source| {
        let told = source.text.starts_with("//! ");
        (!told).then(|| "does not begin with a `//!` sentence".to_owned()).into_iter().collect()
    };
    nothing_of(violations(&sources(), untold));
}

#[test]
fn no_file_names_a_package_registry() {
    let hosts = [["crates", "io"], ["npmjs", "org"], ["pypi", "org"], ["pythonhosted", "org"]]
        .map(|parts| parts.join("."));
    let named = files(Path::new(env!("CARGO_MANIFEST_DIR")), &|_| true)
        .into_iter()
        // The lock file is cargo's own, and names its registry on every line.
        .filter(|path| !path.ends_with("Cargo.lock"))
        .filter(|path| {
            let text = std::fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            hosts.iter().any(|host| text.contains(host))
        });
    assert_eq!(named.collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

/// A file of `src`.
struct Source {
    /// Its path below `src`.
    path: String,
    /// All of it.
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    /// The names of the modules it is in, from the crate's root to itself.
    fn modules(&self) -> Vec<&str> {
        let names = self.path.trim_end_matches(".rs").split('/');
        names.filter(|name| !matches!(*name, "mod" | "lib" | "main")).collect()
    }

    /// The module of the drawing it belongs to; none for the roots.
    fn module(&self) -> Option<&str> {
        self.modules().first().copied()
    }

    /// Its code without comments, the contents of strings, and test modules.
    fn code(&self) -> String {
        let is_test = self.modules().last().is_some_and(|name| *name == "tests" || name.ends_with("_tests"));
        if is_test { String::new() } else { without_test_modules(&without_comments_and_strings(&self.text)) }
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rust = files(&root, &|path| path.extension().is_some_and(|extension| extension == "rs"));
    let source = |path: PathBuf| {
        let below = path.strip_prefix(&root).expect("it is below src").to_string_lossy().into_owned();
        Source { path: below, text: std::fs::read_to_string(&path).expect("a source file is text") }
    };
    let sources: Vec<Source> = rust.into_iter().map(source).collect();
    assert!(sources.iter().any(|source| source.path == "lib.rs"), "src was not found");
    sources
}

/// Files below a directory, without what is generated.
fn files(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let generated = ["target", ".git", "node_modules", ".venv", "__pycache__"];
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let kept =
        entries.filter(|path| !path.file_name().is_some_and(|name| generated.iter().any(|one| name == *one)));
    let mut found = Vec::new();
    for path in kept {
        if path.is_dir() {
            found.extend(files(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found
}

fn violations(sources: &[Source], check: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    let named = |source: &Source| {
        check(source).into_iter().map(|what| format!("src/{}: {what}", source.path)).collect::<Vec<_>>()
    };
    sources.iter().flat_map(named).collect()
}

fn nothing_of(violations: Vec<String>) {
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn imports_upwards(source: &Source) -> Vec<String> {
    let Some(module) = source.module() else {
        return Vec::new();
    };
    let Some(floor) = floor(module) else {
        return vec![format!("module {module} is not on the drawing")];
    };
    let forbidden = |import: &String| {
        let points_down = self::floor(import).is_some_and(|other| other < floor);
        import != module && (!points_down || NEVER.contains(&(module, import)))
    };
    imports(source).into_iter().filter(forbidden).map(|import| format!("{module} imports {import}")).collect()
}

fn floor(module: &str) -> Option<u32> {
    MAY_IMPORT.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// The modules of the drawing that a file names by `crate::` or by enough `super::`, each once.
fn imports(source: &Source) -> Vec<String> {
    let tokens = tokens(&source.code());
    let depth = source.modules().len();
    let mut found = Vec::new();
    for start in 0..tokens.len() {
        if start >= 2 && tokens[start - 1] == "::" {
            continue; // The middle of a path.
        }
        let supers = tokens[start..].chunks(2).take_while(|pair| *pair == ["super", "::"]).count();
        let from_root = match &tokens[start..] {
            [first, second, ..] if first == "crate" && second == "::" => Some(start + 2),
            _ if supers > 0 && supers == depth => Some(start + 2 * supers),
            _ => None,
        };
        found.extend(from_root.into_iter().flat_map(|place| heads(&tokens[place..])));
    }
    found.sort();
    found.dedup();
    found
}

/// The first names of a path or of a braced list of paths.
fn heads(tokens: &[String]) -> Vec<String> {
    let Some(first) = tokens.first() else {
        return Vec::new();
    };
    if first != "{" {
        return vec![first.clone()];
    }
    let mut depth = 0;
    let mut heads = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if depth == 1 && matches!(tokens[place - 1].as_str(), "{" | ",") => heads.push(token.clone()),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn impurities(source: &Source) -> Vec<String> {
    if !source.module().is_some_and(|module| PURE.contains(&module)) {
        return Vec::new();
    }
    let code = source.code();
    IMPURE
        .iter()
        .filter(|word| mentions(&code, word))
        .map(|word| format!("pure, and mentions {word}"))
        .collect()
}

fn strays(source: &Source) -> Vec<String> {
    let code = source.code();
    let stray = |(library, home): &&(&str, &str)| source.module() != Some(home) && mentions(&code, library);
    HOMES.iter().filter(stray).map(|(library, home)| format!("{library} belongs to {home}")).collect()
}

/// Whether code contains a path as whole identifiers.
fn mentions(code: &str, path: &str) -> bool {
    let (code, path) = (tokens(code), tokens(path));
    code.windows(path.len()).any(|window| window == path)
}

/// Identifiers, `::`, and every other character by itself.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = if word > 0 {
            word
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token.to_owned());
        rest = after.trim_start();
    }
    tokens
}

/// Code with comments gone, and strings and characters empty.
fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if is_character(rest) {
            quoted(rest, '\'')
        } else {
            0
        };
        if skipped == 0 {
            code.push(first);
        }
        rest = &rest[skipped.max(first.len_utf8())..];
    }
    code
}

/// The length of a raw string that starts here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let opening = text.len() - after.len() + hashes;
    text[opening..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    Some(text[opening + 1..].find(&closing).map_or(text.len(), |end| opening + 1 + end + closing.len()))
}

/// Whether a quote opens a character, not a lifetime.
fn is_character(text: &str) -> bool {
    let mut after = text.chars().skip(1);
    text.starts_with('\'') && (after.next() == Some('\\') || after.next() == Some('\''))
}

/// The length of a quoted thing with backslash escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return place + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Code without the modules marked `#[cfg(test)]`.
fn without_test_modules(code: &str) -> String {
    let Some(start) = code.find("#[cfg(test)]") else {
        return code.to_owned();
    };
    let (before, item) = code.split_at(start);
    let (brace, semicolon) = (item.find('{').unwrap_or(item.len()), item.find(';').unwrap_or(item.len()));
    let end = if semicolon < brace { semicolon + 1 } else { brace + block(&item[brace..]) };
    format!("{before}{}", without_test_modules(&item[end..]))
}

/// The length of a block in braces.
fn block(code: &str) -> usize {
    let mut depth = 0;
    for (place, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    code.len()
}

#[test]
fn an_import_is_seen_however_it_is_written() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("sql/lex.rs", "use crate::proxy::Relay;", &["proxy"]),
        ("sql/lex.rs", "fn f() { crate::proxy::run() }", &["proxy"]),
        ("sql/lex.rs", "use crate::{key::{Key, cli}, wire, proxy::{self}};", &["key", "proxy", "wire"]),
        ("sql/lex.rs", "pub(crate) use super::super::proxy;", &["proxy"]),
        ("sql/lex.rs", "use super::statement;", &[]),
        ("sql/mod.rs", "use super::key;", &["key"]),
        ("key.rs", "use super::proxy;", &["proxy"]),
        (
            "sql/lex.rs",
            "// use crate::proxy;\n/* crate::cli */ const A: &str = \"crate::cli\"; const B: &str = r#\"crate::\"cli\"#;",
            &[],
        ),
        (
            "sql/lex.rs",
            "const Q: char = '\"'; use crate::cli; const R: char = '\\''; const S: &str = \"\\\"crate::proxy\";",
            &["cli"],
        ),
        ("sql/lex.rs", "#[cfg(test)]\nmod tests { use crate::proxy; fn f() {} }\nuse crate::key;", &["key"]),
        ("sql/lex.rs", "#[cfg(test)]\nmod tests;\nuse crate::key;", &["key"]),
        ("sql/tests.rs", "use crate::proxy;", &[]),
        ("sql/lex_tests.rs", "use crate::proxy;", &[]),
    ];
    for (path, text, expected) in cases {
        assert_eq!(imports(&Source::new(path, text)), *expected, "{path}: {text}");
    }
}

#[test]
fn violations_are_found() {
    type Check = fn(&Source) -> Vec<String>;
    let cases: &[(Check, &str, &str, bool)] = &[
        (imports_upwards, "wire/tag.rs", "use crate::catalog;", true),
        (imports_upwards, "wire/tag.rs", "use crate::sql;", true),
        (imports_upwards, "wire/tag.rs", "use crate::wire::frame;", false),
        (imports_upwards, "catalog/mod.rs", "use crate::{key, sql};", false),
        (imports_upwards, "admin/http.rs", "use crate::proxy;", true),
        (imports_upwards, "admin/http.rs", "use crate::journal;", false),
        (imports_upwards, "cli/run.rs", "use crate::{admin, config, proxy};", false),
        (imports_upwards, "attic.rs", "", true),
        (impurities, "session/mod.rs", "use tokio::net::TcpStream;", true),
        (impurities, "session/mod.rs", "fn now() { std::time::Instant::now(); }", true),
        (impurities, "session/mod.rs", "// tokio\nfn operand() {}", false),
        (impurities, "proxy/relay.rs", "use tokio::net::TcpStream;", false),
        (strays, "rekey/plan.rs", "use sqlparser::ast;", true),
        (strays, "sql/insert.rs", "use sqlparser::ast;", false),
        (strays, "sql/insert.rs", "use dashmap::DashMap;", true),
    ];
    for (check, path, text, found) in cases {
        assert_eq!(!check(&Source::new(path, text)).is_empty(), *found, "{path}: {text}");
    }
}
