//! Knows how to lay out text for a terminal; what the text says is not its business.

/// `cells` under `header`, columns as wide as their widest cell, every line indented.
pub fn table<const N: usize>(header: [&str; N], cells: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max();
        widest.unwrap_or(0).max(header[column].chars().count())
    });
    let rule = widths.map(|width| "-".repeat(width));
    let mut text = line(&header.map(str::to_owned), widths);
    text += &line(&rule, widths);
    for row in cells {
        text += &line(row, widths);
    }
    text
}

/// `text` with every line indented.
pub fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

fn line<const N: usize>(cells: &[String; N], widths: [usize; N]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    indent(padded.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let cells = [["1".to_owned(), "x".to_owned()], ["22222".to_owned(), "y".to_owned()]];
        assert_eq!(table(["id", "v"], &cells), "    id     v\n    -----  -\n    1      x\n    22222  y\n");
    }
}
