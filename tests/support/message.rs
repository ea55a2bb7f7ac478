//! Writes frontend messages of the Postgres protocol, right or deliberately wrong; knows no sockets and none of the proxy's code.

/// A parameter of a Bind.
#[derive(Clone, Debug)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// Text format.
    Text(String),
    /// Binary format.
    Binary(Vec<u8>),
}

/// A text parameter.
pub fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// A message with its length.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    frame_claiming(tag, length(body.len() + 4), body)
}

/// A message whose length field says what it is told to say.
pub fn frame_claiming(tag: u8, length: i32, body: &[u8]) -> Vec<u8> {
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn length(length: usize) -> i32 {
    i32::try_from(length).expect("no test sends two gigabytes")
}

fn count(count: usize) -> [u8; 2] {
    u16::try_from(count).expect("the protocol counts to 65,535").to_be_bytes()
}

fn terminated(text: impl AsRef<[u8]>) -> Vec<u8> {
    [text.as_ref(), &[0]].concat()
}

/// StartupMessage, protocol 3.0.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(terminated(name));
        body.extend(terminated(value));
    }
    body.push(0);
    untagged(&body)
}

/// A first message of a connection: a length and a body, no tag.
pub fn untagged(body: &[u8]) -> Vec<u8> {
    [&length(body.len() + 4).to_be_bytes()[..], body].concat()
}

/// CancelRequest for the session with this backend key.
pub fn cancel(backend_key: &[u8]) -> Vec<u8> {
    untagged(&[&80_877_102_i32.to_be_bytes()[..], backend_key].concat())
}

/// Query.
pub fn query(sql: impl AsRef<[u8]>) -> Vec<u8> {
    frame(b'Q', &terminated(sql))
}

/// Parse; an `oid` of 0 leaves the type to the server.
pub fn parse(name: &str, sql: impl AsRef<[u8]>, oids: &[u32]) -> Vec<u8> {
    let types: Vec<u8> = oids.iter().flat_map(|oid| oid.to_be_bytes()).collect();
    frame(b'P', &[terminated(name), terminated(sql), count(oids.len()).to_vec(), types].concat())
}

/// Bind with text results.
pub fn bind(portal: &str, statement: &str, values: &[Value]) -> Vec<u8> {
    let mut body = [terminated(portal), terminated(statement), count(values.len()).to_vec()].concat();
    for value in values {
        body.extend(u16::from(matches!(value, Value::Binary(_))).to_be_bytes());
    }
    body.extend(count(values.len()));
    for value in values {
        let bytes = match value {
            Value::Null => {
                body.extend((-1_i32).to_be_bytes());
                continue;
            }
            Value::Text(text) => text.as_bytes(),
            Value::Binary(bytes) => bytes,
        };
        body.extend(length(bytes.len()).to_be_bytes());
        body.extend(bytes);
    }
    body.extend(count(0));
    frame(b'B', &body)
}

/// Describe of a statement (`S`) or a portal (`P`).
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[vec![kind], terminated(name)].concat())
}

/// Execute; `rows` of 0 is no limit.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    frame(b'E', &[terminated(portal), rows.to_be_bytes().to_vec()].concat())
}

/// Close of a statement (`S`) or a portal (`P`).
pub fn close(kind: u8, name: &str) -> Vec<u8> {
    frame(b'C', &[vec![kind], terminated(name)].concat())
}

/// Sync.
pub fn sync() -> Vec<u8> {
    frame(b'S', &[])
}

/// Flush.
pub fn flush() -> Vec<u8> {
    frame(b'H', &[])
}

/// CopyData.
pub fn copy_data(data: &[u8]) -> Vec<u8> {
    frame(b'd', data)
}

/// CopyDone.
pub fn copy_done() -> Vec<u8> {
    frame(b'c', &[])
}

/// CopyFail.
pub fn copy_fail(reason: &str) -> Vec<u8> {
    frame(b'f', &terminated(reason))
}

/// FunctionCall of the fast path, all arguments and the result in text format.
pub fn function_call(function: u32, arguments: &[&str]) -> Vec<u8> {
    let mut body = [&function.to_be_bytes()[..], &count(0), &count(arguments.len())].concat();
    for argument in arguments {
        body.extend(length(argument.len()).to_be_bytes());
        body.extend(argument.as_bytes());
    }
    body.extend(count(0));
    frame(b'F', &body)
}

/// Terminate.
pub fn terminate() -> Vec<u8> {
    frame(b'X', &[])
}

/// Parse, Bind, Describe and Execute of the unnamed statement and portal, without a Sync.
pub fn extended(sql: impl AsRef<[u8]>, values: &[Value]) -> Vec<u8> {
    [parse("", sql, &[]), bind("", "", values), describe(b'P', ""), execute("", 0)].concat()
}
