//! Messages for later, and messages that are accepted only once however often they are sent.

use std::time::{Duration, Instant};

use bezoar::{
    Clock, Context, Failure, Json, Router, Shutdown, State, SystemClock, TypedMessage, Worker,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Reminder {
    text: String,
}

impl TypedMessage for Reminder {
    const TYPE: &'static str = "reminder";
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone)]
struct App {
    started: Instant,
    shutdown: Shutdown,
}

async fn remind(
    Json(reminder): Json<Reminder>,
    context: Context,
    State(app): State<App>,
) -> Result<(), Failure> {
    let seconds = app.started.elapsed().as_secs();
    println!("after {seconds} s: {} ({})", reminder.text, context.message.id);
    if context.message.id.as_str() == "last" {
        app.shutdown.drain();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("bezoar-scheduled-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?; // before there is anything to block
    let bezoar =
        bezoar::connect(&format!("sqlite:{}", folder.join("reminders.db").display())).await?;
    bezoar.provision("reminders").await?;
    let reminder = |text: &str| bezoar.message(&Reminder { text: text.to_owned() });

    // An order is confirmed once a day at most: the second message is taken for the first.
    for _ in 0..2 {
        reminder("confirmed").id("order-17").once(DAY).send_to("reminders").await?;
    }
    // A delay, or a time.
    reminder("later").id("later").delay(Duration::from_secs(1)).send_to("reminders").await?;
    let then = SystemClock.now() + Duration::from_secs(2);
    reminder("last").id("last").at(then).send_to("reminders").await?;

    let app = App { started: Instant::now(), shutdown: Shutdown::default() };
    let shutdown = app.shutdown.clone();
    let router = Router::with_state(app).on_message(remind);
    bezoar.run_until(Worker::new("reminders", router)?, shutdown).await?;
    drop(bezoar);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
