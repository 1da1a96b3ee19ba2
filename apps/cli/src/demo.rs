//! `bezoar demo`: a story on the embedded queue. A laboratory sends results to an archive that is at times
//! slow to answer, once goes down, and gets some results that nobody can store.

mod archive;
mod laboratory;
mod narrator;

use std::{io::IsTerminal, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use bezoar::{Backoff, Bezoar, DeadLetter, Jitter, Page, QueueName, RetryPolicy, Shutdown, Worker};
use tokio::time::sleep;

use archive::Archive;
use narrator::Narrator;

const QUEUE: &str = "lab";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the story lasts [default: until Ctrl-C on a terminal, 30 otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let seconds = arguments.seconds.or((!terminal).then_some(30));
    let folder = tempfile::tempdir().context("cannot make a folder for the demo's database")?;
    let path = folder.path().join("demo.db");
    let bezoar = bezoar::connect(&format!("sqlite:{}", path.display())).await?;
    bezoar.provision(QUEUE).await?;

    let narrator = Arc::new(Narrator::new(terminal));
    narrator.introduce(&path, seconds);
    let (archive, shutdown) = (Archive::default(), Shutdown::default());
    let worker = worker(archive.clone(), narrator.clone())?;
    let working = tokio::spawn({
        let (bezoar, shutdown) = (bezoar.clone(), shutdown.clone());
        async move { bezoar.run_until(worker, shutdown).await }
    });
    let sending = laboratory::send_results(bezoar.clone(), narrator.clone(), shutdown.clone());
    let mut sending = tokio::spawn(sending);
    tokio::select! {
        sent = &mut sending => return sent?,
        acted = act(&bezoar, &archive, &narrator, seconds) => acted?,
        _ = tokio::signal::ctrl_c() => narrator.say("■", "stopping"),
    }
    shutdown.drain();
    sending.await??; // a result that is on its way is counted
    working.await??;
    summarize(&bezoar, &narrator).await
}

fn worker(archive: Archive, narrator: Arc<Narrator>) -> Result<Worker> {
    let backoff = Backoff::Exponential { first: Duration::from_millis(400), multiplier: 2.0 };
    let policy = RetryPolicy::new(3, backoff, Duration::from_secs(5), Jitter::Symmetric(0.1))?;
    let worker = Worker::new(QUEUE, archive.router())?.policy(policy).without_observers();
    Ok(worker.concurrency(8).observer(narrator))
}

/// What happens to the archive and what the operator does, in rounds; without an end if there is none.
async fn act(
    bezoar: &Bezoar,
    archive: &Archive,
    narrator: &Narrator,
    seconds: Option<u32>,
) -> Result<()> {
    let story = Duration::from_secs(seconds.unwrap_or(30).into());
    loop {
        sleep(story.mul_f64(0.25)).await;
        narrator.say("▼", "the archive goes down: everything fails, and waits longer each time");
        archive.go_down();
        sleep(story.mul_f64(0.25)).await;
        narrator.say("▲", "the archive is back");
        archive.come_back();
        sleep(story.mul_f64(0.15)).await;
        replay(bezoar, archive, narrator).await?;
        sleep(story.mul_f64(0.35)).await;
        if seconds.is_some() {
            narrator.say("■", "the end: no more results are sent");
            return Ok(());
        }
    }
}

async fn replay(bezoar: &Bezoar, archive: &Archive, narrator: &Narrator) -> Result<()> {
    let dead = dead_letters(bezoar).await?;
    narrator.say("?", &format!("an operator looks at {} dead letters", dead.len()));
    narrator.causes(&dead);
    archive.accept_corrections();
    let count = bezoar.redrive(QUEUE).await?;
    let fix = "the archive now accepts corrections, and";
    narrator.say("⟲", &format!("{fix} all {count} are replayed, each once"));
    Ok(())
}

/// Accepted is done, dead or waiting: nothing is lost, nothing is there twice.
async fn summarize(bezoar: &Bezoar, narrator: &Narrator) -> Result<()> {
    let depth = bezoar.admin().depth(&QueueName::new(QUEUE)?).await?;
    let waiting = [depth.ready, depth.delayed, depth.leased].into_iter().flatten().sum();
    let dead = dead_letters(bezoar).await?;
    if !narrator.conclude(waiting, &dead) {
        bail!("the numbers do not add up: this is a defect, please report it");
    }
    Ok(())
}

async fn dead_letters(bezoar: &Bezoar) -> Result<Vec<DeadLetter>> {
    let queue = QueueName::new(QUEUE)?;
    let (mut all, mut page) = (Vec::new(), Page::default());
    loop {
        let more = bezoar.admin().dead_letters(&queue, page).await?;
        let Some(last) = more.last() else { return Ok(all) };
        page.after = Some(last.id);
        all.extend(more);
    }
}
