//! What the compiler says about mistakes in handlers and routers.
//!
//! Each case is a small program. The library is checked once, without SQLite and in a folder of its own;
//! then `rustc` reads every case, and its words are compared.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The mistake, its program, and what the compiler must say.
const CASES: [(&str, &str, &[&str]); 14] = [
    (
        "a plain function",
        "fn handler(_: Json<f64>) -> Result<(), std::io::Error> { Ok(()) }",
        &["{handler}` is not a handler", "make it an `async fn`"],
    ),
    (
        "a parameter that is not in a message",
        "async fn handler(_: AttemptNumber, _: f64) {}",
        &["`f64` cannot be a parameter of a handler", "use `Json<T>` for the body"],
    ),
    (
        "a result with a value",
        "async fn handler() -> Result<String, std::io::Error> { Ok(String::new()) }",
        &["a handler cannot return `Result<String, std::io::Error>`", "return `()` or"],
    ),
    (
        "an error that does not leave its thread",
        "async fn handler() -> Result<(), Box<dyn std::error::Error>> { Ok(()) }",
        &[
            "a handler cannot return `Result<(), Box<(dyn std::error::Error",
            "Send + Sync>`, not `Box<dyn Error>`",
        ],
    ),
    (
        "an error that is none",
        "struct Odd; async fn handler() -> Result<(), Odd> { Ok(()) }",
        &["a handler cannot return `Result<(), Odd>`", "where `E` is `Failure`"],
    ),
    (
        "something held across an await that must not be",
        "async fn handler() { let held = std::rc::Rc::new(1); std::future::ready(()).await; drop(held); }",
        &["future cannot be sent between threads safely", "Rc<i32>", "await"],
    ),
    (
        "state that the router does not hold",
        "#[derive(Clone)] struct Database; async fn handler(_: State<Database>) {}",
        &["the router's state `()` holds no `Database`", "Router::with_state"],
    ),
    (
        "a body that cannot be read",
        "struct LabResult; async fn handler(_: Json<LabResult>) {}",
        &["`LabResult: serde::Deserialize<'de>` is not satisfied", "#[derive(serde::Deserialize)]"],
    ),
    (
        "too many parameters",
        "type N = AttemptNumber;
         async fn handler(_: N, _: N, _: N, _: N, _: N, _: N, _: N, _: N, _: N) {}",
        &["{handler}` is not a handler", "up to 8 parameters"],
    ),
    (
        "a conversion that the one for all errors forbids",
        "#[derive(Debug)] struct Mine;
         impl std::fmt::Display for Mine {
             fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(\"\") }
         }
         impl std::error::Error for Mine {}
         impl From<Mine> for Failure { fn from(_: Mine) -> Self { Failure::permanent(\"\") } }
         async fn handler() {}",
        &["conflicting implementations of trait `From<Mine>` for type `bezoar::Failure`"],
    ),
    (
        "a rule that says no kind",
        "async fn handler() {}
         fn rules() { Router::new().classify(|_: &std::io::Error| \"permanent\"); }",
        &["`Classification: From<&str>` is not satisfied", "FailureKind"],
    ),
    (
        "a typed handler whose body has no type of message",
        "async fn handler() {}
         async fn typed(_: Json<f64>) {}
         fn rules() { Router::new().on_message(typed); }",
        &["`f64` does not say which type of message it is the body of", "impl TypedMessage for f64"],
    ),
    (
        "a typed handler whose body is not its first parameter",
        "async fn handler() {}
         async fn typed(_: AttemptNumber, _: Json<f64>) {}
         fn rules() { Router::new().on_message(typed); }",
        &["expected function signature `fn(bezoar::Json<_>, _)"],
    ),
    (
        "a handler of batches with one value for all",
        "async fn handler() {}
         async fn batch(_: Batch<Json<f64>>) -> Vec<bool> { Vec::new() }
         fn rules() { Router::new().on_batch(\"x\", BatchOptions::default(), batch); }",
        &["a handler of batches cannot return `Vec<bool>`", "with a result for each message"],
    ),
];

/// The positive control: what is right compiles, texts and boxed errors as `Err` included.
const RIGHT: [&str; 7] = [
    "async fn handler() {}",
    "async fn handler(_: Json<f64>, _: AttemptNumber) -> Result<(), Failure> { Err(\"no\")? }",
    "async fn handler(_: State<()>) -> Result<(), String> { Err(String::new()) }",
    "async fn handler() -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(()) }",
    "type N = AttemptNumber; async fn handler(_: (N, N, N, N, N), _: (N, N, N, N, N)) {}",
    "async fn handler(_: Option<Extension<u8>>) -> Result<(), Snooze> { Ok(()) }",
    "struct Mine;
     impl From<Mine> for Failure { fn from(_: Mine) -> Self { Failure::permanent(\"\") } }
     async fn handler() -> Result<(), Mine> { Err(Mine) }",
];

#[test]
fn the_compiler_names_what_is_wrong_with_a_handler() {
    let compiler = Compiler::new();
    for right in RIGHT {
        let (compiled, said) = compiler.read(right);
        assert!(compiled, "{right}\n{said}");
    }
    for (mistake, program, expected) in CASES {
        let (compiled, said) = compiler.read(program);
        assert!(!compiled, "{mistake} compiles");
        for expected in expected {
            assert!(said.contains(expected), "{mistake}: “{expected}” is not in\n{said}");
        }
    }
}

struct Compiler {
    folder: PathBuf,
    library: PathBuf,
}

impl Compiler {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
        let checked = Command::new(env!("CARGO"))
            .args(["check", "--quiet", "--offline", "--package", "bezoar", "--no-default-features"])
            .args(["--message-format", "json", "--target-dir"])
            .arg(&folder)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        Self { library: library(&checked), folder }
    }

    /// Whether a program with this handler compiles, and what the compiler says.
    fn read(&self, handler: &str) -> (bool, String) {
        let source = self.folder.join("case.rs");
        std::fs::write(
            &source,
            format!(
                "#![allow(unused)]\nuse bezoar::*;\n{handler}\n\
                 fn main() {{ Router::new().on(\"lab.result\", handler); }}\n"
            ),
        )
        .unwrap();
        let read = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args(["--edition", "2024", "--emit", "metadata", "--color", "never", "--out-dir"])
            .arg(&self.folder)
            .arg("--extern")
            .arg(format!("bezoar={}", self.library.display()))
            .arg("-L")
            .arg(format!("dependency={}", self.library.parent().unwrap().display()))
            .arg(&source)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        (read.status.success(), text(&read.stderr))
    }
}

/// The file that cargo made of the library.
fn library(checked: &Output) -> PathBuf {
    let lines = text(&checked.stdout);
    let messages = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let library = messages
        .filter(|message: &serde_json::Value| message["target"]["name"] == "bezoar")
        .find_map(|message| message["filenames"][0].as_str().map(PathBuf::from));
    library.expect("cargo says where the library is")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
