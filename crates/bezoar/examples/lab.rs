//! Stores laboratory results until Ctrl-C. Its messages are in lab.db.

use bezoar::{AttemptNumber, Failure, Json, Router, TypedMessage, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct LabResult {
    patient: u32,
    value: f64,
}

impl TypedMessage for LabResult {
    const TYPE: &'static str = "lab.result";
}

async fn store(Json(result): Json<LabResult>, attempt: AttemptNumber) -> Result<(), Failure> {
    if result.value < 0.0 {
        return Err(Failure::permanent("a negative value")); // never retried: a dead letter
    }
    insert(&result).await?; // any error: retried
    println!("stored a result on attempt {}", attempt.0);
    Ok(())
}

async fn insert(_: &LabResult) -> Result<(), std::io::Error> {
    Ok(()) // your database
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bezoar = bezoar::connect("sqlite:lab.db").await?;
    bezoar.provision("lab").await?;
    bezoar.send_message("lab", &LabResult { patient: 7, value: 14.1 }).await?;
    bezoar.send_message("lab", &LabResult { patient: 8, value: -1.0 }).await?;
    bezoar.run(Worker::new("lab", Router::new().on_message(store))?).await?;
    Ok(())
}
