//! The recipes of the worlds that hone ships: small on purpose.

use crate::recipe::Recipe;

const WORLDS: [(&str, &str); 10] = [
    (
        "desk",
        r#"components = [
            { name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "process", kind = "process", signal = "needed", weight = 1.0, role = "secondary" },
            { name = "format", kind = "format", weight = 0.1, role = "secondary" },
        ]"#,
    ),
    (
        "2048",
        r#"components = [
            { name = "highest_tile", kind = "signal", signal = "highest_tile", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "board_value", kind = "signal", signal = "board_value", range = [0, 1], weight = 0.2, role = "secondary" },
        ]"#,
    ),
    (
        "tictactoe",
        r#"components = [
            { name = "result", kind = "signal", signal = "result", range = [0, 1], weight = 1.0, role = "primary" },
        ]"#,
    ),
    (
        "inbox",
        r#"components = [
            { name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "wrong", kind = "signal", signal = "wrong", range = [0, 1], weight = -0.5, role = "penalty" },
        ]"#,
    ),
    (
        "arc",
        r#"components = [
            { name = "correctness", kind = "signal", signal = "correctness", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "valid_syntax", kind = "signal", signal = "valid_syntax", range = [0, 1], weight = 0.1, role = "secondary" },
            { name = "right_shape", kind = "signal", signal = "right_shape", range = [0, 1], weight = 0.1, role = "secondary" },
            { name = "runs", kind = "signal", signal = "runs", combine = "sum", range = [0, 10], weight = -0.01, role = "penalty" },
            { name = "thoughts", kind = "signal", signal = "thoughts", combine = "sum", range = [0, 10], weight = -0.01, role = "penalty" },
        ]"#,
    ),
    (
        "arc-edit",
        r#"components = [
            { name = "correctness_gain", kind = "signal", signal = "correctness_gain", range = [-1, 1], weight = 1.0, role = "primary" },
            { name = "valid_syntax", kind = "signal", signal = "valid_syntax", range = [0, 1], weight = 0.1, role = "secondary" },
            { name = "right_shape", kind = "signal", signal = "right_shape", range = [0, 1], weight = 0.1, role = "secondary" },
            { name = "runs", kind = "signal", signal = "runs", combine = "sum", range = [0, 10], weight = -0.01, role = "penalty" },
            { name = "thoughts", kind = "signal", signal = "thoughts", combine = "sum", range = [0, 10], weight = -0.01, role = "penalty" },
        ]"#,
    ),
    (
        "code",
        r#"components = [
            { name = "tests_passed", kind = "signal", signal = "tests_passed", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "valid_syntax", kind = "signal", signal = "valid_syntax", range = [0, 1], weight = 0.1, role = "secondary" },
        ]"#,
    ),
    (
        "code-edit",
        r#"components = [
            { name = "tests_gained", kind = "signal", signal = "tests_gained", range = [-1, 1], weight = 1.0, role = "primary" },
            { name = "small_change", kind = "signal", signal = "small_change", range = [0, 1], weight = 0.3, role = "secondary" },
            { name = "valid_syntax", kind = "signal", signal = "valid_syntax", range = [0, 1], weight = 0.1, role = "secondary" },
        ]"#,
    ),
    (
        "replay",
        r#"components = [
            { name = "solved", kind = "signal", signal = "solved", range = [0, 1], weight = 1.0, role = "primary" },
        ]"#,
    ),
    (
        "math",
        r#"components = [
            { name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "format", kind = "format", weight = 0.1, role = "secondary" },
        ]"#,
    ),
];

impl Recipe {
    /// The recipe of a shipped world.
    pub fn for_world(name: &str) -> Option<Self> {
        let (_, toml) = WORLDS.iter().find(|(world, _)| *world == name)?;
        let recipe = Self::parse(toml).expect("shipped recipes are tested");
        Some(Self { name: name.to_owned(), ..recipe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_recipe_is_read_and_nothing_is_unwise_about_it() {
        for (name, _) in WORLDS {
            let recipe = Recipe::for_world(name).unwrap();
            assert_eq!(recipe.name, name);
            let told: Vec<String> = crate::lint(&recipe).into_iter().map(|finding| finding.what).collect();
            // Five parts are what programs for grids are judged by; that it is one too many may be said.
            let expected: &[&str] = if name.starts_with("arc") { &["the recipe has 5 components"] } else { &[] };
            assert_eq!(told, expected, "{name}");
        }
        assert_eq!(Recipe::for_world("nowhere"), None);
    }
}
