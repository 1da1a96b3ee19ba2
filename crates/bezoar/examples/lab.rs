//! Stores laboratory results; run it, look at lab.db with sqlite3, stop it with Ctrl-C.

use bezoar::{AttemptNumber, Failure, Json, Router, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct LabResult {
    patient: u32,
    value: f64,
}

async fn store(Json(result): Json<LabResult>, attempt: AttemptNumber) -> Result<(), Failure> {
    if result.value < 0.0 {
        return Err(Failure::permanent("a negative value")); // never retried: a dead letter
    }
    std::fs::write(format!("{}.txt", result.patient), result.value.to_string())?; // retried
    println!("stored a result of patient {} on attempt {}", result.patient, attempt.0);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let bezoar = bezoar::connect("sqlite:lab.db").await?;
    bezoar.provision("lab").await?;
    bezoar.send("lab", "lab.result", &LabResult { patient: 7, value: 14.1 }).await?;
    bezoar.run(Worker::new("lab", Router::new().on("lab.result", store))?).await
}
