//! The languages that can be compared, and what the kinds of their grammars mean to us.
//!
//! The five grammars name like things alike (`if_statement`, `if_expression`), so one list of names serves all of them.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// A programming language whose changes can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript, JSX included.
    JavaScript,
    /// TypeScript, without JSX.
    TypeScript,
    /// Rust.
    Rust,
    /// Go.
    Go,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Python, Self::JavaScript, Self::TypeScript, Self::Rust, Self::Go];

    /// The language that the ending of this path stands for.
    pub fn of_path(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "py" | "pyi" => Some(Self::Python),
            "js" | "jsx" | "mjs" | "cjs" => Some(Self::JavaScript),
            "ts" | "mts" | "cts" => Some(Self::TypeScript),
            "rs" => Some(Self::Rust),
            "go" => Some(Self::Go),
            _ => None,
        }
    }

    /// The name in lower case, as in a setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Rust => "rust",
            Self::Go => "go",
        }
    }

    pub(super) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
        }
    }

    /// What each kind of the grammar means, by its number.
    pub(super) fn roles(self) -> &'static [Role] {
        static ROLES: [OnceLock<Vec<Role>>; 5] = [const { OnceLock::new() }; 5];
        ROLES[self as usize].get_or_init(|| {
            let grammar = self.grammar();
            let of = |kind| match grammar.node_kind_is_named(kind) {
                true => Role::of_named(grammar.node_kind_for_id(kind).unwrap_or_default()),
                false => Role::of_token(grammar.node_kind_for_id(kind).unwrap_or_default()),
            };
            (0..u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX)).map(of).collect()
        })
    }

    pub(super) fn kind_name(self, kind: u16) -> &'static str {
        if kind == u16::MAX { "ERROR" } else { self.grammar().node_kind_for_id(kind).unwrap_or("unknown") }
    }
}

/// What a kind of node means to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A word or sign without meaning of its own: brackets, separators, quotes.
    Punctuation,
    /// Any other word or sign: it belongs to the label of its parent.
    Sign,
    /// Comments and what else is not there for the comparison.
    Nothing,
    /// Parentheses around an expression: the tree already says what belongs together.
    Wrapper,
    /// The opening quote of a Python string: only its prefix counts.
    Quote,
    /// Taken whole, by its text.
    Atom,
    /// An expression in which the place of a sign matters: `a[:1]` is not `a[1:]`.
    Placed,
    Identifier,
    Number,
    Text,
    /// `true`, `false`, `None`, `nil`…
    Constant,
    /// A list, tuple, dictionary or struct written out.
    Composite,
    /// One entry of a dictionary.
    Pair,
    Function,
    Lambda,
    If,
    Else,
    /// One arm of a match or switch.
    Arm,
    Block,
    /// A statement that is only an expression.
    Statement,
    Return,
    Raise,
    /// Leaves a loop or an iteration.
    Jump,
    /// Does nothing: `pass`, `...`.
    Idle,
    Assert,
    Catch,
    With,
    While,
    Call,
    Macro,
    Comparison,
    /// Declares or sets variables.
    Binding,
    Attribute,
    Decorated,
    Export,
    Module,
    Plain,
}

impl Role {
    fn of_token(name: &str) -> Self {
        match name {
            "" | "(" | ")" | "{" | "}" | "[" | "]" | "," | ";" | ":" | "\n" | "\"" | "'" | "`" | "\0" => Self::Punctuation,
            _ => Self::Sign,
        }
    }

    fn of_named(name: &str) -> Self {
        match name {
            "comment" | "line_comment" | "block_comment" | "html_comment" | "line_continuation" | "empty_statement"
            | "string_end" => Self::Nothing,
            "parenthesized_expression" | "parenthesized_type" | "import_spec_list" | "var_spec_list" => Self::Wrapper,
            "string_start" => Self::Quote,
            "string_content" | "escape_sequence" => Self::Atom,
            "slice" | "slice_expression" | "range_expression" | "range_pattern" => Self::Placed,
            "identifier"
            | "property_identifier"
            | "field_identifier"
            | "type_identifier"
            | "package_identifier"
            | "shorthand_property_identifier"
            | "shorthand_property_identifier_pattern"
            | "shorthand_field_identifier"
            | "private_property_identifier"
            | "statement_identifier"
            | "label_name" => Self::Identifier,
            "integer" | "float" | "number" | "integer_literal" | "float_literal" | "int_literal" | "imaginary_literal" => {
                Self::Number
            }
            "string"
            | "concatenated_string"
            | "template_string"
            | "string_literal"
            | "raw_string_literal"
            | "char_literal"
            | "interpreted_string_literal"
            | "rune_literal" => Self::Text,
            "true" | "false" | "none" | "null" | "nil" | "undefined" | "boolean_literal" | "unit_expression" => Self::Constant,
            "list" | "tuple" | "dictionary" | "set" | "array" | "object" | "array_expression" | "tuple_expression"
            | "composite_literal" | "literal_value" | "literal_element" | "expression_list" => Self::Composite,
            "pair" | "keyed_element" => Self::Pair,
            "function_definition"
            | "function_declaration"
            | "generator_function_declaration"
            | "method_definition"
            | "function_item"
            | "method_declaration" => Self::Function,
            "lambda" | "arrow_function" | "function_expression" | "closure_expression" | "func_literal" => Self::Lambda,
            "if_statement" | "if_expression" | "elif_clause" => Self::If,
            "else_clause" => Self::Else,
            "match_arm" | "switch_case" | "expression_case" | "case_clause" => Self::Arm,
            "block" | "statement_block" | "statement_list" | "module" | "program" | "source_file" => Self::Block,
            "expression_statement" => Self::Statement,
            "return_statement" | "return_expression" => Self::Return,
            "raise_statement" | "throw_statement" => Self::Raise,
            "break_statement" | "continue_statement" | "break_expression" | "continue_expression" | "goto_statement" => {
                Self::Jump
            }
            "pass_statement" | "ellipsis" => Self::Idle,
            "assert_statement" => Self::Assert,
            "except_clause" | "catch_clause" => Self::Catch,
            "with_statement" => Self::With,
            "while_statement" | "while_expression" => Self::While,
            "call" | "call_expression" => Self::Call,
            "macro_invocation" => Self::Macro,
            "comparison_operator" | "binary_expression" => Self::Comparison,
            "let_declaration"
            | "assignment"
            | "assignment_statement"
            | "assignment_expression"
            | "short_var_declaration"
            | "variable_declarator"
            | "var_spec"
            | "const_spec"
            | "const_item"
            | "static_item" => Self::Binding,
            "attribute_item" | "decorator" => Self::Attribute,
            "decorated_definition" => Self::Decorated,
            "export_statement" => Self::Export,
            "mod_item" => Self::Module,
            _ => Self::Plain,
        }
    }
}
