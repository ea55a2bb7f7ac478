//! Cuts the text of a simple Query into its statements.
